"""Auto-recovery as a service: beside a bookie in its process (`autoRecoveryDaemonEnabled`), or alone.

    service = AutoRecoveryService(settings, name, access)
    await service.run()                         until it is cancelled
    service.figures()                           what it has done since its start, and what it knows now
    await serve(settings, supervised)           alone: `zab bookie autorecovery FILE`

It has a session of its own with the coordination service. After one that is over it starts again, with the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import trio

from zab.bookie.address import advertised_host
from zab.bookie.settings import BookieSettings
from zab.bookie.tls import BookieTls, open_tls, rereading
from zab.client import ZabError, connect
from zab.client.access.ensemble_access import open_access
from zab.client.coordination import Access
from zab.client.on_trio import Dialler
from zab.host.journal.journal import Journal
from zab.host.process.run_service import Supervised
from zab.ledger.entries.ids import BookieId
from zab.ledger.replication.events import Noted
from zab.ledgers import LedgerError, StoreSettings, open_store
from zab.ledgers.auto_recovery import AutoRecovery
from zab.service.figure import Figure, Kind

if TYPE_CHECKING:
    from zab.bookie.recovery_http import RecoveryHttp

TRY_AGAIN_SECONDS: Final = 1.0
PREFIX: Final = "zab_auto_recovery"
COUNTED: Final = {
    "searches": "searches",
    "ledgers searched": "searched_ledgers",
    "ledgers marked": "marked_ledgers",
    "ledgers repaired": "repaired_ledgers",
    "members replaced": "replaced_members",
    "entries copied": "copied_entries",
    "bytes copied": "copied_bytes",
    "orphans closed": "closed_orphans",
    "orphans not closed": "unclosed_orphans",
    "orphans deleted": "deleted_orphans",
    "failures": "failures",
    "losses": "losses",
    "unreadable metadata": "unreadable_metadata",
}
"""What auditors and workers count, and the names of the figures."""

journal = Journal("auto-recovery")


async def serve(settings: BookieSettings, supervised: Supervised) -> None:
    """Audit and repair, without a bookie. Its name is that of the bookie whose file of settings it has."""
    place = settings.place
    name = BookieId(place.bookie_id or f"{advertised_host(place)}:{place.port}")
    journal.info("starts", name=name, metadata=str(settings.metadata.uri))
    access = open_access(settings.ensemble)
    tls = open_tls(settings.tls)
    recovery = AutoRecoveryService(settings, name, access, tls=tls, is_alone=True)
    async with AsyncExitStack() as closing:
        await closing.enter_async_context(access.rereading())
        await closing.enter_async_context(rereading(tls))
        http = await _open_http(settings, name, recovery)
        if http is not None:
            closing.callback(http.close)
        async with trio.open_nursery() as nursery:
            if http is not None:
                nursery.start_soon(http.run)
            supervised.ready()
            await recovery.run()


async def _open_http(settings: BookieSettings, name: BookieId, recovery: AutoRecoveryService) -> RecoveryHttp | None:
    """The port of metrics; None: the settings name none."""
    if not settings.http.enabled:
        return None
    # The HTTP libraries take a fifth of a second to import.
    from zab.bookie.recovery_http import RecoveryHttp

    http = RecoveryHttp(settings, name, recovery)
    await http.open()
    return http


class AutoRecoveryService:
    """Audits and repairs in the name of this bookie."""

    def __init__(
        self,
        settings: BookieSettings,
        name: BookieId,
        access: Access,
        dial: Dialler | None = None,
        *,
        tls: BookieTls | None = None,
        is_alone: bool = False,
    ) -> None:
        """`dial` opens the connections with the coordination service, instead of `access`. `tls`: what it speaks with
        bookies. `is_alone`: there is no bookie, whose settings would say whether it is wanted."""
        self._is_wanted = is_alone or settings.replication.is_enabled
        self._settings = settings
        self._name = name
        self._tls = None if tls is None else tls.dialling
        self._tls_failures: dict[BookieId, str] = {}
        """What was logged last of bookies with which TLS has failed."""
        self._access = access
        self._dial = dial or access.dial
        self._recovery: AutoRecovery | None = None
        self._counts: Counter[str] = Counter()
        """What was counted in the sessions that are over."""

    def start_beside_a_bookie(self, nursery: trio.Nursery) -> None:
        """If the settings of the bookie want it."""
        if self._is_wanted:
            nursery.start_soon(self.run)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self._in_one_session()
                journal.warning("its session is over: it starts again")
            except (ZabError, LedgerError) as error:
                journal.warning("it cannot work", reason=str(error))
            await trio.sleep(TRY_AGAIN_SECONDS)

    async def _in_one_session(self) -> None:
        settings, replication = self._settings, self._settings.replication
        uri, timeout_ms = settings.metadata.uri, settings.metadata.session_timeout_ms
        acl = self._access.acl(uri.root)
        over = trio.Event()
        told = StoreSettings(root=uri.root, acl=acl, tls=self._tls, tls_failed=self._tls_failed)
        async with (
            connect(uri.hosts, session_timeout_ms=timeout_ms, dial=self._dial, sasl=self._access.login) as zk,
            open_store(zk, settings=told) as store,
        ):
            self._recovery = AutoRecovery(
                *(store, self._name, _note, over.set), auditor=replication.auditor, worker=replication.worker
            )
            self._recovery.begin()
            try:
                await over.wait()
            finally:
                self._counts += self._recovery.counts
                self._recovery = None

    def _tls_failed(self, bookie: BookieId, reason: str) -> None:
        if self._tls_failures.get(bookie) != reason:
            self._tls_failures[bookie] = reason
            journal.warning("TLS with a bookie has failed", bookie=bookie, reason=reason)

    @property
    def has_session(self) -> bool:
        """Whether it can work now."""
        return self._recovery is not None

    @property
    def is_auditor(self) -> bool:
        return self._recovery is not None and self._recovery.auditor.is_auditor

    def figures(self) -> Iterator[Figure]:
        """For `/metrics`, also before there is a session. None where the settings of the bookie do not want it."""
        if not self._is_wanted:
            return
        recovery = self._recovery
        counts = self._counts + (Counter() if recovery is None else recovery.counts)
        yield Figure(Kind.GAUGE, f"{PREFIX}_is_auditor", int(self.is_auditor))
        lost = 0 if recovery is None else len(recovery.auditor.lost_bookies)
        yield Figure(Kind.GAUGE, f"{PREFIX}_lost_bookies", lost)
        yield Figure(Kind.GAUGE, f"{PREFIX}_waiting_ledgers", 0 if recovery is None else recovery.worker.held)
        for counted, name in COUNTED.items():
            yield Figure(Kind.COUNTER, f"{PREFIX}_{name}", counts[counted])


def _note(noted: Noted) -> None:
    (journal.warning if noted.is_problem else journal.info)(noted.text)
