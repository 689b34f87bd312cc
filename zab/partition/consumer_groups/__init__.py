"""Groups whose partitions the coordinator assigns (KIP-848): what they are, and what becomes of them by each request.

Pure state: records in, records out. What is appended, waits and is answered is in `zab/partition/groups`.
"""
