"""The admin server: ZooKeeper's commands over HTTP, and probes for Kubernetes.

    GET  /commands                  links to all of them
    GET  /commands/NAME?key=value   one of `zab.member.words.admin_commands`, as JSON
    GET  /commands/snapshot         takes a snapshot and streams its file; with streaming=false it only takes it
    GET  /commands/log?after=ZXID   a page of the committed batches after a batch end: zab only, for backups
    POST /commands/restore          the body is a snapshot, with which this member continues: see below
    GET  /health/live               200 while the loop takes turns
    GET  /health/ready              200 while this member serves clients, otherwise 503

Tasks beside the loop make answers slice by slice: the loop runs between two slices, so a long answer delays nobody.
While a committed batch is applied in part, commands wait, since nobody may look at the tree.

`snapshot`, `log`, `restore`, and the commands that name znodes, sessions or clients or change something, need
a header `Authorization: digest user:password` (`zab.member.words.admin_rights`). One snapshot, and one attempt to
restore, are allowed per `admin.rateLimiterIntervalInMS`. A member that serves nobody answers `snapshot` and `log` with
status 503: with ZooKeeper's 200, `curl -f -o` would save the error as a snapshot. Commands are only answered for a name
of this server (`Host`), and not for web pages of other servers (`Origin`); health always.

A page of `log` has the bytes of whole batches, as in the log of every member. Its headers name the position before
(`previous_zxid`, `previous_chain`), the lineage (`lineage`), the end (`last_zxid`), the zxid up to which there is more
(`applied_zxid`), and the digest of the tree there.

`restore` has to be sent to each member, as in ZooKeeper: `zab.server.restoring` takes the snapshot, and after the
answer the server restarts with it. A member that serves nobody also accepts it, unless it has no history, whose ACLs
are needed for authorization. A member that has left the ensemble refuses: its file has the former members, which might
form a second quorum.

Limits: `ANSWERS_MAX` answers at once, the others wait; `ANSWER_SECONDS_MAX` for each; `http_server` limits connections
and the bytes of a request. A snapshot is sent from its file, however slowly the client reads.

Not here: HTTP itself (`zab.host.http`), what a command says (`zab.member.words.admin_commands`).
"""

from __future__ import annotations

import contextlib
import html
import math
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

import attrs
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from datatree.log.batch import Batch, Position
from datatree.log.disk import Disk
from datatree.snapshot import snapshot_path
from zab.host.http.answers import ENCODER, Followed, InTurn, Pieces, json_body
from zab.host.http.own_names import is_own_name, is_own_page
from zab.host.journal.journal import Journal
from zab.member.membership.reconfiguring import in_force
from zab.member.words.admin_commands import COMMANDS, NAMES_OF, NOT_SERVING, CommandError
from zab.member.words.admin_rights import NOT_AUTHORIZED, identities_of, may_have_all
from zab.member.words.figures import MemberView
from zab.member.words.surroundings import Surroundings
from zab.server.restoring import RestoreError, Restorer
from zab.server.surroundings import whole_state

ANSWERS_MAX: Final = 4
ANSWER_SECONDS_MAX: Final = 60.0
"""The time to make and send an answer: a connection that reads more slowly is closed, to let others have their turn."""
PIECE_BYTES: Final = 256 << 10
SNAPSHOT_SECONDS_MAX: Final = 600.0

SNAPSHOT: Final = "snapshot"
RESTORE: Final = "restore"
LOG: Final = "log"
LOG_PAGE_BYTES: Final = 4 << 20
"""The size of a page of `log`, unless a single batch is larger."""
MORE: Final[Mapping[str, str]] = {
    "snap": SNAPSHOT,
    "rest": RESTORE,
    **{name: name for name in (SNAPSHOT, LOG, RESTORE)},
}
"""The commands that are not in `COMMANDS`, by all of their names."""

NO_HISTORY: Final = "this member has no history of its own: the others fill it"
NOT_IN_FORCE: Final = (
    "this server is not in the configuration in force: those of its file would be a quorum by themselves"
)

journal = Journal("admin")


class Snapshots(Protocol):
    """Provides snapshots."""

    async def take(self) -> int | None:
        """Take a snapshot of the current state, or a later one, and return its zxid. None: it is not possible."""
        ...

    def hold(self, zxid: int) -> contextlib.AbstractContextManager[None]:
        """Keep a snapshot from retention meanwhile."""
        ...


ReadCommitted: TypeAlias = Callable[[int, int, int], tuple[Position | None, list[Batch]]]
"""The type of `zab.member.storage.storage.Storage.read_committed`."""


