"""Stores the history of a member, and reads it again, over a `Disk`."""
