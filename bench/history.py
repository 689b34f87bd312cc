"""A history of clients that run during the load: three of our members, the load generator, and clients that record.

    python -m bench.history FILE.parquet [--seconds S] [--cell KEY] [--clients N]

The load is a cell of the benchmark (`--cell`, as `bench.compare` names it; `none` for no load), on znodes of its own.
Meanwhile N clients write, read and sync a few znodes that they share, record the replies, and write them as Parquet.
Then the history is checked, as `zab pipeline history FILE` does; exit code 1 if a promise was broken. Everything
started here is ended here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bench.cells import all_cells, hosts_of, run_load
from tests.chaos.checker import Kind, Operation
from tests.chaos.client import SHARED_PATHS, RecordingClient, Request
from tests.pipeline.rigs.recording import record
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.pipeline.history.files import read_history
from zab.pipeline.jobs.history import check_table

MEMBERS = 3
NO_LOAD = "none"


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    with (
        tempfile.TemporaryDirectory(prefix="bench-history-") as directory,
        zab_servers(MEMBERS, directory=Path(directory), configuration={"maxClientCnxns": 0}) as ensemble,
    ):
        operations = run(ensemble, options.seconds, options.cell, options.clients)
    record(options.file, operations)
    rows = check_table(read_history([options.file])).to_pylist()
    answered = sum(one.end != float("inf") for one in operations)
    print(f"{len(operations)} operations, {answered} answered, in {options.file}; {len(rows)} violations")
    for row in rows:
        print(f"{row['kind']} {row['path']}: {row['sentence']}", *row["witness"], sep="\n    ")
    return 1 if rows else 0


def run(ensemble: ZooKeeperEnsemble, seconds: float, cell: str, client_count: int) -> list[Operation]:
    """What the recording clients were told during the load."""
    ports = [("127.0.0.1", member.client_port) for member in ensemble.members]
    founder = RecordingClient(0, ports, 0)
    founder.once(ports[0], [Request(Kind.CREATE, "/chaos", "root")])
    founder.once(ports[0], [Request(Kind.CREATE, path, f"first {path}") for path in SHARED_PATHS])
    clients = [RecordingClient(number, ports, number) for number in range(1, client_count + 1)]
    stop = threading.Event()
    threads = [threading.Thread(target=client.run, args=(stop,), name=f"client {client.number}") for client in clients]
    for thread in threads:
        thread.start()
    try:
        if cell == NO_LOAD:
            time.sleep(seconds)
        else:
            chosen = next(one for one in all_cells() if one.key == cell)
            found = run_load(hosts_of(chosen, ensemble), chosen, seconds=seconds, warmup_seconds=0.1)
            print(f"{chosen.title}: {found.per_second:,.0f} a second beside {client_count} recording clients")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return [*founder.operations, *(one for client in clients for one in client.operations)]


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.history", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, metavar="FILE.parquet")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--cell", default="set:30x100:all", choices=[NO_LOAD, *(cell.key for cell in all_cells())])
    parser.add_argument("--clients", type=int, default=4)
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
