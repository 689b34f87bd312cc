"""Descriptors: a member that has none left. It always keeps some for its links, its log and its snapshots."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.ensembles import Target, attacked_member, innocents
from tests.hostile.raw import connect, say
from tests.rigs.zab_server import unstarted
from zab.host.files.secret_file import make_secret_file
from zab.host.process.descriptors import LIMIT_MIN

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.long]

DESCRIPTORS_MAX = LIMIT_MIN
"""Half of them are kept: strangers at two ports, what waits to be accepted, and what a member has open fit in there."""


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS_MAX, DESCRIPTORS_MAX))


@pytest.fixture(scope="module")
def poor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Members whose processes may open as few descriptors as a server starts with."""
    directory = tmp_path_factory.mktemp("poor")
    secret = directory / "secret"
    make_secret_file(str(secret))
    with unstarted(directory, 3, f"quorum.secretFile={secret}", "snapCount=500") as ensemble:
        members = []
        for member in ensemble.members:
            member.start(preexec_fn=few_descriptors)
            assert member.process is not None
            members.append(attacked_member(member.server_id, member.pid, Path(member.directory), secret))
        ensemble.wait()
        with innocents(20_000, [member.client_port for member in members]) as process:
            yield Target(members, process)


@pytest.mark.parametrize("name", ["client_port", "quorum_port", "election_port", "all"])
def test_more_connections_than_descriptors(poor: Target, name: str) -> None:
    """Anybody opens 900 connections to each member, from many addresses, and asks for snapshots; meanwhile members roll
    their logs and take snapshots. Five requests ended the leader once. Clients that are served already go on."""
    ports = ("client_port", "quorum_port", "client_port", "election_port") if name == "all" else (name,)
    with poor.attacked(), contextlib.ExitStack() as stack:
        for member in poor.members:
            for number in range(900):
                port = getattr(member, ports[number % len(ports)])
                with contextlib.suppress(OSError):
                    sock = stack.enter_context(connect(port, source=f"127.0.0.{2 + number // 90}"))
                    if number % 3 == 0:
                        say(sock, b"\0\0\0\x28" + bytes(20))
        poor.wait_for_innocents(300)
