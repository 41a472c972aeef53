"""Documents as versions on a server that others write to meanwhile."""
