"""Replicated ledgers in the simulated world: bookies, and writers, recoverers and readers of ledgers, with judges.

judge, metadata_judge, bookie_judge     what users are told; how metadata change; what bookies may answer
"""
