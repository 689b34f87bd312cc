"""A client that writes ledgers, one after the other: it creates one, appends bursts of entries, and closes it; or is
fenced, and then asks what became of its entries.
"""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import Any

import attrs

from zab.coordination.steps import Steps
from zab.ledger.entries.digests import DigestType
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata, VersionedMetadata
from zab.ledger.placement.placement import NotEnoughBookiesError
from zab.ledger.store.ledgers import Created, create_ledger
from zab.ledger.writer.events import (
    Append,
    Appended,
    AppendUnknown,
    BookieFailed,
    Close,
    CloseFailed,
    FragmentShort,
    LedgerClosed,
    NotAppended,
    Resolve,
    Resolved,
    Unresolved,
    WriterEnded,
)
from zab.ledger.writer.settings import WriterSettings
from zab.ledger.writer.writer import LedgerWriter
from zab.simulator.ledgers.client_process import Hosted, LedgerClient
from zab.simulator.ledgers.judge import Outcome
from zab.simulator.ledgers.profile import Profile
from zab.simulator.world.schedule import MS


def writer_settings(profile: Profile, rng: Random) -> WriterSettings:
    """The settings of one ledger's writer."""
    timeout_ms = profile.request_timeout_ms
    return WriterSettings(
        add_timeout_ms=timeout_ms,
        quorum_timeout_ms=rng.choice((0, 6 * timeout_ms)),
        reconnect_ms=rng.choice((0, 200)),
        coalesce_ms=rng.choice((0, 10)),
        changes_max=rng.choice((3, 30)),
        excluded_ms=rng.choice((500, 5_000)),
        retry_ms=500,
        explicit_lac_ms=profile.explicit_lac_ms,
        drain_ms=10 * timeout_ms,
        pending_entries_max=rng.choice((5, 10_000)),
    )


@attrs.define(eq=False)
class Writing:
    """One ledger that is written."""

    hosted: Hosted
    ledger: int
    left: int
    """How many entries are to be appended yet."""
    payloads: dict[int, bytes] = attrs.Factory(dict)
    """By the tokens of appends without an outcome, or with an unknown one."""
    unknown: dict[int, bytes] = attrs.Factory(dict)
    """By entries, what may have been written."""
    is_ending: bool = False


