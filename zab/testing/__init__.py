"""Whole ensembles in one thread, for tests: real protocol code; links, storage and clients are lists in memory.

peers       the protocol alone: `Peer`s, whose every message and storage effect a test can hold back
members     whole members with clients that speak the wire protocol by hand
"""
