"""Spreadsheets of every format, as one grid of cells."""
