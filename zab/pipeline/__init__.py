"""PySpark over logs and snapshots: a cluster's whole history as DataFrames.

Needs the extra `zab[pipeline]`; importing a part of this package without it says so.
"""
