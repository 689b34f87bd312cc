"""Replicated ledgers in the simulated world: bookies, and writers, recoverers and readers of ledgers, with judges.

    bookie_process                      one bookie on simulated ports
    client_process, wires, plan         one client: its cores, its session, its connections with bookies
    writer, recoverer, reader           what clients do
    replicator                          auditors and workers of auto-recovery
    judge, metadata_judge, bookie_judge what users are told; how metadata change; what bookies may answer
    cluster, network                    the machines; connections that fall silent
    profile, scope, faults, simulation  what a seed decides, what goes wrong, and one run

Bookies and clients run the cores of production, with their codecs and their files.
"""
