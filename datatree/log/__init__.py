"""The transaction log on disk: batches, frames, segments, the files beside them, and the `Disk` that all of it goes
through.

Nothing here knows what a transaction means. Imports nothing of ours.
"""
