"""The writer of one ledger: entries in order, on enough bookies, until it is closed or somebody else has closed it."""
