"""Queries the status of all members at the same time: one that does not answer delays no other.

    ensemble_in_force(open_client, seconds)     the contents of /zookeeper/config; None if it cannot be read in time
    targets_of(...)                             the members: those that are named, and those of the configuration
    ask_all(targets, ...)                       an `Answer` of each, in their order

Each is asked over its admin port where one is named for it, else over its client port: with `mntr`, or with `srvr`
where its whitelist has no other word.

Limits: `seconds` for each member, with everything that it is asked.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final

import trio
from attrs import evolve, frozen
from cryptography import x509

from zab.client import Client, Tls, ZabError
from zab.client.core.hosts import Host
from zab.client.four_letter import ask
from zab.client.on_trio import tcp
from zab.client.tls import fault
from zab.client.tls_context import context_of
from zab.configuration.dynamic import CLIENT_HOST_DEFAULT, Ensemble
from zab.configuration.reconfiguration import ChangeError, ensemble_of
from zab.operations.admin_client import AdminError, AdminPort
from zab.operations.verdicts.answers import Answer, of_mntr, of_monitor, of_srvr, refusal_of, waits_for

__all__ = [
    "Target",
    "ask_all",
    "certificate_days",
    "ensemble_in_force",
    "in_thread",
    "skew_of",
    "targets_of",
    "words_of",
]

_DAY_SECONDS: Final = 86400
_WILDCARDS: Final = frozenset({CLIENT_HOST_DEFAULT, "::"})
_NO_TIME: Final = "it does not answer in time"


@frozen
class Target:
    """A member to query. server: its client port, if known; admin: its admin port, if named."""

    server: Host | None
    server_id: int | None = None
    admin: AdminPort | None = None

    @property
    def name(self) -> str:
        if self.server is not None:
            return str(self.server)
        return str(self.admin) if self.admin is not None else f"server.{self.server_id}"


async def ensemble_in_force(
    open_client: Callable[[], AbstractAsyncContextManager[Client]], seconds: float
) -> Ensemble | None:
    with trio.move_on_after(seconds):
        try:
            async with open_client() as zk:
                data, _ = await zk.get_config()
            found = ensemble_of(data or b"")
            return found if found.servers else None
        except (ZabError, ChangeError, OSError):
            return None
    return None


async def targets_of(
    servers: Iterable[Host], ensemble: Ensemble | None, admins: Sequence[AdminPort], seconds: float, *, with_tls: bool
) -> list[Target]:
    """Each member once. Over TLS, only members that were named: the configuration lists their plain ports."""
    lines = {} if ensemble is None else ensemble.servers
    own = {sid: _client_host(line.host, line.client_host, line.client_port) for sid, line in lines.items()}
    addresses = await _addresses([*servers, *(host for host in own.values() if host is not None)], seconds)
    found: dict[frozenset[tuple[str, int]], Target] = {}
    for server in servers:
        found.setdefault(addresses[server], Target(server))
    for sid, host in own.items():
        key = None if host is None else addresses[host]
        same = None if key is None else next((each for each in found if each & key), None)
        if same is not None:
            found[same] = evolve(found[same], server_id=sid)
        elif host is not None and key is not None and not with_tls:
            found[key] = Target(host, sid)
    return [*found.values(), *(Target(None, None, admin) for admin in admins)]


def _client_host(host: str, client_host: str | None, client_port: int | None) -> Host | None:
    if client_port is None or client_host is None:
        return None
    return Host(host if client_host in _WILDCARDS else client_host, client_port)


async def _addresses(servers: Iterable[Host], seconds: float) -> dict[Host, frozenset[tuple[str, int]]]:
    """The addresses of each name; an unresolvable name stands for itself."""
    found: dict[Host, frozenset[tuple[str, int]]] = {}

    async def look_up(server: Host) -> None:
        found[server] = frozenset({(server.name, server.port)})
        with trio.move_on_after(seconds):
            try:
                infos = await trio.socket.getaddrinfo(server.name, server.port, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                return
            found[server] = frozenset({(str(info[4][0]), server.port) for info in infos})

    async with trio.open_nursery() as nursery:
        for server in dict.fromkeys(servers):
            nursery.start_soon(look_up, server)
    return found


async def ask_all(targets: Sequence[Target], tls: Tls | None, seconds: float) -> list[Answer]:
    """Merge answers in the order of the targets. The answer of an admin port that names its member replaces that of the
    member's client port."""
    answers: dict[int, Answer] = {}

    async def ask_one(at: int, target: Target) -> None:
        answers[at] = Answer(target.name, target.server_id, _NO_TIME)
        with trio.move_on_after(seconds):
            if target.admin is not None:
                answers[at] = await _over_http(target.admin, seconds)
            elif target.server is not None:
                answers[at] = await _over_words(target.server, target.server_id, tls)

    async with trio.open_nursery() as nursery:
        for at, target in enumerate(targets):
            nursery.start_soon(ask_one, at, target)
    return _joined([answers[at] for at in range(len(targets))], targets)


