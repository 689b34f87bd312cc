"""kafka-python's record batches. Its package reads its schemas in a way that Python 3.11 and 3.12 warn of."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", r"(read|open)_text is deprecated", DeprecationWarning)
    from kafka.errors import CorruptRecordError
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

__all__ = ["CorruptRecordError", "DefaultRecordBatch", "DefaultRecordBatchBuilder"]
