"""The faults of an ensemble."""
