"""Plain state that the turns and the figures of a member need."""
