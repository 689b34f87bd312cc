"""Commands for bookies."""
