"""Strategies for requests, and for answers to them, in either version."""

from __future__ import annotations

import attrs
from hypothesis import strategies as st

from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.entries.ids import ID_MAX, NONE
from zab.ledger.wire.messages import (
    Added,
    AddEntry,
    Answer,
    Authenticate,
    Authenticated,
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
    answer_without,
)
from zab.ledger.wire.status import Status

IDS = st.one_of(st.integers(0, 3), st.integers(0, ID_MAX))
LACS = st.one_of(st.just(NONE), IDS)
KEYS = st.binary(min_size=20, max_size=20)
DIGESTS = st.sampled_from([Digest(kind, b"secret") for kind in DigestType])
STATUSES = st.sampled_from(Status)


@st.composite
def envelopes(draw: st.DrawFn) -> bytes:
    return draw(DIGESTS).pack(draw(st.builds(Entry, IDS, IDS, LACS, IDS, st.binary(max_size=40))))


@st.composite
def adds(draw: st.DrawFn) -> AddEntry:
    entry = draw(st.builds(Entry, IDS, IDS, LACS, IDS, st.binary(max_size=40)))
    flags = draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    return AddEntry(entry.ledger, entry.entry, draw(KEYS), draw(DIGESTS).pack(entry), *flags)


@st.composite
def write_lacs(draw: st.DrawFn) -> WriteLac:
    ledger, lac = draw(IDS), draw(LACS)
    return WriteLac(ledger, lac, draw(KEYS), draw(DIGESTS).pack_lac(ledger, lac))


PLAIN_READS = st.builds(ReadEntry, IDS, LACS, is_urgent=st.booleans())
FENCING_READS = st.builds(ReadEntry, IDS, LACS, KEYS, st.just(True), st.booleans())
LONG_POLLS = st.builds(
    ReadEntry,
    IDS,
    st.just(NONE),
    is_urgent=st.booleans(),
    previous_lac=st.integers(NONE, ID_MAX - 1),
    wait_ms=st.none() | IDS,
    wants_piggyback=st.booleans(),
)
BATCHES = st.builds(ReadBatch, IDS, IDS, st.integers(0, (1 << 31) - 1), IDS, is_urgent=st.booleans())
FENCING_BATCHES = st.builds(ReadBatch, IDS, IDS, st.integers(0, 9), IDS, KEYS, st.just(True), st.booleans())
LOGINS = st.builds(Authenticate, st.text(max_size=8), st.binary(max_size=8))

V2_REQUESTS: st.SearchStrategy[Request] = st.one_of(
    adds().map(lambda add: attrs.evolve(add, is_deferred=False)),
    PLAIN_READS,
    FENCING_READS,
    BATCHES,
    FENCING_BATCHES,
    LOGINS,
)
V3_REQUESTS: st.SearchStrategy[Request] = st.one_of(
    adds(),
    PLAIN_READS,
    FENCING_READS,
    LONG_POLLS,
    write_lacs(),
    st.builds(ReadLac, IDS),
    st.builds(ForceLedger, IDS),
    st.builds(ListEntries, IDS),
    st.builds(GetBookieInfo, st.sampled_from([BookieInfoWanted(bits) for bits in range(4)])),
    st.just(StartTls()),
    LOGINS,
)

RUNS = st.lists(st.integers(0, 1000), unique=True, max_size=12).map(
    lambda bounds: tuple(
        (first * 3, last * 3 + 1) for first, last in zip(sorted(bounds)[::2], sorted(bounds)[1::2], strict=False)
    )
)


@st.composite
def answers_to(draw: st.DrawFn, request: Request, status: Status, is_v2: bool = False) -> Answer:
    """What a bookie could answer, with this status."""
    if status is not Status.OK:
        return answer_without(request, status)
    match request:
        case AddEntry(ledger, entry):
            return Added(status, ledger, entry)
        case ReadEntry(ledger, entry) if is_v2:
            return EntryRead(status, ledger, entry, draw(envelopes()))
        case ReadEntry(ledger, _, previous_lac=int(lac), wants_piggyback=True):
            if draw(st.booleans()):
                return EntryRead(status, ledger, NONE, b"", draw(IDS))
            return EntryRead(status, ledger, lac + 1, draw(envelopes()), draw(IDS), draw(st.none() | IDS))
        case ReadEntry(ledger, entry):
            return EntryRead(status, ledger, entry, draw(envelopes()), draw(st.none() | LACS), draw(st.none() | IDS))
        case ReadBatch(ledger, first):
            return BatchRead(status, ledger, first, tuple(draw(st.lists(envelopes(), max_size=3))))
        case ReadLac(ledger):
            return LacRead(status, ledger, draw(st.binary(max_size=40)), draw(st.just(b"") | envelopes()))
        case GetBookieInfo():
            return BookieInfo(status, draw(st.none() | IDS), draw(st.none() | IDS))
        case ListEntries(ledger):
            return EntriesListed(status, ledger, draw(RUNS))
        case Authenticate(plugin):
            return Authenticated(status, plugin, draw(st.binary(max_size=8)))
    return answer_without(request, status)
