"""Whole ensembles in one thread, for tests: real protocol code and storage; links, disks and clients are in memory.

peers       the protocol alone: `Peer`s, whose every message and storage effect a test can hold back
members     whole members with clients that speak the wire protocol by hand
lone_peer   one server of `peers`: a peer in the place of a member
ports       what the ports of both have in common
"""
