"""Kafka's protocol without I/O: primitives, messages, headers, frames, errors; the consumer protocol; and the records
that coordinators write.

Knows no log and no broker, and imports only attrs. Begin with `declare.py`, then `messages` and `frames.py`.
"""
