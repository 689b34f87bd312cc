"""Replicated ledgers, for BookKeeper's clients and beside BookKeeper's bookies: entries, protocol, metadata, and the
cores of writers, readers, recoveries and bookies.

Everything is pure: bytes and events in, bytes and effects out. Begin with `entries/envelope.py` and `wire/messages.py`.
"""
