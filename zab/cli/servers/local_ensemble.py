"""A local ensemble: one process per member on the loopback interface, its files below one directory.

    DIR/lock                        locked while the ensemble runs (`ensemble_lock`)
    DIR/secret                      the secret by which members authenticate each other, and brokers; made at the
                                    first start
    DIR/superuser                   the identity that passes every ACL and may use every admin command: a file for
                                    `zab --auth @FILE`; made at the first start
    DIR/N/myid, DIR/N/zoo.cfg       written at every start
    DIR/N/version-1/…               the data, which stays
    DIR/N/server.log                the journal of the member, appended to
    DIR/broker-N/…                  the brokers, if any are wanted (`local_broker`)
    DIR/bookie-N/…                  the bookies, if any are wanted (`local_bookie`)

Ports: clients at P, P + 1, …; quorum ports from P + 700 on, election ports from P + 1700 on, admin servers from
P + 5900 on: 8081, 8082, … with the usual P. If one of these is not free, another one is used, below the range of the
kernel for outgoing connections. Brokers have the port that was asked for, and those after it; between each other they
have any.

A member is `python -m zab.server --stop-with-parent`, in a process group of its own (`local_process`). So Ctrl-C
reaches only this process, which stops the others in order: the brokers first. One whose parent is gone stops, too.

    start()             write the files, start the processes of the members
    run(say)            wait until all members serve, say so, start the brokers and the bookies and say when clients may
                        connect, wait for a signal, and stop all; returns the exit code

The root of all ledgers is formatted before the first bookie is started for the first time.

When one of them ends before it serves, all end, with its exit code. When one ends later, it is reported and the
others go on.
"""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zab.cli.servers.ensemble_lock import EnsembleInUseError, EnsembleLock
from zab.cli.servers.local_bookie import ROOT, LocalBookie, metadata_service_uri
from zab.cli.servers.local_broker import LocalBroker
from zab.cli.servers.local_process import HOST, LocalProcess
from zab.configuration.properties import escaped
from zab.host.files.private_file import PrivateFileError
from zab.host.files.secret_file import make_secret_file
from zab.host.storage.disk import LOCK_FILE, RealDisk
from zab.server.superuser_file import make_superuser_file, read_super_digest
from zab.service.failure import BIND_ERROR, DATA_DIRECTORY_ERROR, UNEXPECTED_ERROR

if TYPE_CHECKING:
    import trio

SIZE_MAX = 9
BROKERS_MAX = 9
BOOKIES_MAX = 9
"""What one machine is good for."""
DEFAULT_BROKER_PORT = 9092
DEFAULT_BOOKIE_PORT = 3181
QUORUM_OFFSET = 700
ELECTION_OFFSET = 1700
ADMIN_OFFSET = 5900
OFFSETS = (0, QUORUM_OFFSET, ELECTION_OFFSET, ADMIN_OFFSET)
"""The ports of a member, from its client port."""
HTTP_OFFSET = 1000
"""The port of the metrics of a broker or a bookie, from that of its clients."""
OTHER_PORTS = range(11_000, 32_000)
SERVING_SECONDS_MAX = 60.0
PROBE_SECONDS = 0.02
STOP_SECONDS = 10.0

USAGE_ERROR = 2

_OTHERS = "stop it, or have another directory and other ports: zab ensemble --data DIRECTORY --client-port P"

Say = Callable[[str, Mapping[str, Any]], None]
"""Takes a sentence, and the same for programs."""


class EnsembleError(Exception):
    """The ensemble cannot be started; `exit_code` is one of ZooKeeper's."""

    def __init__(self, exit_code: int, reason: str) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


class LocalMember(LocalProcess):
    """One member: its id, ports, directory and process."""

    def __init__(
        self, server_id: int, directory: Path, client_port: int, quorum_port: int, election_port: int, admin_port: int
    ) -> None:
        super().__init__(f"member {server_id}", "zab.server", "server", directory, "zoo.cfg", "server.log")
        self.server_id = server_id
        self.client_port = client_port
        self.quorum_port = quorum_port
        self.election_port = election_port
        self.admin_port = admin_port

    def is_serving(self) -> bool:
        """Whether it answers clients as part of a quorum."""
        try:
            with socket.create_connection((HOST, self.client_port), 1.0) as connection:
                connection.settimeout(1.0)
                connection.sendall(b"srvr")
                answer = b""
                while piece := connection.recv(65536):
                    answer += piece
        except OSError:
            return False
        return b"\nMode: " in answer


