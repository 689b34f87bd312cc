"""A snapshot that comes over HTTP is taken whole, or not at all (B8 restored members)."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
import trio
from starlette.requests import ClientDisconnect

from datatree.recovery.restoring import take_staged
from datatree.snapshot import CHUNK_BYTES, HEADER_BYTES, SYNC_BYTES
from tests.datatree.histories import LINEAGE, Author, snapshot
from tests.datatree.recovery.restoring import lived
from zab.server.restoring import NOT_IN_FILES, RECONFIGURED, Before, RestoreError, Restorer
from zab.simulator.world.disk import FaultyDisk

IDLE_SECONDS = 60.0
WHOLE_SECONDS = 600.0
LOW_BYTES = 1000


def a_snapshot(data_bytes: int = 20) -> bytes:
    author, disk = Author(seed=3), FaultyDisk()
    for _ in range(3):
        author.batch(data_bytes=data_bytes)
    return disk.read(snapshot(disk, author.tree, author.last[1]))


SNAPSHOT = a_snapshot()


def restorer(
    disk: FaultyDisk,
    *,
    idle_seconds: float = IDLE_SECONDS,
    whole_seconds: float = WHOLE_SECONDS,
    low_bytes: int = LOW_BYTES,
    before: Callable[[], Before] = lambda: Before(LINEAGE),
    files_say: Callable[[], bool] = lambda: True,
) -> Restorer:
    return Restorer(disk, before, low_bytes, idle_seconds, whole_seconds, lambda: None, files_say)


async def pieces(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def leftovers(disk: FaultyDisk) -> list[str]:
    return [name for name in disk.list("version-1") if name.endswith(".tmp")]


@pytest.mark.parametrize("size", [1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1, 1 << 20])
async def test_however_it_is_cut_it_is_taken(size: int) -> None:
    disk = lived(Author())
    # Pieces of nothing come too: they are not the end.
    header = await restorer(disk).receive(pieces([b"", *cut(SNAPSHOT, size), b""]))
    assert leftovers(disk) == []
    taken = take_staged(disk, 1)
    assert taken is not None
    assert (taken.zxid, taken.lineage) == (header.zxid, header.lineage)


async def test_of_a_large_one_a_piece_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, data = lived(Author()), a_snapshot(2 * SYNC_BYTES)
    written: list[int] = []
    write = Restorer._write

    def counted(self: Restorer, file: object, piece: bytes) -> None:
        written.append(len(piece))
        write(self, file, piece)  # type: ignore[arg-type]

    monkeypatch.setattr(Restorer, "_write", counted)
    await restorer(disk).receive(pieces(cut(data, CHUNK_BYTES)))
    assert sum(written) == len(data)
    assert max(written) < SYNC_BYTES + CHUNK_BYTES


async def refusal(disk: FaultyDisk, sent: AsyncIterator[bytes], **options: Any) -> RestoreError:
    before = disk.image()
    used = restorer(disk, **options)
    with pytest.raises(RestoreError) as caught:
        await used.receive(sent)
    assert not used.is_busy
    assert leftovers(disk) == []
    assert disk.image() == before
    assert take_staged(disk, 1) is None
    return caught.value


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "checksum of the header does not match"),
        (SNAPSHOT[:-1], "no snapshot that can be restored"),
        (SNAPSHOT + b"x", "no snapshot that can be restored"),
        (b"x" * 1000, "checksum of the header does not match"),
        (b"ZKSN" + bytes(1000), "zab restore makes directories of it"),
        (b"\x1f\x8b" + bytes(1000), "zab restore makes directories of it"),
    ],
    ids=["nothing", "short", "long", "else", "zookeeper", "gzip"],
)
async def test_what_is_no_snapshot_of_ours_is_refused(data: bytes, reason: str) -> None:
    error = await refusal(lived(Author()), pieces([data]))
    assert error.status == 400
    assert reason in str(error)


async def test_who_goes_silent_is_given_up() -> None:
    async def silent() -> AsyncIterator[bytes]:
        yield SNAPSHOT[: HEADER_BYTES + 1]
        await trio.sleep_forever()

    error = await refusal(lived(Author()), silent(), idle_seconds=0.05)
    assert str(error) == "nothing came for 0.05 s"


@pytest.mark.parametrize("begun", [b"", SNAPSHOT[: HEADER_BYTES + 1]], ids=["head", "body"])
async def test_who_trickles_is_given_up(begun: bytes) -> None:
    """A byte now and then would have the one place for ever."""

    async def trickle() -> AsyncIterator[bytes]:
        yield begun
        for _ in range(200):
            await trio.sleep(0.01)
            yield SNAPSHOT[:1] if begun else b""

    error = await refusal(lived(Author()), trickle(), idle_seconds=30.0, whole_seconds=0.1)
    assert error.status == 400
    assert str(error) == "not all of it came within 0.1 s (admin.restore.timeoutInMS)"


async def test_after_one_that_was_taken_there_is_no_other() -> None:
    """Its sender was told what the member starts again with."""
    used = restorer(lived(Author()))
    await used.receive(pieces([SNAPSHOT]))
    assert used.is_busy


@pytest.mark.parametrize("in_force", [b"", b"server.1=here"], ids=["file", "history"])
async def test_while_a_reconfiguration_is_outstanding_nothing_is_taken(in_force: bytes) -> None:
    """It may be in force at others. And it costs no time to be refused."""
    before = Before(LINEAGE, in_force, b"server.2=there")
    used = restorer(lived(Author()), before=lambda: before)
    with pytest.raises(RestoreError, match=RECONFIGURED) as caught:
        await used.receive(pieces([SNAPSHOT]))
    assert caught.value.status == 503
    assert used.begun_at < 0
    assert take_staged(used.disk, 1) is None


@pytest.mark.parametrize("answers", [[False], [True, False]], ids=["from the start", "before it is staged"])
async def test_while_the_files_do_not_say_what_is_in_force_nothing_is_taken(answers: list[bool]) -> None:
    """The state comes without a configuration: after a crash they would decide."""
    told = iter(answers)
    error = await refusal(lived(Author()), pieces([SNAPSHOT]), files_say=lambda: next(told))
    assert (error.status, str(error)) == (503, NOT_IN_FILES)


@pytest.mark.parametrize("later", [1, 2], ids=["comes", "staged"])
async def test_a_reconfiguration_while_it_comes_or_is_staged_is_in_its_way(later: int) -> None:
    at_the_start, now = Before(LINEAGE, b"server.1=here"), Before(LINEAGE, b"server.1=here", b"server.2=there")
    seen = iter([at_the_start] * later + [now])
    error = await refusal(lived(Author()), pieces([SNAPSHOT]), before=lambda: next(seen))
    assert (error.status, str(error)) == (503, RECONFIGURED)


@pytest.mark.parametrize("is_reconfigured", [False, True])
async def test_a_reconfiguration_while_its_sender_is_told_is_in_its_way(is_reconfigured: bool) -> None:
    now = [Before(LINEAGE)]
    begun: list[bool] = []
    disk = lived(Author())
    used = restorer(disk, before=lambda: now[0])
    used.begin_anew = lambda: begun.append(True)
    await used.receive(pieces([SNAPSHOT]))
    if is_reconfigured:
        now[0] = Before(LINEAGE, b"server.1=here")
    await used.go_on()
    assert (begun == []) is is_reconfigured
    assert used.is_busy is not is_reconfigured
    assert (take_staged(disk, 1) is None) is is_reconfigured


async def test_who_goes_away_is_given_up() -> None:
    async def away() -> AsyncIterator[bytes]:
        yield SNAPSHOT[: HEADER_BYTES + 1]
        raise ClientDisconnect

    error = await refusal(lived(Author()), away())
    assert "ended before the snapshot did" in str(error)


def nearly_full(disk: FaultyDisk) -> None:
    disk.capacity_bytes = disk.capacity_bytes - disk.free_bytes() + LOW_BYTES + len(SNAPSHOT) - 1


def room_for_one(disk: FaultyDisk) -> None:
    """The file fits, and what is staged of it would not."""
    disk.capacity_bytes = disk.capacity_bytes - disk.free_bytes() + LOW_BYTES + len(SNAPSHOT)


@pytest.mark.parametrize("fill", [nearly_full, room_for_one])
async def test_the_room_that_the_log_needs_stays_free(fill: Callable[[FaultyDisk], None]) -> None:
    disk = lived(Author())
    fill(disk)
    error = await refusal(disk, pieces([SNAPSHOT]))
    assert error.status == 500
    assert "diskLowBytes" in str(error)


async def test_where_no_room_is_kept_a_full_disk_is_told() -> None:
    disk = lived(Author())
    disk.capacity_bytes -= disk.free_bytes()
    error = await refusal(disk, pieces([SNAPSHOT]), low_bytes=0)
    assert error.status == 500
    assert "cannot be written" in str(error)


async def test_a_disk_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    disk = lived(Author())
    monkeypatch.setattr(disk, "open_append", fails)
    error = await refusal(disk, pieces([SNAPSHOT]))
    assert (error.status, str(error)) == (500, "it cannot be written: Input/output error")
