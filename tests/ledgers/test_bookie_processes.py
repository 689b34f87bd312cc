"""The client on bookies that are processes: one is killed by the system while appends are under way."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import trio

from tests.cli.commands import started
from tests.rigs.waiting import until, until_async
from zab.client import connect
from zab.ledgers import open_store
from zab.ledgers.tools import check_ledger
from zab.testing.kit.ports import free_ports, free_ports_in_a_row

pytestmark = [pytest.mark.process, pytest.mark.long]


def process_of(bookie: str, parent: int) -> int:
    """The process that runs this bookie."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    [found] = [
        int(child)
        for child in children
        if bookie in Path(f"/proc/{child}/cmdline").read_bytes().decode("utf-8", "replace")
    ]
    return found


def test_a_bookie_is_killed_under_load(tmp_path: Path) -> None:
    """Every entry that was acknowledged is in the ledger, and another bookie has taken the place of the dead one."""
    [port, *_] = free_ports(1)
    bookie_port = free_ports_in_a_row(1, (0, 1, 2, 3))
    words = ("ensemble", "--size", "1", "--client-port", port, "--bookies", "4", "--bookie-port", bookie_port)
    with started(*map(str, words), "--data", str(tmp_path / "run")) as process:
        assert process.stdout is not None
        until(lambda: process.stdout.readline().startswith("bookies at"), "bookies")

        async def main() -> None:
            acknowledged: dict[int, bytes] = {}
            async with connect(f"127.0.0.1:{port}") as zk, open_store(zk) as store:
                async with store.create() as ledger, trio.open_nursery() as nursery:

                    async def append(task: int) -> None:
                        number = 0
                        while len(ledger.metadata.fragments) == 1:
                            payload = b"%d %d" % (task, number)
                            acknowledged[await ledger.append(payload)] = payload
                            number += 1

                    for task in range(20):
                        nursery.start_soon(append, task)
                    await until_async(lambda: len(acknowledged) > 200)
                    victim = ledger.metadata.last_fragment.ensemble[0]
                    await kill(process_of(victim, process.pid))
                assert victim not in ledger.metadata.last_fragment.ensemble
                async with await store.open(ledger.id) as reader:
                    found = {entry.id: entry.payload async for entry in reader.entries()}
                assert found == acknowledged
                assert (await check_ledger(store, ledger.id, await store.metadata(ledger.id))).lost == 0

        trio.run(main)
        process.send_signal(signal.SIGINT)


async def kill(number: int) -> None:
    signal_sent = await trio.run_process(["kill", "-9", str(number)])
    assert signal_sent.returncode == 0