class LocalEnsemble:
    """A local ensemble with all its members, and with the brokers beside it."""

    def __init__(
        self,
        size: int,
        directory: Path,
        client_port: int,
        broker_count: int = 0,
        broker_port: int = DEFAULT_BROKER_PORT,
        bookie_count: int = 0,
        bookie_port: int = DEFAULT_BOOKIE_PORT,
    ) -> None:
        """Raises EnsembleError."""
        assert 1 <= size <= SIZE_MAX
        assert 0 <= broker_count <= BROKERS_MAX
        assert 0 <= bookie_count <= BOOKIES_MAX
        reason = _why_not(broker_count, bookie_count)
        if reason is not None:
            raise EnsembleError(USAGE_ERROR, reason)
        broker_ports = range(broker_port, broker_port + broker_count)
        bookie_ports = range(bookie_port, bookie_port + bookie_count)
        self._refuse_taken(range(client_port, client_port + size), "--client-port")
        self._refuse_taken(broker_ports, "--broker-port")
        self._refuse_taken(bookie_ports, "--bookie-port")
        taken = {*range(client_port, client_port + size), *broker_ports}
        if len(taken) < size + broker_count:
            raise EnsembleError(USAGE_ERROR, f"ports of brokers from {broker_port} on are those of members")
        if taken & set(bookie_ports):
            reason = f"ports of bookies from {bookie_port} on are those of members or brokers"
            raise EnsembleError(USAGE_ERROR, reason)
        taken |= set(bookie_ports)
        self._directory = directory.absolute()
        self._lock: EnsembleLock | None = None
        self.members = [
            LocalMember(
                number,
                self._directory / str(number),
                client_port + number - 1,
                _free_port(client_port + QUORUM_OFFSET + number - 1, taken),
                _free_port(client_port + ELECTION_OFFSET + number - 1, taken),
                _free_port(client_port + ADMIN_OFFSET + number - 1, taken),
            )
            for number in range(1, size + 1)
        ]
        self.brokers = [
            LocalBroker(
                *(number, self._directory / f"broker-{number}", port, broker_count, self._secret_path),
                http_port=_free_port(port + HTTP_OFFSET, taken),
            )
            for number, port in enumerate(broker_ports, 1)
        ]
        self.bookies = [
            LocalBookie(number, self._directory / f"bookie-{number}", port, _free_port(port + HTTP_OFFSET, taken))
            for number, port in enumerate(bookie_ports, 1)
        ]

    @property
    def hosts(self) -> str:
        """The connection string."""
        return ",".join(f"{HOST}:{member.client_port}" for member in self.members)

    @property
    def bootstrap(self) -> str:
        """Where Kafka's clients connect."""
        return ",".join(f"{HOST}:{broker.port}" for broker in self.brokers)

    @property
    def superuser_path(self) -> Path:
        """The file with the superuser, made at the first start."""
        return self._directory / "superuser"

    @property
    def _secret_path(self) -> Path:
        return self._directory / "secret"

    def _refuse_taken(self, ports: range, option: str) -> None:
        for port in ports:
            if not _is_free(port):
                reason = f"port {port} is in use: stop what listens there, or have others: zab ensemble {option} P"
                raise EnsembleError(BIND_ERROR, reason)

    def start(self) -> None:
        """Write the files and start the members. Raises EnsembleError."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._lock = EnsembleLock(self._directory)
            for member in self.members:
                _refuse_in_use(member.directory, LOCK_FILE)
            for broker in self.brokers:
                _refuse_in_use(broker.logs_directory, broker.lock_file)
            for bookie in self.bookies:
                _refuse_in_use(bookie.data_directory, bookie.lock_file)
            with contextlib.suppress(FileExistsError):
                make_secret_file(str(self._secret_path))
            with contextlib.suppress(FileExistsError):
                make_superuser_file(str(self.superuser_path))
            super_digest = read_super_digest(str(self.superuser_path))
            for member in self.members:
                self._write_files(member, super_digest)
            for broker in self.brokers:
                broker.write_file(self.hosts)
            for bookie in self.bookies:
                bookie.write_file(self.hosts)
        except EnsembleInUseError as error:
            reason = f"{self._directory}: {error} runs an ensemble there: {_OTHERS}"
            raise EnsembleError(DATA_DIRECTORY_ERROR, reason) from None
        except PrivateFileError as error:
            raise EnsembleError(USAGE_ERROR, str(error)) from None
        except OSError as error:
            raise EnsembleError(
                DATA_DIRECTORY_ERROR, f"cannot write below {self._directory}: {error.strerror}"
            ) from error
        for member in self.members:
            member.start()

    def _write_files(self, member: LocalMember, super_digest: str) -> None:
        member.directory.mkdir(parents=True, exist_ok=True)
        (member.directory / "myid").write_text(f"{member.server_id}\n")
        lines = [
            "# Written by `zab ensemble` at every start; what is changed here is lost.",
            "tickTime=2000",
            "initLimit=10",
            "syncLimit=5",
            f"dataDir={escaped(str(member.directory))}",
            "# All clients come from this machine.",
            "maxClientCnxns=0",
            "preAllocSize=16384",
            "4lw.commands.whitelist=*",
            "# Znodes with a time to live, for who tries them.",
            "extendedTypesEnabled=true",
            f"admin.serverPort={member.admin_port}",
            f"DigestAuthenticationProvider.superDigest={super_digest}",
            f"quorum.secretFile={escaped(str(self._secret_path))}",
        ]
        for other in self.members:
            ports = f"{other.quorum_port}:{other.election_port};{HOST}:{other.client_port}"
            lines.append(f"server.{other.server_id}={HOST}:{ports}")
        member.config_path.write_text("\n".join(lines) + "\n", encoding="latin-1", errors="strict")

    # ---------------------------------------------------------------------------------------------------------- running

    async def run(self, say: Say) -> int:
        """Run until a signal, or until no member is left; returns the exit code of the command."""
        import trio

        code = 0
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._stop_on_signal, nursery.cancel_scope)
                failed = await self._serve(say)
                if failed is None:
                    await self._wait_for_ends(say)
                    code = UNEXPECTED_ERROR
                else:
                    code, reason = failed
                    print(f"zab: {reason}", file=sys.stderr)
                nursery.cancel_scope.cancel()
        finally:
            await trio.to_thread.run_sync(self.stop)
        return code

    async def _serve(self, say: Say) -> tuple[int, str] | None:
        """Wait until the members serve, then have brokers and bookies; each is said. Returns None, or exit code and
        reason."""
        failed = await self._wait_until_serving(self.members)
        if failed is not None:
            return failed
        serving = {"type": "serving", "hosts": self.hosts, "directory": str(self._directory)}
        say(f"serving at {self.hosts} (data in {self._directory}, stop with Ctrl-C)", serving)
        if self.brokers:
            for broker in self.brokers:
                broker.start()
            failed = await self._wait_until_serving(self.brokers)
            if failed is not None:
                return failed
            say(f"brokers at {self.bootstrap}", {"type": "brokers", "hosts": self.bootstrap})
        return await self._serve_bookies(say) if self.bookies else None

    async def _serve_bookies(self, say: Say) -> tuple[int, str] | None:
        """Have bookies, below a root that is formatted once."""
        failed = await self._format_root()
        if failed is None:
            for bookie in self.bookies:
                bookie.start()
            failed = await self._wait_until_serving(self.bookies)
        if failed is None:
            uri = metadata_service_uri(self.hosts)
            places = [f"{HOST}:{bookie.port}" for bookie in self.bookies]
            say(
                f"bookies at {', '.join(places)}; metadataServiceUri={uri}",
                {"type": "bookies", "bookies": places, "metadata_service_uri": uri},
            )
        return failed

    async def _format_root(self) -> tuple[int, str] | None:
        """Make the root of all ledgers, unless there is one."""
        import uuid

        from zab.client import ZabError, connect
        from zab.client.coordination import OpenAccess, perform_steps
        from zab.coordination.operations import CoordinationError
        from zab.ledger.store.bookies import format_root

        try:
            async with connect(self.hosts) as client:
                await perform_steps(client, format_root(ROOT, str(uuid.uuid4())), OpenAccess().acl)
        except (ZabError, CoordinationError) as error:
            return UNEXPECTED_ERROR, f"the root of ledgers, {ROOT}, cannot be made: {error}"
        return None

    async def _stop_on_signal(self, scope: trio.CancelScope, task_status: trio.TaskStatus[None]) -> None:
        import trio

        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _number in signals:
                scope.cancel()
                return

    async def _wait_until_serving(self, processes: Sequence[LocalProcess]) -> tuple[int, str] | None:
        """Wait until all of these serve; returns None, or exit code and reason."""
        import trio

        deadline = time.monotonic() + SERVING_SECONDS_MAX
        waiting = list(processes)
        while waiting:
            for process in list(waiting):
                code = process.exit_code()
                if code is not None:
                    reason = f"{process.name} ended with exit code {code}, see {process.log_path}:"
                    return (code if code > 0 else UNEXPECTED_ERROR), f"{reason}\n{process.last_lines()}"
                if await trio.to_thread.run_sync(process.is_serving):
                    waiting.remove(process)
            if time.monotonic() > deadline:
                late = ", ".join(process.name for process in waiting)
                return UNEXPECTED_ERROR, f"not serving after {SERVING_SECONDS_MAX:.0f} s: {late}"
            await trio.sleep(PROBE_SECONDS)
        return None

    async def _wait_for_ends(self, say: Say) -> None:
        """Wait until every member has ended; each end, of a broker or a bookie too, is reported."""
        import trio

        async with trio.open_nursery() as others:
            beside: list[LocalBroker | LocalBookie] = [*self.brokers, *self.bookies]
            for other in beside:
                others.start_soon(self._report_end, other, say)
            async with trio.open_nursery() as members:
                for member in self.members:
                    members.start_soon(self._report_end, member, say)
            others.cancel_scope.cancel()

    async def _report_end(self, one: LocalMember | LocalBroker | LocalBookie, say: Say) -> None:
        import trio

        assert one.process is not None
        code = await trio.to_thread.run_sync(one.process.wait, abandon_on_cancel=True)
        ended: dict[str, Any]
        match one:
            case LocalMember():
                ended = {"type": "ended", "member": one.server_id}
            case LocalBroker():
                ended = {"type": "broker_ended", "broker": one.broker_id}
            case LocalBookie():
                ended = {"type": "bookie_ended", "bookie": one.number}
        ended |= {"exit_code": code, "journal": str(one.log_path)}
        say(one.ended, ended)

    def stop(self) -> None:
        """Stop the brokers and the bookies, then the members, and wait for them; one that does not stop in time is
        killed."""
        processes: Sequence[LocalProcess]
        for processes in ((*self.brokers, *self.bookies), self.members):
            for process in processes:
                process.stop()
            deadline = time.monotonic() + STOP_SECONDS
            for process in processes:
                process.wait_for_end(deadline)
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _why_not(broker_count: int, bookie_count: int) -> str | None:
    """Why this interpreter, with the libraries that it has, cannot run so many of them; None: it can."""
    from zab.host.process.refusal import refusal

    reason = refusal()
    if reason is None and broker_count:
        from zab.broker.configuration import why_not as why_no_broker

        reason = why_no_broker()
    if reason is None and bookie_count:
        from zab.bookie.configuration import why_not as why_no_bookie

        reason = why_no_bookie()
    return reason


def _refuse_in_use(directory: Path, lock_file: str) -> None:
    """Raise EnsembleError if a running server holds this data directory: its files must not be written again."""
    if not (directory / lock_file).exists():
        return
    try:
        RealDisk(str(directory), lock_file=lock_file).close()
    except OSError as error:
        reason = f"{directory}: {error.strerror}: {_OTHERS}"
        raise EnsembleError(DATA_DIRECTORY_ERROR, reason) from error


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Like the server's bind: earlier connections in TIME_WAIT do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _free_port(wanted: int, taken: set[int]) -> int:
    """`wanted`, or another free port; it is added to `taken`."""
    port = wanted
    while port in taken or not 0 < port < 65536 or not _is_free(port):
        port = random.choice(OTHER_PORTS)
    taken.add(port)
    return port
