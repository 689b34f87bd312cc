"""Bytes of logs and snapshots into Arrow columns, without a Python step per record."""
