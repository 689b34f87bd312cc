"""How long a frame between members may be."""

DATA_FRAME_BYTES_MAX = 256 << 10
"""Proposals and requests above this are cut into several messages, between two batches or writes."""

FRAME_BYTES_MAX = 32 << 20
"""The largest frame between members. What a configuration allows must fit: a batch has less than `maxBatchBytes`, plus
one more transaction, a request of `jute.maxbuffer` whose ACLs may have doubled."""
JOINING_BYTES_MAX = 4096
"""The largest frame from a learner before UPTODATE."""

FRAME_SPARE_BYTES = 64 << 10
"""Room for what surrounds a batch in its frame."""
