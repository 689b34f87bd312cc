"""Which sessions are alive: expiration buckets, the leader's session tracker, session ids and passwords.

Pure: time is always an argument. Imports attrs and sortedcontainers; never `zab` or trio. Which sessions exist, and
with what timeout, is replicated state and belongs to `datatree`; this package only tracks liveness.
"""
