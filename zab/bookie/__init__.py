"""One bookie on the kernel: its sockets, its disk, its session with the coordination service. The core is
`zab.ledger.bookie`; the settings have the keys of BookKeeper.
"""
