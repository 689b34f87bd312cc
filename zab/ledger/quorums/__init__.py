"""Which bookies hold an entry, how many of them have it, and how many answers prove that it is nowhere."""
