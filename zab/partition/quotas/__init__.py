"""How much clients may use: their quotas, what they have used, and how long they wait above them.

Not here: requests, connections (`zab.partition.requests`).
"""
