"""The transaction coordinator: what a producer's transaction is, and that its partitions end it together (KIP-98)."""
