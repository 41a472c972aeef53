"""E-mail and Outlook messages."""