class WriterProcess(LedgerClient):
    """See the docstring of the module."""

    def begin(self) -> None:
        self._writing: Writing | None = None
        self._tokens = 0
        self._create_later()

    def _create_later(self) -> None:
        self.later(self.plan.after(300 * MS), self._create)

    # ---------------------------------------------------------------------------------------------------------- ledgers

    def _create(self) -> None:
        if self.plan.is_stopped:
            return
        rng = self.plan.rng
        ensemble_size, write_quorum, ack_quorum = rng.choice(self.profile.quorums)
        digest, token = rng.choice(list(DigestType)), rng.getrandbits(62) + 1
        entries = 1 + int(self.profile.ledger_entries * rng.expovariate(1))
        if not self.plan.wishes():
            self._create_later()
            return
        try:
            ensemble = self.placement.new_ensemble(ensemble_size, write_quorum, self.machine.now_ms)
        except NotEnoughBookiesError:
            self._create_later()
            return
        metadata = LedgerMetadata(
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            fragments=(Fragment(0, tuple(ensemble)),),
            digest_type=digest,
            password=b"secret",
            ctime_ms=self.machine.wall_ms(),
            token=token,
        )
        self.errand("create", lambda: self._created(metadata, entries))

    def _created(self, metadata: LedgerMetadata, entries: int) -> Steps[None]:
        created = yield from create_ledger(self.root, metadata)
        versioned = created.versioned
        self.say(f"creates ledger {versioned.ledger} on {', '.join(metadata.last_fragment.ensemble)}")
        self.judge.counts[f"ledgers: {type(created).__name__}"] += 1
        if isinstance(created, Created):
            self._write(versioned, entries)
        else:
            self._create_later()

    def _write(self, versioned: VersionedMetadata, entries: int) -> None:
        writer = LedgerWriter(
            self.root, versioned, self.placement, settings=writer_settings(self.profile, self.plan.rng)
        )
        self._writing = Writing(self.host(writer, self._over), versioned.ledger, entries)
        self.later(self.plan.after(self.profile.append_gap_us), self._append, self._writing)

    # ---------------------------------------------------------------------------------------------------------- appends

    def _append(self, writing: Writing) -> None:
        """Append a burst."""
        if writing.is_ending:
            return
        if writing.left <= 0 or self.plan.is_stopped:
            self._close(writing)
            return
        rng = self.plan.rng
        count = rng.randint(1, self.profile.burst)
        sizes = [rng.randint(0, self.profile.payload_bytes) for _ in range(count)]
        writing.left -= count
        if self.plan.wishes():
            for size in sizes:
                self._tokens += 1
                name = f"{self.name}.{self.machine.starts_count}.{self._tokens}"
                payload = f"{name} {'x' * size}".encode()
                writing.payloads[self._tokens] = payload
                self.judge.appends_to(payload)
                self.tell(writing.hosted, Append(payload, self._tokens))
        self.later(self.plan.after(self.profile.append_gap_us), self._append, writing)

    def _close(self, writing: Writing) -> None:
        writing.is_ending = True
        self.tell(writing.hosted, Close("close", is_draining=self.plan.rng.random() < 0.7))

    def _over(self, token: Hashable, outcome: object) -> None:
        writing = self._writing
        assert writing is not None
        self.judge.counts[f"writer: {type(outcome).__name__}"] += 1
        match outcome:
            case Appended(entry):
                assert isinstance(token, int)
                self.plan.done_count += 1
                self.judge.acknowledged(writing.ledger, entry, writing.payloads.pop(token))
            case NotAppended():
                assert isinstance(token, int)
                self.judge.is_told(writing.ledger, writing.payloads.pop(token), Outcome.NOT_WRITTEN)
            case AppendUnknown(entry):
                assert isinstance(token, int)
                payload = writing.unknown[entry] = writing.payloads.pop(token)
                self.judge.is_told(writing.ledger, payload, Outcome.UNKNOWN)
            case LedgerClosed(last):
                self.judge.hears_end(writing.ledger, last)
                self._leave()
            case CloseFailed(_, last):
                if last is not None:
                    self.judge.hears_end(writing.ledger, last)
                self.tell(writing.hosted, Resolve("resolve"))
            case Resolved():
                self._resolved(writing, outcome)
                self._leave()
            case Unresolved():
                self._leave()
            case _:
                raise AssertionError(f"{token} of ledger {writing.ledger} ends with {outcome}")

    def _resolved(self, writing: Writing, outcome: Resolved) -> None:
        self.judge.hears_end(writing.ledger, outcome.last)
        for entries, became in ((outcome.written, Outcome.WRITTEN), (outcome.not_written, Outcome.NOT_WRITTEN)):
            for entry in entries:
                self.judge.is_told(writing.ledger, writing.unknown.pop(entry), became, entry)
        assert not writing.unknown, f"nobody knows what became of {sorted(writing.unknown)}"

    def effect(self, hosted: Hosted, effect: Any) -> None:
        match effect:
            case WriterEnded(state, reason, detail):
                self.say(f"the writer is {state.value}: {reason.value} {detail}")
                self.judge.counts[f"writer ended: {reason.name}"] += 1
                writing = self._writing
                if writing is not None and writing.hosted is hosted and not writing.is_ending:
                    self._close(writing)
            case FragmentShort() | BookieFailed():
                self.judge.counts[type(effect).__name__] += 1
            case _:
                super().effect(hosted, effect)

    def _leave(self) -> None:
        """This ledger is over; another one follows."""
        assert self._writing is not None
        self.dismiss(self._writing.hosted)
        self._writing = None
        self._create_later()
