"""A store of ledgers: creates, opens, recovers, deletes and lists them.

    async with zab.client.connect(hosts) as zk, zab.ledgers.open_store(zk) as store:
        async with store.create(ensemble=3, write=3, ack=2) as ledger:
            await ledger.append(b"…")
        reader = await store.open(ledger.id)
        async for entry in reader.entries(): …

One class for trio (`zab.ledgers.open_store`), asyncio (`zab.ledgers.aio`) and threads (`zab.ledgers.sync`): it waits
through the client of the coordination service that it was given, whose session it uses.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from random import Random
from typing import Any, Final, Self

from attrs import evolve, frozen

from zab.client import Client, Place, ZabError
from zab.coordination.operations import Get
from zab.coordination.steps import Steps, read
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.ids import BookieId
from zab.ledger.managed.log_info import LogConfig, LogInfo, Position, check_name
from zab.ledger.managed.owner import LogOwner
from zab.ledger.managed.settings import LogSettings, OffloadSettings
from zab.ledger.managed.store import list_logs
from zab.ledger.metadata.ledger_metadata import Fragment, InvalidMetadataError, LedgerMetadata, VersionedMetadata
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.metadata.serialized import decode_metadata
from zab.ledger.placement.placement import Placement
from zab.ledger.recovery.events import Recovered
from zab.ledger.recovery.recovery import Recovery
from zab.ledger.store.bookies import RegisteredBookies, format_root, read_instance
from zab.ledger.store.events import Answered, BookieLost
from zab.ledger.store.ledgers import (
    Created,
    CreatedAndRecovered,
    Deleted,
    Refused,
    create_ledger,
    delete_ledger,
    list_ledgers,
    read_ledger,
)
from zab.ledger.wire.messages import Answer, Request, answer_without
from zab.ledger.wire.status import Status
from zab.ledger.writer.admission import SharedBudget
from zab.ledgers.call import Call
from zab.ledgers.coordination import CoordinationJob
from zab.ledgers.driving import Driving, Loop
from zab.ledgers.errand import Errand, Raised, SessionOver
from zab.ledgers.errors import (
    BadPasswordError,
    LedgerFencedError,
    LedgerNotClosedError,
    NoSuchLedgerError,
    NoSuchRootError,
)
from zab.ledgers.log_reading import LogEntries, log_info
from zab.ledgers.logged_changes import LoggedChanges
from zab.ledgers.logs import ManagedLog, OpeningLog
from zab.ledgers.outcomes import errand_error, recovery_error
from zab.ledgers.parts import Parts
from zab.ledgers.reading import LedgerReader
from zab.ledgers.settings import StoreSettings
from zab.ledgers.writing import Creating, LedgerWriter

PAGE: Final = 500
"""So many ledgers are listed at a time."""


@frozen
class LedgerInfo:
    """A ledger that is listed. `metadata`: None if its znode contains none; `fault` says why."""

    id: int
    metadata: LedgerMetadata | None
    version: int
    fault: str = ""


class LedgerStore:
    """See the docstring of the module. Methods may be called from any number of tasks at once.

    Ids of ledgers and entries are whole numbers from 0. What all methods raise is in `zab.ledgers.errors`;
    MetadataUnavailableError where the coordination service refuses, or its session is over.
    """

    def __init__(self, zk: Client, loop: Loop, settings: StoreSettings, random: Random) -> None:
        self.zk = zk
        self.settings = settings
        self.placement = Placement(random, settings.placement)
        self.driving = Driving(loop, lambda: int(zk.now() * 1000), settings)
        self.parts = Parts(zk, settings, self.placement, SharedBudget(settings.pending_bytes_max), self.driving)
        self._random = random
        self._bookies_read = Call(zk)

    # ------------------------------------------------------------------------------------------------------- its life

    async def begin(self, *, has_root: bool = True) -> None:
        """Called by `open_store`. Raises NoSuchRootError unless `has_root` is False."""
        job = CoordinationJob(self.zk, self.settings, self._session_over)
        self.driving.on_bookies = self._on_bookies
        self.driving.begin(job)
        self.zk.undertake(job)
        if has_root:
            root = self.settings.root
            if await self.run(lambda: read_instance(root)) is None:
                raise NoSuchRootError(f"there are no ledgers below {root}: format it")
            await self._bookies_read.wait()

    async def end(self) -> None:
        """Called by `open_store`: close the ledgers that are open, without what is not acknowledged. Without a session
        none can be closed."""
        if self.driving.session_end is not None:
            return
        call = self.parts.call()

        def look() -> None:
            if not self.parts.open_writers:
                call.complete(None)

        for writer in list(self.parts.open_writers):
            writer.seal()
            writer.on_end(look)
        look()
        await call.wait()

    def close(self) -> None:
        """Called by `open_store`, last: end every connection."""
        self.driving.close()

    def _session_over(self, reason: ZabError) -> None:
        self.driving.session_over(reason)

    def _on_bookies(self, registered: RegisteredBookies) -> None:
        self.placement.know(registered.known.available)
        self._bookies_read.complete(None)

    # -------------------------------------------------------------------------------------------------------- writing

    def create(
        self,
        ensemble: int = 3,
        write: int = 3,
        ack: int = 2,
        *,
        password: bytes = b"",
        digest: DigestType = DigestType.CRC32C,
        custom: Mapping[str, bytes] | None = None,
    ) -> Creating:
        """A new ledger, striped over `ensemble` bookies, each entry on `write` of them and acknowledged by `ack`:
        `async with store.create(…) as ledger`, or `ledger = await store.create(…)` and, later, `ledger.close()`.

        `password`: has to be known to open the ledger; the metadata contain it in clear. `custom`: anything, kept in
        the metadata. Raises NotEnoughBookiesError; ValueError for quorums that are none.
        """
        return Creating(lambda: self.new_ledger(ensemble, write, ack, password=password, digest=digest, custom=custom))

    async def new_ledger(
        self,
        ensemble: int = 3,
        write: int = 3,
        ack: int = 2,
        *,
        password: bytes = b"",
        digest: DigestType = DigestType.CRC32C,
        custom: Mapping[str, bytes] | None = None,
    ) -> LedgerWriter:
        """The writer of a new ledger, which its caller closes; otherwise as `create`."""
        versioned = await self.create_metadata(ensemble, write, ack, password=password, digest=digest, custom=custom)
        return LedgerWriter(self.parts, versioned)

    async def create_metadata(
        self,
        ensemble: int,
        write: int,
        ack: int,
        *,
        password: bytes,
        digest: DigestType,
        custom: Mapping[str, bytes] | None,
    ) -> VersionedMetadata:
        """The metadata of a new ledger, without a writer."""
        if not 1 <= ack <= write <= ensemble:
            raise ValueError(f"{ensemble}/{write}/{ack}: it has to be 1 <= ack <= write <= ensemble")
        token = self._random.getrandbits(62) + 1

        def begin() -> Steps[Created | CreatedAndRecovered]:
            chosen = self.placement.new_ensemble(ensemble, write, self.parts.now_ms)
            metadata = LedgerMetadata(
                ensemble_size=ensemble,
                write_quorum=write,
                ack_quorum=ack,
                fragments=(Fragment(0, chosen),),
                digest_type=digest,
                password=password,
                ctime_ms=time.time_ns() // 1_000_000,
                custom=dict(custom or {}),
                token=token,
            )
            return (yield from create_ledger(self.settings.root, metadata))

        created = await self.run(begin)
        if isinstance(created, CreatedAndRecovered):
            raise LedgerFencedError("another client has recovered it already", created.versioned.ledger, definite=True)
        versioned: VersionedMetadata = created.versioned
        return versioned

    # -------------------------------------------------------------------------------------------------------- reading

    async def open(self, ledger: int, password: bytes | None = b"") -> LedgerReader:
        """A reader of the whole ledger, which is recovered and closed first, if it is not closed: its writer can append
        nothing more. `password` None: whatever it is. Raises NoSuchLedgerError, BadPasswordError,
        RecoveryAbortedError."""
        recovered = await self._recover(ledger, password)
        return LedgerReader(self.parts, ledger, password, recovered)

    async def open_no_recovery(self, ledger: int, password: bytes | None = b"") -> LedgerReader:
        """A reader of what is confirmed, which leaves the writer alone. Raises NoSuchLedgerError, BadPasswordError."""
        found = await self._read(ledger)
        if password is not None and found.metadata.password != password:
            raise _bad_password(ledger)
        return LedgerReader(self.parts, ledger, password, found)

    async def recover(self, ledger: int, password: bytes | None = None) -> LedgerMetadata:
        """Close a ledger: its writer, if there is one, can append nothing more. A closed ledger stays as it is. Raises
        as `open`; after RecoveryAbortedError it may be tried again."""
        return (await self._recover(ledger, password)).metadata

    async def _recover(self, ledger: int, password: bytes | None) -> VersionedMetadata:
        call = self.parts.call()
        of = self.settings
        core = Recovery(of.root, ledger, self.placement, token=call, password=password, settings=of.recovery)
        driven = self.driving.drive(core, _nothing)
        try:
            outcome = await call.wait()
        finally:
            self.driving.end(driven)
        if isinstance(outcome, Recovered):
            return outcome.versioned
        raise recovery_error(ledger, outcome)

    # ------------------------------------------------------------------------------------------------------- metadata

    async def metadata(self, ledger: int) -> LedgerMetadata:
        """The newest metadata of a ledger. Raises NoSuchLedgerError, MetadataConflictError."""
        return (await self._read(ledger)).metadata

    async def _read(self, ledger: int) -> VersionedMetadata:
        found: VersionedMetadata | None = await self.run(lambda: read_ledger(self.settings.root, ledger), ledger)
        if found is None:
            raise NoSuchLedgerError("there is no such ledger", ledger)
        return found

    async def delete(self, ledger: int) -> None:
        """Delete a closed ledger; its bookies remove the entries later. One that is not there counts as deleted. Raises
        LedgerNotClosedError."""
        root = self.settings.root

        def begin() -> Steps[Deleted | VersionedMetadata]:
            found = yield from read_ledger(root, ledger)
            while found is not None:
                if not found.metadata.is_closed:
                    return found
                deleted = yield from delete_ledger(root, found)
                if not isinstance(deleted, Refused):
                    return deleted
                found = deleted.current
            return Deleted()

        outcome = await self.run(begin, ledger)
        if isinstance(outcome, VersionedMetadata):
            state = outcome.metadata.state.name
            raise LedgerNotClosedError(f"it is {state}, and only a closed one is deleted: recover it first", ledger)

    def ledgers(self, after: int = -1) -> Ledgers:
        """`async for info in store.ledgers()`: all ledgers with ids above `after`, in order. One that is created or
        deleted meanwhile may be among them or not."""
        return Ledgers(self, after)

    async def format(self, instance: str) -> bool:
        """Make the root, with this id, a UUID. False: there is one already."""
        made: bool = await self.run(lambda: format_root(self.settings.root, instance))
        return made

    # ---------------------------------------------------------------------------------------------------------- logs

    def open_log(
        self,
        name: str,
        *,
        create: bool = False,
        config: LogConfig | None = None,
        settings: LogSettings | None = None,
        offload: OffloadSettings | None = None,
        password: bytes = b"",
        address: bytes = b"",
    ) -> OpeningLog:
        """Take a managed ledger over: the owner before, if it lives, can append nothing more. `async with
        store.open_log(…) as log`, or `log = await store.open_log(…)`, whose caller closes it.

        `create`: with `config`, if there is none. `offload`: in place of that field of `settings`. `password`: of all
        its ledgers. `address`: where other processes can find this owner, a hint. A log that is terminated opens, too;
        nothing can be appended to it. Raises NoSuchLogError, ContendedError.
        """
        made = (config or LogConfig()) if create else None
        of = settings or LogSettings(recovery=self.settings.recovery)
        wanted = of if offload is None else evolve(of, offload=offload)
        return OpeningLog(lambda: self._open_log(name, made, wanted, password, address))

    async def _open_log(
        self,
        name: str,
        config: LogConfig | None,
        settings: LogSettings | None,
        password: bytes,
        address: bytes,
        *,
        deletes: bool = False,
    ) -> ManagedLog:
        of, now_ms = self.settings, self.parts.now_ms
        core = LogOwner(
            *(of.logs_root, check_name(name), of.root, self.placement),
            owner=f"{self._random.getrandbits(128):032x}",
            rng=self._random,
            config=config,
            settings=settings or LogSettings(recovery=of.recovery),
            password=password,
            address=address,
            budget=self.parts.budget,
            wall_offset_ms=time.time_ns() // 1_000_000 - now_ms,
            deletes=deletes,
            has_one_session=True,
        )
        log = ManagedLog(self, core)
        is_opened = False
        try:
            await log.opened(is_deleted=deletes)
            is_opened = True
        finally:
            if not is_opened:
                log.seal()
        return log

    async def delete_log(self, name: str, password: bytes = b"") -> None:
        """Delete a managed ledger, with its ledgers and cursors; one that is half deleted is deleted whole. Its owner,
        if it lives, can append nothing more. Raises NoSuchLogError."""
        await self._open_log(name, None, None, password, b"", deletes=True)

    def read_log(
        self,
        name: str,
        after: Position | None = None,
        *,
        follow: bool = False,
        password: bytes | None = b"",
    ) -> LogEntries:
        """`async for entry in store.read_log(…)`: the entries of a managed ledger after this position, or all, without
        taking it over; with `follow` also those to come, until it is terminated. Raises NoSuchLogError, TrimmedError;
        otherwise as `LedgerReader.tail`."""
        return LogEntries(self, check_name(name), password, after, is_following=follow)

    def changes(
        self, log: str, since: int | Place | None = None, prefix: str = "/", *, password: bytes | None = b""
    ) -> LoggedChanges:
        """`async for change in store.changes(log, since, "/app")`: as `Client.changes`, and from the log, which
        `zab changes --to-log` keeps, where servers no longer have them. See `LoggedChanges`."""
        return LoggedChanges(self, check_name(log), since, prefix, password)

    async def log_info(self, name: str) -> LogInfo:
        """The newest list of a managed ledger. Raises NoSuchLogError."""
        return await log_info(self, check_name(name))

    async def logs(self) -> tuple[str, ...]:
        """The names of all managed ledgers."""
        names: tuple[str, ...] = await self.run(lambda: list_logs(self.settings.logs_root))
        return names

    # -------------------------------------------------------------------------------------------------------- bookies

    @property
    def bookies(self) -> RegisteredBookies:
        """The bookies that are registered now."""
        return self.driving.registered

    async def ask(self, bookie: BookieId, request: Request, wait_s: float = 5.0) -> Answer:
        """What this bookie answers: for tools. A bookie that does not answer is UNREACHABLE or TIMED_OUT."""
        call = self.parts.call()
        self.driving.ask(bookie, request, _Asking(call))
        async with self.zk.move_on_after(wait_s):
            outcome: Answer = await call.wait()
            return outcome
        return answer_without(request, Status.TIMED_OUT)

    async def run(self, begin: Callable[[], Steps[Any]], ledger: int | None = None) -> Any:
        """What this handler returns. Raises MetadataUnavailableError, MetadataConflictError, NotEnoughBookiesError."""
        call = self.parts.call()
        driven = self.driving.drive(Errand(call, begin), _nothing, wants_bookies=False)
        try:
            outcome = await call.wait()
        finally:
            self.driving.end(driven)
        if isinstance(outcome, Raised | SessionOver):
            raise errand_error(ledger, outcome, self.driving.session_end)
        return outcome


class Ledgers(AsyncIterator[LedgerInfo]):
    """What `LedgerStore.ledgers` returns."""

    def __init__(self, store: LedgerStore, after: int) -> None:
        self._store = store
        self._after = after
        self._infos: deque[LedgerInfo] = deque()
        self._is_last = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LedgerInfo:
        while not self._infos:
            if self._is_last:
                raise StopAsyncIteration
            ids, infos = await self._store.run(self._page)
            self._infos += infos
            self._is_last = len(ids) < PAGE
            self._after = ids[-1] if ids else self._after
        return self._infos.popleft()

    def _page(self) -> Steps[tuple[tuple[int, ...], list[LedgerInfo]]]:
        root = self._store.settings.root
        ids = yield from list_ledgers(root, self._after, PAGE)
        paths = [ledger_path(root, each) for each in ids]
        found = yield from read(Get(path) for path in paths)
        infos = []
        for ledger, path, result in zip(ids, paths, found, strict=True):
            if result.is_missing:
                continue
            try:
                metadata = decode_metadata(result.must(path).data)
                infos.append(LedgerInfo(ledger, metadata, result.stat.version))
            except InvalidMetadataError as error:
                infos.append(LedgerInfo(ledger, None, result.stat.version, str(error)))
        return ids, infos


@frozen
class _Asking:
    """A question to one bookie."""

    call: Call

    def give(self, told: Answered | BookieLost) -> None:
        if isinstance(told, Answered):
            self.call.complete(told.answer)

    def give_all(self, told: list[Answered | BookieLost]) -> None:
        self.give(told[0])


def _bad_password(ledger: int) -> BadPasswordError:
    return BadPasswordError("it has another password", ledger)


def _nothing(_effect: object) -> None:
    """A core without effects of its own."""
