"""What clients ask, and whether what they are told is right."""
