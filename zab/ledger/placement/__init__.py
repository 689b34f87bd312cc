"""Which bookies a ledger is placed on."""
