"""Kafka's client protocol without I/O: primitives, messages, headers, frames, errors; the consumer protocol; and the
records that coordinators write.

Knows no log and no broker; imports only the house's frames (`zab.wire`). Begin with `declare.py`, then `api.py`.
"""
