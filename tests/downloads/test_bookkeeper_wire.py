"""Single frames to a bookie of BookKeeper and to one of ours: what each answers. The numbers of the cases are those of
docs/reference/bookkeeper-conformance.md.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from tests.downloads.bookie_wire import BookieWire
from tests.downloads.bookies import java_bookies, zab_bookies
from tests.downloads.bookkeeper import BOOKKEEPER_VERSIONS
from tests.downloads.java_client import JavaError, java_client
from tests.rigs.bookie import BookieProcess
from tests.rigs.waiting import until
from tests.rigs.zab_server import zab_servers
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.wire.frames import FRAME_BYTES_MAX
from zab.ledger.wire.messages import (
    AddEntry,
    Answer,
    Authenticate,
    BatchRead,
    BookieInfo,
    BookieInfoWanted,
    EntriesListed,
    EntryRead,
    ForceLedger,
    GetBookieInfo,
    LacRead,
    ListEntries,
    ReadBatch,
    ReadEntry,
    ReadLac,
    Request,
    StartTls,
    WriteLac,
)
from zab.ledger.wire.status import Status

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

DIGEST = Digest(DigestType.CRC32C, b"")
KEY = DIGEST.master_key
WRONG_KEY = bytes(20)[:-1] + b"\x01"
NOWHERE = 10**9
"""No ledger has this id."""


@attrs.frozen
class Bookie:
    """One bookie that serves, and ledgers that are in the tree and of which no bookie knows."""

    is_ours: bool
    port: Callable[[], int]
    restart: Callable[[], None]
    new_ledger: Callable[[], int]

    def wire(self, is_v2: bool = True) -> BookieWire:
        return BookieWire(self.port(), is_v2=is_v2)

    def ask(self, request: Request, is_v2: bool = True) -> Answer:
        with self.wire(is_v2) as wire:
            return wire.ask(request)

    def status(self, request: Request, is_v2: bool = True) -> Status:
        return self.ask(request, is_v2).status


def envelope(ledger: int, entry: int, payload: bytes = b"hello", lac: int | None = None) -> bytes:
    """An entry of a ledger whose entries all have five bytes."""
    return DIGEST.pack(Entry(ledger, entry, entry - 1 if lac is None else lac, 5 * (entry + 1), payload))


def add(ledger: int, entry: int, **more: object) -> AddEntry:
    return AddEntry(ledger, entry, KEY, envelope(ledger, entry), **more)


def fence(ledger: int, entry: int = -1, key: bytes = KEY) -> ReadEntry:
    return ReadEntry(ledger, entry, key, is_fencing=True)


@pytest.fixture(scope="module", params=["ours", *BOOKKEEPER_VERSIONS])
def bookie(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bookie]:
    root: Path = tmp_path_factory.mktemp("wire")
    with (
        zab_servers(1, directory=root / "member") as ensemble,
        java_client(root / "client", ensemble.hosts) as java,
    ):
        assert java.shell("initnewcluster").code == 0
        client = java.client()
        is_ours = request.param == "ours"
        with contextlib.ExitStack() as stack:
            served: BookieProcess
            [served] = stack.enter_context(
                zab_bookies(root, 1, ensemble.hosts)
                if is_ours
                else java_bookies(root, 1, ensemble.hosts, version=request.param)
            )

            def restart() -> None:
                served.kill()
                served.serve()

            def new_ledger() -> list[int] | None:
                try:
                    return [java.create(client, (1, 1, 1))[1]]
                except JavaError:
                    # The client has not heard of the bookie yet.
                    return None

            yield Bookie(is_ours, lambda: served.port, restart, lambda: until(new_ledger, "that it is known")[0])


BOTH = pytest.mark.parametrize("is_v2", [True, False], ids=["v2", "v3"])


@BOTH
def test_a_fence_of_an_unknown_ledger_holds(bookie: Bookie, is_v2: bool) -> None:
    """Cases 6 and 7: our bookie answers when the fence is durable. BookKeeper's answers before, and has forgotten it
    after a restart, so it is not restarted."""
    ledger = bookie.new_ledger()
    assert bookie.ask(fence(ledger), is_v2) == EntryRead(Status.NO_ENTRY, ledger, -1)
    assert bookie.status(add(ledger, 0), is_v2) is Status.FENCED
    if bookie.is_ours:
        bookie.restart()
        assert bookie.status(add(ledger, 0), is_v2) is Status.FENCED
    assert bookie.status(add(ledger, 0, is_recovery=True), is_v2) is Status.OK
    found = bookie.ask(ReadEntry(ledger, 0), is_v2)
    assert isinstance(found, EntryRead)
    assert (found.status, found.envelope) == (Status.OK, envelope(ledger, 0))


@BOTH
def test_another_key_is_refused(bookie: Bookie, is_v2: bool) -> None:
    """Case 8."""
    ledger = bookie.new_ledger()
    assert bookie.status(add(ledger, 0), is_v2) is Status.OK
    wrong = AddEntry(ledger, 1, WRONG_KEY, envelope(ledger, 1))
    assert bookie.status(wrong, is_v2) is Status.UNAUTHORIZED
    assert bookie.status(fence(ledger, key=WRONG_KEY), is_v2) is Status.UNAUTHORIZED
    assert bookie.status(add(ledger, 1), is_v2) is Status.OK


@BOTH
def test_reads_of_the_last_entry(bookie: Bookie, is_v2: bool) -> None:
    """Case 9."""
    ledger = bookie.new_ledger()
    assert bookie.status(ReadEntry(NOWHERE, -1), is_v2) is Status.NO_LEDGER
    assert bookie.status(ReadEntry(NOWHERE, 0), is_v2) is Status.NO_LEDGER
    assert bookie.status(add(ledger, 7), is_v2) is Status.OK
    found = bookie.ask(ReadEntry(ledger, -1), is_v2)
    assert isinstance(found, EntryRead)
    assert (found.status, found.entry, found.envelope) == (Status.OK, -1, envelope(ledger, 7))
    assert bookie.status(ReadEntry(ledger, 3), is_v2) is Status.NO_ENTRY
    fenced = bookie.ask(fence(ledger), is_v2)
    assert isinstance(fenced, EntryRead)
    assert (fenced.envelope, fenced.max_lac) == (envelope(ledger, 7), None)


def test_an_entry_may_come_again_with_another_lac(bookie: Bookie) -> None:
    """Case 10."""
    ledger = bookie.new_ledger()
    both = [envelope(ledger, 3), envelope(ledger, 3, lac=1)]
    for each in both:
        assert bookie.status(AddEntry(ledger, 3, KEY, each, is_recovery=True)) is Status.OK
    bookie.restart()
    found = bookie.ask(ReadEntry(ledger, 3))
    assert isinstance(found, EntryRead)
    assert found.envelope in both


def test_long_polls(bookie: Bookie) -> None:
    """Case 11."""
    ledger = bookie.new_ledger()
    poll = ReadEntry(ledger, -1, previous_lac=-1, wait_ms=20_000, wants_piggyback=True)
    bookie.ask(add(ledger, 0))
    nothing = bookie.ask(attrs.evolve(poll, wait_ms=50), False)
    assert isinstance(nothing, EntryRead)
    assert (nothing.status, nothing.entry, nothing.envelope, nothing.max_lac) == (Status.OK, -1, b"", -1)
    with bookie.wire(False) as wire:
        wire.send(poll)
        bookie.ask(add(ledger, 1))
        [found] = wire.answers(1)
        assert isinstance(found, EntryRead)
        assert (found.entry, found.envelope, found.max_lac) == (0, envelope(ledger, 0), 0)
        assert found.lac_time_ms is None or found.lac_time_ms > 0
        for wake in (WriteLac(ledger, 1, KEY, DIGEST.pack_lac(ledger, 1)), fence(ledger)):
            wire.send(attrs.evolve(poll, previous_lac=1 if isinstance(wake, ReadEntry) else 0))
            bookie.ask(wake, False)
            [found] = wire.answers(1)
            assert found.status is Status.OK
    assert bookie.status(attrs.evolve(poll, ledger=NOWHERE), False) is Status.NO_LEDGER


def test_explicit_lacs_outlive_a_restart(bookie: Bookie) -> None:
    """Case 12."""
    ledger = bookie.new_ledger()
    packet = DIGEST.pack_lac(ledger, 0)
    bookie.ask(add(ledger, 0))
    bookie.ask(add(ledger, 1))
    assert bookie.status(WriteLac(ledger, 0, WRONG_KEY, packet), False) is Status.UNAUTHORIZED
    assert bookie.status(WriteLac(ledger, 0, KEY, packet), False) is Status.OK
    for _ in range(2):
        assert bookie.ask(ReadLac(ledger), False) == LacRead(Status.OK, ledger, packet, envelope(ledger, 1))
        bookie.restart()
    assert bookie.status(fence(ledger)) is Status.OK
    assert bookie.status(WriteLac(ledger, 0, KEY, packet), False) is Status.OK


def test_what_is_forced_is_there_after_a_restart(bookie: Bookie) -> None:
    """Case 13."""
    ledger = bookie.new_ledger()
    assert bookie.status(add(ledger, 0, is_deferred=True), False) is Status.OK
    assert bookie.status(ForceLedger(ledger), False) is Status.OK
    bookie.restart()
    assert bookie.status(ReadEntry(ledger, 0)) is Status.OK


def test_batches(bookie: Bookie) -> None:
    """Case 14."""
    ledger = bookie.new_ledger()
    entries = [0, 1, 2, 3, 5]
    for entry in entries:
        bookie.ask(add(ledger, entry))
    length = len(envelope(ledger, 0)) + 4

    def read(first: int, count: int, size: int) -> list[bytes] | Status:
        found = bookie.ask(ReadBatch(ledger, first, count, size))
        assert isinstance(found, BatchRead)
        return list(found.envelopes) if found.status is Status.OK else found.status

    want = [envelope(ledger, entry) for entry in entries]
    assert read(0, 3, 1 << 20) == want[:3]
    assert read(0, 0, 1 << 20) == want[:4]
    assert read(0, 10, 36 + 2 * length) == want[:2]
    assert read(1, 10, 1) == want[1:2]
    assert read(3, 10, 1 << 20) == want[3:4]
    assert read(4, 10, 1 << 20) is Status.NO_ENTRY
    assert read(6, 10, 1 << 20) is Status.NO_ENTRY


@BOTH
def test_frames_in_pieces_and_the_largest(bookie: Bookie, is_v2: bool) -> None:
    """Case 15."""
    ledger = bookie.new_ledger()
    with bookie.wire(is_v2) as wire:
        wire.send(add(ledger, 0), ReadEntry(NOWHERE, 0), piece=1)
        assert {each.status for each in wire.answers(2)} == {Status.OK, Status.NO_LEDGER}
    # A frame with an entry of v3 is longer than one of v2.
    room = FRAME_BYTES_MAX - 200
    largest = DIGEST.pack(Entry(ledger, 1, 0, 5 + room, bytes(room)))
    assert bookie.status(AddEntry(ledger, 1, KEY, largest), is_v2) is Status.OK
    with bookie.wire(is_v2) as wire:
        assert wire.is_closed_after(struct.pack(">I", FRAME_BYTES_MAX + 1))


def test_both_versions_on_one_connection(bookie: Bookie) -> None:
    """Case 15: first v3, then v2."""
    assert bookie.status(StartTls(), False) is Status.BAD_REQUEST
    for is_v2 in (False, True):
        login = bookie.ask(Authenticate("AuthDisabledPlugin", b""), is_v2)
        assert login.status is Status.OK
        assert getattr(login, "plugin", None) == "AuthDisabledPlugin"
    with bookie.wire(True) as wire:
        assert wire.ask(StartTls()).status is Status.BAD_REQUEST
        assert wire.ask(ReadEntry(NOWHERE, 0)).status is Status.NO_LEDGER


GARBAGE = [b"\x00\x00\x00\x05garba", b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x04\x02\x09\x00\x00", b"\xff" * 64]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_ends_its_connection_alone(bookie: Bookie, garbage: bytes) -> None:
    """Case 15."""
    with bookie.wire() as other, bookie.wire() as wire:
        assert wire.is_closed_after(garbage)
        assert other.ask(ReadEntry(NOWHERE, 0)).status is Status.NO_LEDGER


def test_information_about_the_bookie(bookie: Bookie) -> None:
    found = bookie.ask(GetBookieInfo(BookieInfoWanted.CAPACITY), False)
    assert isinstance(found, BookieInfo)
    assert (found.status, found.capacity is not None, found.free) == (Status.OK, True, None)
    found = bookie.ask(GetBookieInfo(BookieInfoWanted.CAPACITY | BookieInfoWanted.FREE), False)
    assert isinstance(found, BookieInfo)
    assert None not in (found.capacity, found.free)


def test_lists_of_entries(bookie: Bookie) -> None:
    ledger = bookie.new_ledger()
    for entry in (0, 1, 2, 5):
        bookie.ask(add(ledger, entry))
    assert bookie.ask(ListEntries(ledger), False) == EntriesListed(Status.OK, ledger, ((0, 2), (5, 5)))
    assert bookie.status(ListEntries(NOWHERE), False) is Status.NO_LEDGER


def test_codes_of_v2_are_those_that_java_clients_know(bookie: Bookie) -> None:
    """Case 16."""
    ledger = bookie.new_ledger()
    bookie.ask(add(ledger, 0))
    keys, entries, ledgers = (KEY, WRONG_KEY), (-1, 0, 5), (ledger, NOWHERE, -1)
    with bookie.wire() as wire:
        for of, entry, key in itertools.product(ledgers, entries, keys):
            asked: list[Request] = [
                ReadEntry(of, entry),
                ReadBatch(of, max(entry, 0), 1, 100),
                fence(ledger, entry, key),
            ]
            for request in asked:
                # The channel refuses a code that it does not know; an error has no body.
                assert wire.ask(request).status.is_of_a_wire
