"""What waits: delayed operations, and the timing wheel that ends their waiting.

Pure, for one thread: time is an argument. Begin with `purgatory.py`.
"""
