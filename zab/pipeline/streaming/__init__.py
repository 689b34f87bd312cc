"""Logs that are still being written, followed: Spark's stream of `zab.log`."""
