"""Managed ledgers in runs with ledgers (`--focus logs`): their owners, readers, object store and judges."""
