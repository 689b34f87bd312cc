"""The comparison of Python clients runs, and counts what was done."""

from bench.python_client import CALLERS, CLIENTS, PATH, measure, table
from tests.rigs.zab_server import zab_servers
from zab.client import sync


def test_every_client_is_measured_with_every_number_of_callers() -> None:
    with zab_servers(1) as ensemble:
        with sync.connect(ensemble.hosts) as zk:
            zk.create(PATH, b"x")
        found = measure(ensemble.hosts, rounds=1, seconds=0.02)
    assert found.keys() == {(name, callers) for name in CLIENTS for callers in CALLERS}
    assert all(rate > 0 and used > 0 for [(rate, used)] in found.values())
    rows = table(found)
    assert len(rows) == 2 + len(CLIENTS)
    assert "(1.0;" in next(row for row in rows if row.startswith("| kazoo, threads"))
