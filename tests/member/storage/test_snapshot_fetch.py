"""What a learner decides while it fetches a snapshot, on a disk that loses what was not synced."""

from collections.abc import Callable
from random import Random

import pytest

from datatree.recovery.recover import recover
from datatree.snapshot import SYNC_BYTES, SnapshotWriter, fetch_path, snapshot_path
from datatree.tree import DataTree
from tests.datatree.histories import LINEAGE
from zab.member.storage.snapshot_fetch import REDIAL_MS, Fetch, FetchError
from zab.member.storage.snapshot_request import (
    REQUESTS,
    RefusedError,
    SnapshotRequest,
    accepted,
    read_piece,
    refused,
    size_of,
)
from zab.protocol.effects import FetchSnapshot
from zab.simulator.world.disk import FaultyDisk

ZXID = (1 << 32) + 77
CHAIN = bytes(range(16))
STALL_MS = 500


def snapshot_bytes(zxid: int = ZXID, chain: bytes = CHAIN) -> bytes:
    disk, tree = FaultyDisk(), DataTree()
    tree.applied = zxid
    SnapshotWriter(disk, tree.begin_snapshot(), LINEAGE, chain).write()
    return disk.read(snapshot_path(zxid))


WHOLE = snapshot_bytes()


def fetch_on(disk: FaultyDisk, *, now: int = 0) -> Fetch:
    fetch = Fetch(disk, FetchSnapshot(1, 1, ZXID, CHAIN, LINEAGE), STALL_MS, now)
    fetch.open()
    return fetch


def offset_of(fetch: Fetch) -> int:
    """The first byte that it asks for."""
    return REQUESTS.decode(fetch.request()).offset


def take(fetch: Fetch, now: int, *payloads: bytes) -> bool:
    """What it says to the last of them."""
    return [fetch.receive(now, payload) for payload in payloads][-1]


def test_file_is_whole_and_durable_once_that_is_said() -> None:
    disk = FaultyDisk()
    fetch = fetch_on(disk)
    assert offset_of(fetch) == 0
    assert not fetch.receive(1, accepted(len(WHOLE)))
    for at in range(len(WHOLE) - 1):
        assert not fetch.receive(1, WHOLE[at : at + 1])
    assert fetch.receive(1, WHOLE[-1:])
    disk.sync_directory("version-1")
    disk.crash(Random(1))
    assert disk.read(fetch_path(ZXID)) == WHOLE


def test_each_connection_goes_on_after_what_came_on_the_one_before() -> None:
    fetch = fetch_on(disk := FaultyDisk())
    for at in range(0, 100, 20):
        assert offset_of(fetch) == at
        assert not take(fetch, 1, accepted(len(WHOLE)), WHOLE[at : at + 20])
        assert fetch.broken(2, "pulled") == REDIAL_MS
    fetch.close()
    again = fetch_on(disk)
    assert offset_of(again) == 100
    assert take(again, 3, accepted(len(WHOLE)), WHOLE[100:])
    assert disk.read(fetch_path(ZXID)) == WHOLE


def test_what_is_closed_for_a_later_transfer_is_durable() -> None:
    fetch = fetch_on(disk := FaultyDisk())
    fetch.request()
    take(fetch, 1, accepted(len(WHOLE)), WHOLE[:100])
    fetch.close()
    disk.sync_directory("version-1")
    disk.crash(Random(1))
    assert disk.read(fetch_path(ZXID)) == WHOLE[:100]


@pytest.mark.parametrize(
    "part",
    [snapshot_bytes(chain=bytes(16))[:90], snapshot_bytes(chain=b"\xff" * 16)[:90], WHOLE[:20], b""],
    ids=["of another history", "of a third one", "too short to say what it is", "empty"],
)
def test_part_that_is_not_of_this_snapshot_is_discarded(part: bytes) -> None:
    disk = FaultyDisk()
    disk.replace(fetch_path(ZXID), part)
    assert offset_of(fetch_on(disk)) == 0
    assert disk.size(fetch_path(ZXID)) == 0


@pytest.mark.parametrize("other", [ZXID - 5, ZXID + 5])
def test_parts_of_other_snapshots_are_discarded(other: int) -> None:
    disk = FaultyDisk()
    disk.replace(fetch_path(ZXID), WHOLE[:100])
    disk.replace(fetch_path(other), snapshot_bytes(other))
    disk.replace(snapshot_path(other), snapshot_bytes(other))
    assert offset_of(fetch_on(disk)) == 100
    assert not disk.exists(fetch_path(other))
    assert disk.exists(snapshot_path(other))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([refused("there is none")], "refused: there is none"),
        ([accepted(50), WHOLE[:51]], "more than the 50 bytes"),
        ([accepted(len(WHOLE)), WHOLE + b"\0"], "more than the"),
        ([b"\x82\x18\xcb\x01"], "no answer to a request"),
        ([b""], "no answer to a request"),
    ],
    ids=["refused", "too much", "one too many", "no message", "nothing"],
)
def test_who_is_refused_gives_up_at_once_and_keeps_nothing(answer: list[bytes], reason: str) -> None:
    fetch = fetch_on(disk := FaultyDisk())
    fetch.request()
    with pytest.raises(FetchError, match=reason):
        take(fetch, 1, *answer)
    fetch.close()
    assert not disk.exists(fetch_path(ZXID))


