"""ZAB atomic broadcast, and the coordination service that is built on it.

The modules directly in this package are the protocol: pure, one member's state, events in and effects out. They import
`zab.wire` and `datatree.log`, and know neither sockets, files, clocks nor randomness.
"""
