"""The reader of a ledger: what is confirmed, entries in order, and the tail of a ledger that is still written."""
