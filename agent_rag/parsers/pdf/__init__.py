"""PDF: two engines, what stands where on a page, and what is done to its text."""
