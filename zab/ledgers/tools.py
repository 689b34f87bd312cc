"""What operators do with ledgers, beyond what a program does: for the command line.

reserve, take_reserved     a ledger that is created now and written later, by another process
replicas_of                what each bookie says that it has of a ledger
check_ledger               whether every bookie has the entries that it should have
seal_at                    the end of a ledger that cannot be recovered, by decree
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final

from attrs import evolve, frozen

from zab.coordination.operations import Set, ZooKeeperError
from zab.coordination.steps import Steps
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest
from zab.ledger.entries.ids import NONE, BookieId
from zab.ledger.metadata.changes import BY_RECOVERY
from zab.ledger.metadata.ledger_metadata import LedgerMetadata, VersionedMetadata
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.metadata.serialized import encode_metadata
from zab.ledger.quorums.write_sets import write_set
from zab.ledger.reader.lac import proved_lac
from zab.ledger.store.ledgers import Changed, change_ledger, read_ledger
from zab.ledger.wire.messages import EntriesListed, LacRead, ListEntries, ReadLac
from zab.ledger.wire.status import Status
from zab.ledgers.errors import BadPasswordError, LedgerError, LedgerNotClosedError, NoSuchLedgerError, NotConfirmedError
from zab.ledgers.store import LedgerStore
from zab.ledgers.writing import LedgerWriter

RESERVED: Final = "zab-reserved"
"""The key of the custom metadata of a ledger that is written later."""
MISSING_MAX: Final = 1_000
"""So many runs of missing entries are told for each bookie."""


class NotReservedError(LedgerError):
    """The ledger is not one that waits for its writer."""


class AlreadyClosedError(LedgerError):
    """The ledger has an end, which never changes."""


# ------------------------------------------------------------------------------------------------------ written later


async def reserve(
    store: LedgerStore,
    ensemble: int,
    write: int,
    ack: int,
    *,
    password: bytes = b"",
    digest: DigestType = DigestType.CRC32C,
    custom: Mapping[str, bytes] | None = None,
) -> int:
    """Create a ledger, and leave it open for `take_reserved`. Returns its id. Raises as `LedgerStore.create`."""
    marked = {**(custom or {}), RESERVED: b"1"}
    created = await store.create_metadata(ensemble, write, ack, password=password, digest=digest, custom=marked)
    return created.ledger


async def take_reserved(store: LedgerStore, ledger: int, password: bytes = b"") -> LedgerWriter:
    """The writer of a reserved ledger. One caller gets it, once. Raises NotReservedError, NoSuchLedgerError,
    BadPasswordError."""
    root = store.settings.root

    path = ledger_path(root, ledger)

    def begin() -> Steps[VersionedMetadata | LedgerError]:
        found = yield from read_ledger(root, ledger)
        if found is None:
            return NoSuchLedgerError("there is no such ledger", ledger)
        if found.metadata.password != password:
            return BadPasswordError("it has another password", ledger)
        if found.version == 0 and found.metadata.is_open and RESERVED in found.metadata.custom:
            # The version of the znode says that it is taken. If the answer is lost, nobody has it: better than two.
            (taken,) = yield (Set(path, encode_metadata(found.metadata), 0),)
            if taken.error != ZooKeeperError.BADVERSION:
                return evolve(found, version=taken.must(path).stat.version)
        return NotReservedError("it is not reserved: only what `create` has made can be appended to, once", ledger)

    found: VersionedMetadata | LedgerError = await store.run(begin, ledger)
    if isinstance(found, LedgerError):
        raise found
    return LedgerWriter(store.parts, found)


# ------------------------------------------------------------------------------------------------------------ replicas


@frozen
class Replica:
    """What a bookie says of a ledger. `runs`: the entries that it has, None if it did not say. `lac`: what its records
    prove, None if it did not answer, or the ledger is closed: then its metadata say where it ends."""

    bookie: BookieId
    status: Status
    runs: tuple[tuple[int, int], ...] | None
    lac: int | None

    @property
    def count(self) -> int | None:
        return None if self.runs is None else sum(last - first + 1 for first, last in self.runs)

    def has(self, entry: int) -> bool:
        runs = self.runs or ()
        at = bisect_right(runs, entry, key=_first) - 1
        return at >= 0 and entry <= runs[at][1]


def _first(run: tuple[int, int]) -> int:
    return run[0]


async def replicas_of(store: LedgerStore, ledger: int, metadata: LedgerMetadata) -> list[Replica]:
    """What every bookie of the ledger says, in the order of their names."""
    digest = Digest(metadata.digest_type, metadata.password)
    found = []
    for bookie in sorted(metadata.bookies):
        listed = await store.ask(bookie, ListEntries(ledger))
        assert isinstance(listed, EntriesListed)
        knows_none = listed.status.proves_absence
        runs = listed.runs if listed.status is Status.OK else () if knows_none else None
        lac = None if metadata.is_closed else await _lac_of(store, bookie, ledger, digest)
        found.append(Replica(bookie, listed.status, runs, lac))
    return found


async def _lac_of(store: LedgerStore, bookie: BookieId, ledger: int, digest: Digest) -> int | None:
    said = await store.ask(bookie, ReadLac(ledger))
    assert isinstance(said, LacRead)
    lac = proved_lac(digest, ledger, said)
    return NONE if lac is None and said.status.proves_absence else lac


@frozen
class LedgerCheck:
    """Whether the bookies have what they should. `checked`: so many copies of entries were looked for."""

    ledger: int
    checked: int
    missing: Mapping[BookieId, Sequence[tuple[int, int]]]
    """Runs of entries that a bookie should have and does not have."""
    silent: Mapping[BookieId, Status]
    """Bookies that did not say what they have."""
    lost: int
    """So many entries no bookie has that said anything, though all of its bookies did."""

    @property
    def is_whole(self) -> bool:
        return not self.missing and not self.silent


async def check_ledger(
    store: LedgerStore,
    ledger: int,
    metadata: LedgerMetadata,
    *,
    sample: int | None = None,
    random: Random | None = None,
) -> LedgerCheck:
    """Ask the bookies of a closed ledger for what they have. `sample`: look for so many entries only. Raises
    LedgerNotClosedError."""
    if not metadata.is_closed:
        raise LedgerNotClosedError(f"it is {metadata.state.name}: only a closed one has to be whole", ledger)
    replicas = {each.bookie: each for each in await replicas_of(store, ledger, metadata)}
    silent = {each.bookie: each.status for each in replicas.values() if each.runs is None}
    missing: dict[BookieId, list[tuple[int, int]]] = {}
    checked = lost = 0
    for entry in _entries(metadata.last, sample, random or Random()):
        holders = _holders(metadata, entry)
        absent = [each for each in holders if each not in silent and not replicas[each].has(entry)]
        checked += len(holders)
        lost += len(absent) == len(holders)
        for each in absent:
            _add(missing.setdefault(each, []), entry)
    return LedgerCheck(ledger, checked, missing, silent, lost)


def _entries(last: int, sample: int | None, random: Random) -> Iterator[int]:
    if sample is None or sample > last:
        yield from range(last + 1)
    else:
        yield from sorted(random.sample(range(last + 1), sample))


def _holders(metadata: LedgerMetadata, entry: int) -> list[BookieId]:
    ensemble = metadata.fragment_of(entry).ensemble
    return [ensemble[at] for at in write_set(entry, metadata.ensemble_size, metadata.write_quorum)]


def _add(runs: list[tuple[int, int]], entry: int) -> None:
    if runs and runs[-1][1] == entry - 1:
        runs[-1] = (runs[-1][0], entry)
    elif len(runs) < MISSING_MAX:
        runs.append((entry, entry))


# ----------------------------------------------------------------------------------------------------------- by decree


async def seal_at(store: LedgerStore, ledger: int, last: int) -> LedgerMetadata:
    """Close a ledger after entry `last` (-1: empty), which has to be readable, whatever else bookies may have: entries
    after it are lost, even if they were acknowledged. For ledgers that cannot be recovered since too many bookies are
    gone for good. Raises NotConfirmedError if the last fragment begins after `last` + 1, AlreadyClosedError,
    NoSuchLedgerError, EntryLostError, ReadUnavailableError, DigestError."""
    metadata = await store.metadata(ledger)
    if metadata.is_closed:
        raise AlreadyClosedError("it is empty" if metadata.last == NONE else f"it ends at {metadata.last}", ledger)
    confirmed = metadata.last_fragment.first - 1
    if last < confirmed:
        raise NotConfirmedError(f"entry {confirmed} was confirmed: it cannot end before", ledger, confirmed)
    length = 0
    if last != NONE:
        async with await store.open_no_recovery(ledger, None) as reader:
            async for entry in reader.entries(last, last, is_unconfirmed=True):
                length = entry.length

    def begin() -> Steps[LedgerMetadata | None]:
        while True:
            found = yield from read_ledger(store.settings.root, ledger)
            if found is None or found.metadata.is_closed:
                return None if found is None else found.metadata
            now = found.metadata
            wanted = now.recovering() if now.is_open else now.closed_at(last, length)
            changed = yield from change_ledger(store.settings.root, found, wanted, BY_RECOVERY)
            if isinstance(changed, Changed) and changed.versioned.metadata.is_closed:
                return changed.versioned.metadata

    ended: LedgerMetadata | None = await store.run(begin, ledger)
    if ended is None:
        raise NoSuchLedgerError("it was deleted", ledger)
    if (ended.last, ended.length) != (last, length):
        raise AlreadyClosedError(f"another client has closed it at {ended.last}", ledger)
    return ended
