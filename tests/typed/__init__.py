"""Programs of users, for the type checkers: one that is right, one in which each marked line is a mistake."""
