"""Managed ledgers: a named log without end, which is a list of ledgers with one owner at a time, and its cursors."""
