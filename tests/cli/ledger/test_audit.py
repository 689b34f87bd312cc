"""`zab audit`, and what `zab bookie` says of all bookies, on real ones that audit and repair."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.ledger.rig import Zab
from zab.testing.bookies import Bookies

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bookies() -> Iterator[Bookies]:
    with Bookies(4, {"autoRecoveryDaemonEnabled": "true", "openLedgerRereplicationGracePeriod": 1000}) as running:
        yield running


@pytest.fixture
def zab(capfd: pytest.CaptureFixture[str], bookies: Bookies) -> Zab:
    return Zab(capfd, bookies.ensemble.hosts)


def test_bookies_are_listed_and_shown(zab: Zab) -> None:
    found = zab.json("bookie", "list")
    assert [each["bookie"] for each in found] == ["b1", "b2", "b3", "b4"]
    assert {each["state"] for each in found} == {"available"}
    assert "b3" in zab("bookie", "list").out
    [shown] = zab.json("bookie", "show", "b2")
    assert shown["ledgers"] == 0
    assert "ledgers: 0" in zab("bookie", "show", "b2").out
    assert "no bookie b9" in zab("bookie", "show", "b9", code=1).err


def test_auto_recovery_is_switched_off_and_on(zab: Zab) -> None:
    assert zab("audit", "disable").out == "Disabled\n"
    assert zab("audit", "disable").out == "It was disabled already\n"
    [status] = zab.json("audit", "status")
    assert status["enabled"] is False
    assert zab("audit", "enable").out == "Enabled\n"
    assert "enabled: True" in zab("audit", "status").out


def test_the_delay_is_set_with_a_search_and_kept_by_the_next(zab: Zab) -> None:
    assert "30 s" in zab("audit", "run", "--delay", "30").out
    assert "30 s" in zab("audit", "run").out
    assert zab.json("audit", "status")[0]["delay_s"] == 30
    zab("audit", "run", "--delay", "0")


def test_a_bookie_is_decommissioned_when_it_does_not_run(zab: Zab, bookies: Bookies) -> None:
    ledger = zab.json("ledger", "create", "--ensemble", "3", "--write", "3", "--ack", "2")[0]["ledger"]
    [shown] = zab.json("ledger", "show", ledger)
    gone = shown["fragments"][0]["bookies"][0]
    assert f"{gone} runs" in zab("bookie", "decommission", gone, code=1).err
    zab("audit", "disable")
    bookies.kill(int(gone[1:]))
    bookies.wait_until(
        lambda: {each["bookie"]: each["state"] for each in zab.json("bookie", "list")}[gone] == "down", "down"
    )
    zab("audit", "enable")
    assert f"{gone} is decommissioned" in zab("bookie", "decommission", gone).out
    assert gone not in [each["bookie"] for each in zab.json("bookie", "list")]
    [shown] = zab.json("ledger", "show", ledger)
    assert gone not in shown["fragments"][0]["bookies"]
    assert zab.json("audit", "records") == []


def test_records_name_the_bookies_that_lack_copies(zab: Zab) -> None:
    zab("audit", "disable")
    zab("create", "/ledgers/underreplication/ledgers/0000", "")
    for part in ("0000/0000", "0000/0000/0000", "0000/0000/0000/0063"):
        zab("create", f"/ledgers/underreplication/ledgers/{part}", "")
    path = "/ledgers/underreplication/ledgers/0000/0000/0000/0063/urL0000000099"
    zab("create", path, 'replica: "b7"\nctime: 1700000000000\n')
    [record] = zab.json("audit", "records")
    assert record == {"ledger": 99, "missing": ["b7"], "since": "2023-11-14T22:13:20.000Z", "locked": False}
    assert "b7" in zab("audit", "records").out
    assert "records: 1" in zab("audit", "status").out
    zab("delete", path)
    zab("audit", "enable")


def test_auto_recovery_alone_says_what_is_wrong_with_its_file(zab: Zab) -> None:
    assert "cannot be read" in zab("bookie", "autorecovery", "/nowhere/bk_server.conf", code=2).out
