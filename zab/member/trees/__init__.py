"""The tree of a member: whether it is right, how it is made again, and its snapshots."""
