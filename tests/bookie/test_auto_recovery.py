"""Auto-recovery in the processes of real bookies: a ledger of a bookie that is gone gets its copies elsewhere."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.error import HTTPError

import pytest
import trio

from tests.rigs.waiting import PATIENCE_SECONDS
from zab.bookie.auto_recovery import COUNTED, AutoRecoveryService, serve
from zab.bookie.config_file import read_settings
from zab.client import connect
from zab.client.coordination import OpenAccess
from zab.host.process.run_service import Supervised
from zab.ledger.entries.ids import BookieId
from zab.ledgers import open_store
from zab.testing.bookies import Bookies
from zab.testing.kit.ports import free_ports


@asynccontextmanager
async def _alone(bookies: Bookies, is_alone: bool) -> AsyncIterator[None]:
    """Auto-recovery without a bookie, if it is wanted."""
    settings = read_settings(f"ledgerDirectories=/tmp/nowhere\nmetadataServiceUri={bookies.metadata_service_uri}\n")
    async with trio.open_nursery() as nursery:
        if is_alone:
            nursery.start_soon(serve, settings, Supervised(None))
        yield
        nursery.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("is_alone", [False, True])
async def test_the_entries_of_a_bookie_that_is_gone_are_copied_to_another_one(is_alone: bool) -> None:
    wanted = [b"%d" % each * 50 for each in range(300)]
    async with (
        Bookies(4, {"autoRecoveryDaemonEnabled": str(not is_alone).lower()}) as bookies,
        _alone(bookies, is_alone),
    ):
        async with connect(bookies.ensemble.hosts) as zk, open_store(zk) as store:
            async with store.create(3, 3, 2) as ledger:
                for each in wanted:
                    ledger.append_nowait(each)
            first = (await store.metadata(ledger.id)).last_fragment.ensemble
            gone = first[0]
            bookies.kill(int(gone[1:]))
            with trio.fail_after(PATIENCE_SECONDS):
                while gone in (await store.metadata(ledger.id)).bookies:  # noqa: ASYNC110
                    await trio.sleep(0.05)
            now = (await store.metadata(ledger.id)).last_fragment.ensemble
            assert now[1:] == first[1:]
            bookies.kill(*(int(each[1:]) for each in first[1:]))
            async with await store.open(ledger.id) as reader:
                assert [entry.payload async for entry in reader.entries()] == wanted
        bookies.start()


def test_figures_are_there_before_there_is_a_session() -> None:
    text = "ledgerDirectories=/tmp/nowhere\nautoRecoveryDaemonEnabled=true\nopenLedgerRereplicationGracePeriod=7\n"
    settings = read_settings(text)
    assert settings.replication.is_enabled
    assert settings.replication.worker.open_grace_ms == 7
    found = {each.name: each.value for each in AutoRecoveryService(settings, BookieId("b1"), OpenAccess()).figures()}
    assert found["zab_auto_recovery_is_auditor"] == 0
    assert found["zab_auto_recovery_copied_entries"] == 0
    assert len(found) == 3 + len(COUNTED)


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        # It is not open yet.
        return 0, ""


@pytest.mark.slow
async def test_auto_recovery_alone_has_an_http_port() -> None:
    (port,) = free_ports(1)
    keys = f"ledgerDirectories=/tmp/nowhere\nbookieId=r1\nhttpServerEnabled=true\nhttpServerPort={port}\n"

    async def get(path: str) -> tuple[int, str]:
        return await trio.to_thread.run_sync(_get, port, path)

    async def until(status: int) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            while (await get("/health/ready"))[0] != status:  # noqa: ASYNC110
                await trio.sleep(0.05)

    async with Bookies(1) as bookies, trio.open_nursery() as nursery:
        settings = read_settings(f"{keys}metadataServiceUri={bookies.metadata_service_uri}\n")
        nursery.start_soon(serve, settings, Supervised(None))
        await until(200)
        _, text = await get("/metrics")
        assert "\nzab_auto_recovery_copied_entries 0.0" in text
        status, text = await get("/status")
        assert status == 200
        assert (json.loads(text)["bookie"], json.loads(text)["has_session"]) == ("r1", True)
        assert json.loads((await get("/api/v1/config/server_config"))[1])["httpServerPort"] == port
        assert (await get("/health/live"))[0] == (await get("/heartbeat"))[0] == 200
        nursery.cancel_scope.cancel()
    nowhere = read_settings(f"{keys}metadataServiceUri=zk+null://127.0.0.1:1/ledgers\n")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, nowhere, Supervised(None))
        await until(503)
        nursery.cancel_scope.cancel()