def _joined(answers: list[Answer], targets: Sequence[Target]) -> list[Answer]:
    """The answer of one member: figures from its admin port take precedence over those from its client port."""
    told = {}
    for answer, target in zip(answers, targets, strict=True):
        if target.admin is not None and answer.is_reached and answer.server_id is not None:
            told[answer.server_id] = answer
    kept, seen = [], set()
    for answer, target in zip(answers, targets, strict=True):
        of_admin = told.get(answer.server_id) if answer.server_id is not None else None
        if target.admin is None and of_admin is not None:
            seen.add(answer.server_id)
            kept.append(evolve(of_admin, server=answer.server, days_left=answer.days_left))
        elif target.admin is None or answer.server_id not in seen:
            kept.append(answer)
    return kept


async def _over_words(server: Host, server_id: int | None, tls: Tls | None) -> Answer:
    name = str(server)
    try:
        text, source = await ask(server, "mntr", tls=tls), "mntr"
        if (refused := refusal_of(text)) is not None and "whitelist" in refused:
            text, source = await ask(server, "srvr", tls=tls), "srvr"
        days = None if tls is None else await certificate_days(server, tls)
        if server_id is None and source == "srvr":
            server_id = _own_id(await ask(server, "conf", tls=tls))
    except (OSError, UnicodeError) as error:
        return Answer(name, server_id, words_of(error))
    refused = refusal_of(text)
    if refused is not None:
        return Answer(name, server_id, refused, waits_for(text, {}), source, days_left=days)
    figures = of_mntr(text) if source == "mntr" else of_srvr(text)
    own_id = figures.get("server_id")
    if server_id is None and isinstance(own_id, int):
        server_id = own_id
    if "server_state" not in figures:
        return Answer(name, server_id, "what it says is no status: is that a client port?")
    return Answer(name, server_id, "", waits_for(text, figures), source, figures, days)


def words_of(error: Exception) -> str:
    """The cause of an error: if several addresses were tried, the first one's."""
    inner = error.__cause__
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    found = inner if isinstance(inner, OSError) else error
    number = found.errno if isinstance(found, OSError) else None
    said = os.strerror(number) if number is not None and number > 0 else str(found)
    return fault(error) or said or type(found).__name__


def _own_id(text: str) -> int | None:
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name == "serverId" and value.isascii() and value.isdigit():
            return int(value)
    return None


async def certificate_days(server: Host, tls: Tls) -> float | None:
    """How many days the certificate that a server presents is still valid. Raises OSError."""
    try:
        stream = await tcp(context_of(tls))(server)
        async with stream:
            assert isinstance(stream, trio.SSLStream)
            der = stream.getpeercert(binary_form=True)
    except (trio.BrokenResourceError, ssl.SSLError) as error:
        raise OSError(fault(error) or "it broke off") from None
    if not der:
        return None
    end = x509.load_der_x509_certificate(der).not_valid_after_utc
    return (end - datetime.now(UTC)).total_seconds() / _DAY_SECONDS


async def _over_http(admin: AdminPort, seconds: float) -> Answer:
    try:
        told = await in_thread(partial(admin.tell, "monitor", seconds))
        state, skew = await skew_of(admin, seconds)
    except AdminError as error:
        return Answer(str(admin), None, str(error).removeprefix(f"{admin}: "))
    sid = state.get("myid")
    sid = sid if isinstance(sid, int) else None
    figures = of_monitor(told.value)
    return Answer(str(admin), sid, "", waits_for("", figures), "monitor", figures, skew_seconds=skew)


async def skew_of(admin: AdminPort, seconds: float) -> tuple[dict[str, Any], float | None]:
    """The state of a member (`zabstate`), and how far its clock is ahead of this one. Raises AdminError."""
    before = time.time()
    state = await in_thread(partial(admin.tell, "zabstate", seconds))
    return state.value, _skew(state.headers.get("date"), before, time.time())


def _skew(date: str | None, before: float, after: float) -> float | None:
    """How far a clock is ahead that showed this second between the two moments: 0 as long as it may be right."""
    try:
        said = parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        return None
    if said + 1 < before:
        return said + 1 - before
    return said - after if said > after else 0.0


async def in_thread(work: Any) -> Any:
    """Run a blocking call that ends by itself: it is abandoned when the time is over."""
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)
