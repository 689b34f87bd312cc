"""The replicated state: znodes, ACLs, quotas, watches, transactions, their log and their snapshots.

Pure: files are only reached through a `datatree.log.disk.Disk` argument, and time is always an argument. Imports attrs
and cbor2; never `zab`, trio or `os`.
"""
