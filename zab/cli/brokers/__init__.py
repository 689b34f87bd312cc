"""Commands for brokers: topics, records, groups of consumers."""
