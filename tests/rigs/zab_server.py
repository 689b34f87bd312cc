"""Runs our own servers as processes, with the interface of `zookeeper_server`: a test or a benchmark can drive both.

    with zab_servers(3) as ensemble:
        ensemble.leader().kill()

Every member is `python -m zab.server zoo.cfg` on free loopback ports. What is said there about killing and watchdogs
holds here.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.rigs.namespaces import Namespaces
from tests.rigs.processes import ended
from tests.rigs.zookeeper_server import NO_ADMIN, ZooKeeperEnsemble, ZooKeeperMember, configurations
from zab.testing.kit.ports import free_ports

PROGRAM = ("-m", "zab.server")
QUICK = (
    "clientPortAddress=127.0.0.1",
    "tickTime=200",
    # Ten seconds: what the machine lets wait is not lost.
    "initLimit=50",
    "syncLimit=50",
    "minSessionTimeout=400",
    "maxSessionTimeout=40000",
    "maxClientCnxns=0",
    "preAllocSize=1024",
    "4lw.commands.whitelist=*",
)


@contextlib.contextmanager
def zab_servers(
    size: int = 3,
    *,
    directory: Path | str | None = None,
    configuration: Mapping[str, str | int] | None = None,
    each: Sequence[Mapping[str, str | int]] = (),
    program: Sequence[str] = PROGRAM,
    on: Namespaces | None = None,
    wait: bool = True,
) -> Iterator[ZooKeeperEnsemble]:
    """`size` members that serve when the block is entered; all of them are killed when it is left.

    directory, configuration: as in `zookeeper()`. each: further lines of one member alone, in their order. program:
    what Python runs with the file after it, where it is not the server itself but a variant of it. on: the machines
    that they run on, each on one. wait: False enters the block without waiting for the members to serve.
    """
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="zab-", ignore_cleanup_errors=True))
        ensemble = ZooKeeperEnsemble()
        shared = configurations(size, {**NO_ADMIN, **(configuration or {})})
        for server_id, (lines, own) in enumerate(zip(shared, each or [{}] * size, strict=True), start=1):
            place = Path(directory) / f"server{server_id}"
            ensemble.members.append(zab_member(server_id, place, {**lines, **own}, program))
        if on is not None:
            for member in ensemble.members:
                member.command = on.command(member.server_id, member.command)
        stack.enter_context(ended(ensemble.members))
        for member in ensemble.members:
            member.start()
        if wait:
            ensemble.wait()
        yield ensemble


@contextlib.contextmanager
def zab_over_tls(configuration: Mapping[str, str | int]) -> Iterator[tuple[ZooKeeperMember, str]]:
    """One member with these lines, and localhost with its port for TLS. It has a plain port besides."""
    [port] = free_ports(1)
    lines = {**configuration, "secureClientPort": port, "secureClientPortAddress": "127.0.0.1"}
    with zab_servers(1, configuration=lines) as servers:
        yield servers.members[0], f"localhost:{port}"


def zab_member(
    server_id: int, directory: Path, lines: Mapping[str, str | int], program: Sequence[str] = PROGRAM
) -> ZooKeeperMember:
    """One member that is not started, with these lines in its file."""
    data = directory / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / "myid").write_text(f"{server_id}\n")
    file = directory / "zoo.cfg"
    file.write_text("".join(f"{key}={value}\n" for key, value in {**lines, "dataDir": data}.items()))
    command = [sys.executable, *program, str(file)]
    return ZooKeeperMember(server_id, int(lines["clientPort"]), directory, command, str(lines["clientPortAddress"]))


@contextlib.contextmanager
def servers(directory: Path, count: int = 1, *lines: str) -> Iterator[ZooKeeperEnsemble]:
    """`count` members with short ticks and these lines in the file of each, which serve."""
    with unstarted(directory, count, *lines) as ensemble:
        for member in ensemble.members:
            member.start()
        ensemble.wait()
        yield ensemble


@contextlib.contextmanager
def unstarted(
    directory: Path, count: int, *lines: str, program: Sequence[str] = PROGRAM
) -> Iterator[ZooKeeperEnsemble]:
    """As `servers`, but the test starts them. The data of each is in its directory, beside its file."""
    ports = free_ports(3 * count)
    addresses = [
        f"server.{number + 1}=127.0.0.1:{ports[3 * number + 1]}:{ports[3 * number + 2]}" for number in range(count)
    ]
    members = [
        member_of_lines(
            number + 1,
            directory / str(number + 1),
            ports[3 * number],
            [
                f"dataDir={directory / str(number + 1)}",
                f"clientPort={ports[3 * number]}",
                *QUICK,
                *lines,
                *(addresses if count > 1 else []),
            ],
            program,
        )
        for number in range(count)
    ]
    with ended(members):
        yield ZooKeeperEnsemble(members)


def member_of_lines(
    server_id: int, directory: Path, client_port: int, lines: Sequence[str], program: Sequence[str] = PROGRAM
) -> ZooKeeperMember:
    """One member that is not started. Its data is in its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, *program, str(directory / "zoo.cfg")]
    member = ZooKeeperMember(server_id, client_port, directory, command, data=directory)
    member.config.write_text("\n".join(lines) + "\n")
    (directory / "myid").write_text(f"{server_id}\n")
    return member