@attrs.define
class Admin:
    """The commands of one member. `look` looks at its surroundings, in a worker."""

    member: MemberView
    look: Callable[[], Surroundings]
    snapshots: Snapshots
    disk: Disk
    read_committed: ReadCommitted
    restorer: Restorer
    _turns: trio.Semaphore = attrs.field(factory=lambda: trio.Semaphore(ANSWERS_MAX), init=False)
    _next_snapshot_at: float = attrs.field(default=float("-inf"), init=False)

    def application(self) -> Starlette:
        url = self.member.config.admin.command_url
        return Starlette(
            routes=[
                Route(url, self._links, methods=["GET"]),
                Route(url + "/{name}", self._command, methods=["GET", "POST"]),
                Route("/health/live", self._live, methods=["GET"]),
                Route("/health/ready", self._ready, methods=["GET"]),
            ]
        )

    # ----------------------------------------------------------------------------------------------------------- health

    async def _live(self, _request: Request) -> Response:
        return JSONResponse({"live": True})

    async def _ready(self, _request: Request) -> Response:
        serving = self.member.serving
        return JSONResponse({"ready": serving}, 200 if serving else 503)

    # --------------------------------------------------------------------------------------------------------- commands

    async def _links(self, request: Request) -> Response:
        strange = self._strange("commands", request)
        if strange is not None:
            return strange
        url = html.escape(self.member.config.admin.command_url)
        names = sorted([*COMMANDS, SNAPSHOT, LOG, RESTORE])
        return HTMLResponse("".join(f'<a href="{url}/{name}">{name}</a><br/>\n' for name in names))

    async def _command(self, request: Request) -> Response:
        if request.url.scheme == "http":
            self.member.metrics.insecure_admin_count += 1
        asked = request.path_params["name"]
        is_post = request.method == "POST"
        name = NAMES_OF.get(asked) or MORE.get(asked)
        strange = self._strange(name or asked, request)
        if strange is not None:
            return strange
        if name is None:
            return _answer(asked, error=f"Unknown command: {asked}")
        if is_post is not (name == RESTORE):
            method = "POST" if name == RESTORE else "GET"
            return _answer(name, 405, error=f"{name} is asked for with {method}", headers={"Allow": method})
        if name == LOG:
            return InTurn(self._turns, ANSWER_SECONDS_MAX, partial(self._log, request))
        if name in MORE:
            return await (self._snapshot(request) if name == SNAPSHOT else self._restore(request))
        return InTurn(self._turns, ANSWER_SECONDS_MAX, partial(self._tell, name, request))

    def _strange(self, name: str, request: Request) -> Response | None:
        """Why a request is refused: it is not for this server, or comes from a web page of another one. None: it is
        accepted."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host and not is_own_name(host, self._names()):
            return _answer(
                name, 403, error="Host is no name of this server: ask by its address, or set admin.hostNames"
            )
        if origin is not None and not is_own_page(origin, host):
            return _answer(name, 403, error="Origin is a page of another server")
        return None

    def _names(self) -> frozenset[str]:
        config = self.member.config
        own = config.admin.address, socket.gethostname(), *config.admin.host_names
        ensembles = (config.ensemble, in_force(config, self.member.peer))
        lines = [line for ensemble in ensembles for line in ensemble.servers.values()]
        return frozenset(name.lower() for name in (*own, *(each.host for line in lines for each in line.addresses)))

    async def _tell(self, name: str, request: Request) -> Response:
        command = COMMANDS[name]
        if not (self.member.serving or self.member.read_only.is_on or command.always):
            return _answer(name, error=NOT_SERVING)
        refused = self._refused(name, request)
        if command.asks_who and refused is not None:
            return refused
        hidden = () if refused is None else command.hidden
        view = self.member.around(await trio.to_thread.run_sync(self.look))
        told = command.tell(view, request.query_params)
        while True:
            await whole_state(self.member)
            try:
                next(told)
            except StopIteration as end:
                shown = {key: value for key, value in end.value.items() if key not in hidden}
                return Pieces(json_body({**shown, "command": name, "error": None}), "application/json")
            except CommandError as error:
                return _answer(name, error=str(error))
            await trio.lowlevel.checkpoint()

    # --------------------------------------------------------------------------------------------- snapshot and restore

    def _refused(self, name: str, request: Request) -> Response | None:
        """Why the client may not use a command; None: it may."""
        header = request.headers.get("authorization")
        if header is None:
            return _answer(name, 401, error="Auth info is missing for the command")
        config = self.member.config
        identities = identities_of(header, config)
        if not identities:
            return _answer(name, 401, error="Not authenticated")
        tree = self.member.tree
        root = tree.get(b"/")
        assert root is not None
        if may_have_all(tree.acl(root), identities, skip_acl=config.access.skip_acl):
            return None
        return _answer(name, 403, error=NOT_AUTHORIZED)

    async def _snapshot(self, request: Request) -> Response:
        if not self.member.serving:
            return _answer(SNAPSHOT, 503, error=NOT_SERVING)
        refused = self._refused(SNAPSHOT, request)
        if refused is not None:
            return refused
        config, metrics = self.member.config, self.member.metrics
        if not config.commands.snapshot_enabled:
            return _answer(SNAPSHOT, 503, error="Snapshot command is disabled")
        if trio.current_time() < self._next_snapshot_at:
            metrics.snapshot_rate_limited_count += 1
            return _too_soon(SNAPSHOT, self._next_snapshot_at)
        self._next_snapshot_at = trio.current_time() + config.commands.rate_limiter_interval_ms / 1000
        with trio.move_on_after(SNAPSHOT_SECONDS_MAX):
            zxid = await self.snapshots.take()
            if zxid is not None:
                return await self._taken(zxid, is_streamed=request.query_params.get("streaming") != "false")
        metrics.snapshot_error_count += 1
        return _answer(SNAPSHOT, 500, error="No snapshot could be taken")

    async def _taken(self, zxid: int, *, is_streamed: bool) -> Response:
        path = snapshot_path(zxid)
        size = await trio.to_thread.run_sync(self.disk.size, path)
        headers = {"last_zxid": f"{zxid:#x}", "snapshot_size": str(size)}
        if not is_streamed:
            return _answer(SNAPSHOT, headers=headers)
        return Pieces(self._file(path, zxid, size), "application/octet-stream", headers)

    async def _file(self, path: str, zxid: int, size: int) -> AsyncIterator[bytes]:
        with self.snapshots.hold(zxid):
            for offset in range(0, size, PIECE_BYTES):
                yield await trio.to_thread.run_sync(partial(self.disk.read, path, offset, PIECE_BYTES))

    async def _log(self, request: Request) -> Response:
        await whole_state(self.member)
        if not self.member.serving:
            return _answer(LOG, 503, error=NOT_SERVING)
        refused = self._refused(LOG, request)
        if refused is not None:
            return refused
        if not self.member.config.commands.snapshot_enabled:
            return _answer(LOG, 503, error="Snapshot command is disabled, and log with it")
        wanted = request.query_params.get("after", "")
        if not re.fullmatch(r"(0[xX])?[0-9a-fA-F]{1,16}", wanted):
            return _answer(LOG, 400, error="log requires a hexadecimal after argument")
        after, upto, lineage = int(wanted, 16), self.member.applied, self.member.peer.lineage
        digest = self.member.digests.find(upto)
        if after > upto:
            return _answer(LOG, 409, error=f"this member has applied {upto:#x}, and not {after:#x} yet")
        try:
            position, batches = await trio.to_thread.run_sync(self.read_committed, after, upto, LOG_PAGE_BYTES)
        except OSError as error:
            return _answer(LOG, 500, error=str(error))
        if position is None:
            return _answer(LOG, 410, error=f"the log begins after {after:#x}", headers={"lineage": lineage.hex()})
        if position[0] != after:
            return _answer(LOG, 409, error=f"{after:#x} is no end of a batch")
        headers = {
            "lineage": lineage.hex(),
            "previous_zxid": f"{position[0]:#x}",
            "previous_chain": position[1].hex(),
            "last_zxid": f"{batches[-1].zxid if batches else position[0]:#x}",
            "applied_zxid": f"{upto:#x}",
            "digest": "" if digest is None else f"{digest:#x}",
        }
        body = b"".join([batch.raw for batch in batches])
        return Response(body, 200, headers, media_type="application/octet-stream")

    async def _restore(self, request: Request) -> Response:
        config, metrics, peer = self.member.config, self.member.metrics, self.member.peer
        await whole_state(self.member)
        if peer.needs_member_record() or not peer.lineage:
            return _answer(RESTORE, 503, error=NO_HISTORY)
        if peer.settings.sid not in peer.memberships.in_force.servers:
            return _answer(RESTORE, 503, error=NOT_IN_FORCE)
        refused = self._refused(RESTORE, request)
        if refused is not None:
            return refused
        if not config.commands.restore_enabled:
            return _answer(RESTORE, 503, error="Restore command is disabled")
        next_at = self.restorer.begun_at + config.commands.rate_limiter_interval_ms / 1000
        if self.restorer.is_busy or trio.current_time() < next_at:
            metrics.restore_rate_limited_count += 1
            return _too_soon(RESTORE, next_at)
        try:
            if request.query_params.get("ask") == "true":
                before = await self.restorer.asked()
                asked = {"server_id": peer.settings.sid, "participants": sorted(peer.quorum.voters)}
                return _answer(RESTORE, told={**asked, "lineage": before.lineage.hex()})
            header = await self.restorer.receive(request.stream())
        except RestoreError as error:
            metrics.restore_error_count += 1
            return _answer(RESTORE, error.status, error=str(error))
        told = {"last_zxid": header.zxid, "lineage": header.lineage.hex()}
        return Followed(_answer(RESTORE, told=told), self.restorer.go_on)


def _answer(
    command: str,
    status: int = 200,
    *,
    error: str | None = None,
    told: Mapping[str, Any] = MappingProxyType({}),
    headers: Mapping[str, str] | None = None,
) -> Response:
    body = "".join(ENCODER.iterencode({**told, "command": command, "error": error}))
    return Response(body, status, headers, media_type="application/json")


def _too_soon(command: str, next_at: float) -> Response:
    """The next one may be asked for at a moment of trio's clock."""
    seconds = math.ceil(max(1.0, next_at - trio.current_time()))
    return _answer(command, 429, error="Rate limit exceeded", headers={"Retry-After": str(seconds)})