def test_more_than_was_announced_is_noticed_with_the_last_piece() -> None:
    fetch = fetch_on(FaultyDisk())
    fetch.request()
    assert not take(fetch, 1, accepted(100), WHOLE[:96])
    with pytest.raises(FetchError, match="more than the 100 bytes"):
        fetch.receive(1, WHOLE[:32])


def test_h4_it_fails_when_nothing_comes_not_when_it_is_long() -> None:
    fetch = fetch_on(FaultyDisk())
    fetch.request()
    assert not fetch.receive(0, accepted(len(WHOLE)))
    now = 0
    for at in range(20):
        now += STALL_MS - 1
        assert fetch.broken(now, "slow") == REDIAL_MS
        fetch.receive(now, WHOLE[at : at + 1])
        assert fetch.deadline == now + STALL_MS
    assert not fetch.receive(now + STALL_MS - 1, b"")
    with pytest.raises(FetchError, match="nothing came for 500 ms: refused by peer"):
        fetch.broken(now + STALL_MS, "refused by peer")


# -------------------------------------------------------------------------------------------------- the disk fails


def whole_transfer(disk: FaultyDisk) -> None:
    """Over two connections, with a transfer of something else before it."""
    disk.replace(fetch_path(ZXID - 5), b"")
    fetch = fetch_on(disk)
    fetch.request()
    take(fetch, 1, accepted(len(WHOLE)), WHOLE[:100])
    fetch.close()
    fetch = fetch_on(disk)
    fetch.request()
    assert take(fetch, 2, accepted(len(WHOLE)), WHOLE[100:])


def test_c1_an_error_of_the_disk_is_final_wherever_it_comes() -> None:
    disk = FaultyDisk()
    whole_transfer(disk)
    operations = disk.operations
    for point in range(1, operations + 1):
        disk = FaultyDisk()
        disk.fail_after(point)
        with pytest.raises(OSError, match="Input/output error"):
            whole_transfer(disk)
    assert operations > 8


@pytest.mark.parametrize("fails", [1, 2], ids=["write", "sync"])
def test_c1_nothing_touches_the_file_after_an_error(fails: int) -> None:
    fetch = fetch_on(disk := FaultyDisk())
    fetch.request()
    disk.fail_after(fails)
    with pytest.raises(OSError, match="Input/output error"):
        take(fetch, 1, accepted(len(WHOLE)), WHOLE)
    before = disk.operations
    fetch.close()
    assert disk.operations == before, "a second sync would succeed, and prove nothing"


def test_c1_what_a_failed_sync_left_is_not_continued_after_the_restart() -> None:
    fetch = fetch_on(disk := FaultyDisk())
    fetch.request()
    disk.fail_after(2)
    with pytest.raises(OSError, match="Input/output error"):
        take(fetch, 1, accepted(len(WHOLE)), WHOLE)
    disk.kill()
    assert disk.read(fetch_path(ZXID)) == WHOLE, "it reads fine"
    recover(disk)
    assert offset_of(fetch_on(disk)) == 0


def test_a_long_file_is_synced_on_the_way() -> None:
    fetch = fetch_on(disk := FaultyDisk())
    fetch.request()
    fetch.receive(1, accepted(2 * SYNC_BYTES))
    fetch.receive(1, WHOLE + bytes(SYNC_BYTES - len(WHOLE)))
    assert disk.log[-1].startswith("sync")
    fetch.receive(2, b"a little more")
    assert disk.log[-1].startswith("write"), "not with every piece"


# ------------------------------------------------------------------------------------------------- the other side


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"zxid": ZXID + 1}, "there is no"),
        ({"chain": bytes(16)}, "another history"),
        ({"lineage": bytes(16)}, "another history"),
        ({"offset": len(WHOLE) + 1}, f"has {len(WHOLE)} bytes"),
    ],
)
def test_what_is_not_sent_is_refused_with_its_reason(change: dict[str, object], reason: str) -> None:
    disk = FaultyDisk()
    disk.replace(snapshot_path(ZXID), WHOLE)
    asked: dict[str, object] = {"lineage": LINEAGE, "zxid": ZXID, "chain": CHAIN, "offset": 9}
    make: Callable[..., SnapshotRequest] = SnapshotRequest
    assert size_of(disk, make(**asked)) == len(WHOLE)
    with pytest.raises(RefusedError, match=reason):
        size_of(disk, make(**{**asked, **change}))


def test_a_reason_fits_into_an_answer_however_long_it_is() -> None:
    fetch = fetch_on(FaultyDisk())
    fetch.request()
    with pytest.raises(FetchError, match=r"^refused: é{1000}$"):
        fetch.receive(1, refused("é" * 5000))


def test_a_file_that_is_cut_while_it_is_sent_ends_the_transfer() -> None:
    disk = FaultyDisk()
    disk.replace(snapshot_path(ZXID), WHOLE)
    assert read_piece(disk, snapshot_path(ZXID), 0, len(WHOLE) - 1) == WHOLE[:-1]
    assert read_piece(disk, snapshot_path(ZXID), len(WHOLE) - 1, 100) == WHOLE[-1:]
    with pytest.raises(EOFError, match=f"ends at {len(WHOLE)} bytes"):
        read_piece(disk, snapshot_path(ZXID), len(WHOLE), 100)


def test_a_snapshot_that_cannot_be_read_is_refused() -> None:
    disk = FaultyDisk()
    disk.replace(snapshot_path(ZXID), WHOLE)
    disk.fail_reads(snapshot_path(ZXID))
    with pytest.raises(RefusedError, match="cannot be read"):
        size_of(disk, SnapshotRequest(LINEAGE, ZXID, CHAIN, 0))
