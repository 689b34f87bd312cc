"""The Zab protocol alone: one `Peer`, events in, effects out.

Pure: it knows neither sockets, files, clocks nor randomness.
"""
