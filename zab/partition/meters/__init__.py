"""What a broker counts of what is asked of it."""
