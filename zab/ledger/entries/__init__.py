"""An entry as bytes: ids, the envelope that clients, bookies and disks share, its digest, and the keys of a ledger."""
