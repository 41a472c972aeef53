"""Formats that are text: plain, Markdown, reStructuredText, code, data; and how bytes become text."""
