"""The transaction log on disk: batches, frames, segments, the files beside them, and the `Disk` that they all use.

Nothing here knows what a transaction means. Imports no other package of this project.
"""
