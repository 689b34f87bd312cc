"""The client for threads that block: `with zab.client.sync.connect("host:port,…") as zk: …`.

    zk = connect("127.0.0.1:2181")
    zk.create("/app", b"hello", ephemeral=True)
    data, stat = zk.get("/app")
    zk.close()

The names, arguments, results and errors are those of `zab.client`, but nothing is awaited. A client may be used by any
number of threads at once: each waits for its own answers, and their requests share the connection. The coroutines of
`zab.client` do the work: they run to their end in the calling thread (`zab.client.on_threads`).

Exceptions and types are in `zab.client`.
"""

from zab.client.sync.client import Client, Scope, connect
from zab.client.sync.watching import Changes, ChildNames, StateChanges, Transaction, Watcher
from zab.client.sync.znodes import Znodes

__all__ = ["Changes", "ChildNames", "Client", "Scope", "StateChanges", "Transaction", "Watcher", "Znodes", "connect"]
