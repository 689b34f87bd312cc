"""What the coordination service keeps of ledgers and bookies: the values, their bytes, their paths below the root."""
