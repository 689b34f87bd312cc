"""A partitioned, replicated log for Kafka's clients: its rooms are the record batch, the log, and what waits for it."""
