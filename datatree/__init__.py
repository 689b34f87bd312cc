"""The replicated state: znodes, ACLs, quotas, watches, transactions, their log and their snapshots.

Pure: files are reached only through a `datatree.log.disk.Disk` that is handed in, and time is always an argument.
Imports attrs and cbor2; never `zab`, trio or `os`.
"""
