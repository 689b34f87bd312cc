"""Commands for replicated ledgers."""
