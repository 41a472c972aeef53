"""HTML and what is made of it."""
