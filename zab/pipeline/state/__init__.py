"""The tree at a moment: put together from a snapshot and the log, and written as a snapshot again."""
