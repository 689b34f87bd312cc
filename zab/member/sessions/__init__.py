"""The sessions of this member."""
