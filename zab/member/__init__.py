"""One member of the ensemble, without I/O: its requests, reads, sessions, storage and settings.

`member` wires the protocol (`zab.protocol.peer`), the tree and the sessions into one step a turn. The server and the
simulator run the same code. Pure: imports the protocol, `zab.jute`, `datatree`, `session` and `zab.configuration`.
"""
