"""What keeps an ensemble well: what its members say made a verdict, checks, and what a backup holds. Pure."""
