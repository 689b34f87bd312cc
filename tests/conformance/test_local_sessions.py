"""Local sessions: what clients see of them, on ours and on the real ZooKeeper.

Scenarios of ZooKeeper's LocalSessionRequestTest, SessionUpgradeTest, LocalSessionsOnlyTest and
DuplicateLocalSessionUpgradeTest: the same requests on the same kind of member of both, and all that was answered has to
be equal.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.conformance.reattaching import EPHEMERAL, EPHEMERAL_SEQUENTIAL, reattached
from tests.conformance.wire import CLOSE, PING, Wire, create, delete, exists, get, i32, multi, set_data
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember, four_letter_word, zookeeper

pytestmark = [pytest.mark.java, pytest.mark.slow]

MULTI = 14


@contextmanager
def both(*, upgrading: bool) -> Iterator[list[ZooKeeperEnsemble]]:
    lines: dict[str, str | int] = {
        "tickTime": 500,
        "localSessionsEnabled": "true",
        "localSessionsUpgradingEnabled": str(upgrading).lower(),
    }
    words = {"4lw.commands.whitelist": "*"}
    with (
        zab_servers(3, configuration={**lines, **words}) as ours,
        zookeeper(3, configuration=lines, properties=words) as theirs,
    ):
        yield [ours, theirs]


@pytest.fixture(scope="module")
def refusing() -> Iterator[list[ZooKeeperEnsemble]]:
    with both(upgrading=False) as servers:
        yield servers


@pytest.fixture(scope="module")
def upgrading() -> Iterator[list[ZooKeeperEnsemble]]:
    with both(upgrading=True) as servers:
        yield servers


def member_of(ensemble: ZooKeeperEnsemble, role: str) -> ZooKeeperMember:
    return ensemble.leader() if role == "leader" else ensemble.followers()[0]


def pair_of(ensemble: ZooKeeperEnsemble, role: str) -> tuple[ZooKeeperMember, ZooKeeperMember]:
    """The member with that role, and another one."""
    member = member_of(ensemble, role)
    return member, next(each for each in ensemble.members if each is not member)


def counts(member: ZooKeeperMember) -> tuple[str, str]:
    """The numbers of local and of global sessions in mntr."""
    lines = dict(
        line.split("\t", 1) for line in four_letter_word(member.client_port, "mntr").splitlines() if "\t" in line
    )
    return lines["zk_local_sessions"], lines["zk_global_sessions"]


def settled(member: ZooKeeperMember, wanted: tuple[str, str], wire: Wire | None = None) -> tuple[str, str]:
    """The counts, once they are these. A local session of the test before may have to expire, and this one, of `wire`,
    must not meanwhile."""
    deadline = time.monotonic() + 60
    while (found := counts(member)) != wanted and time.monotonic() < deadline:
        if wire is not None:
            wire.ask(PING, b"")
        time.sleep(0.02)
    return found


def czxid(wire: Wire, path: str) -> int:
    return int.from_bytes(wire.ask(*exists(path)).body[:8], "big")


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_local_sessions_write_own_nothing_and_do_not_move(refusing: list[ZooKeeperEnsemble], role: str) -> None:
    seen = []
    for ensemble in refusing:
        member, other = pair_of(ensemble, role)
        path = f"/{role}"
        with Wire(member.client_port) as wire:
            told: list[tuple[object, object]] = [settled(member, ("1", "0"), wire)]
            told.append(settled(other, ("0", "0"), wire))
            for request in (
                create(path, b"a"),
                create(f"{path}/e", flags=EPHEMERAL),
                create(f"{path}/e", flags=EPHEMERAL_SEQUENTIAL, opcode=15),
                create("no path", flags=EPHEMERAL),
                multi(create(f"{path}/m"), create(f"{path}/e", flags=EPHEMERAL)),
                multi(set_data(path, b"b"), delete(path + "/missing")),
                get(path),
                exists(f"{path}/e"),
            ):
                reply = wire.ask(*request)
                told.append((reply.error, reply.body if request[0] == MULTI else b""))
            told += [reattached(other, wire), reattached(member, wire)]
            seen.append(told)
        with Wire(member.client_port) as wire:
            told += [(wire.ask(CLOSE, b"").error, "closed"), settled(other, ("0", "0"))]
    # D122: of a follower's multi ZooKeeper's leader says that the session has expired.
    theirs = [
        (told[0], told[1].replace(i32(-112), i32(-120))) if role == "follower" and isinstance(told[1], bytes) else told
        for told in seen[1]
    ]
    assert seen[0] == theirs
    assert [told[0] for told in seen[0][2:10]] == [0, -120, -120, -120, 0, 0, 0, -101]


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_dump_lists_them_first(refusing: list[ZooKeeperEnsemble], role: str) -> None:
    said = []
    for ensemble in refusing:
        member = member_of(ensemble, role)
        with Wire(member.client_port) as wire:
            dump = four_letter_word(member.client_port, "dump").split("ephemeral nodes dump:")[0]
            assert f"\t0x{wire.session:x}\n" in dump.split("Global")[0]
            # Sessions of other tests may be there, too, and are due together or not.
            lines = re.sub(r"\d+ expire at .*:\n|\t0x.*\n", "", dump)
            said.append(re.sub(r"\(\d+\)/\(\d+\)", "(N)/(N)", lines))
            wire.ask(CLOSE, b"")
    assert said[0] == said[1]
    assert said[0].startswith("SessionTracker dump:\nLocal Session Sets (N)/(N):\nGlobal Session")


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_an_ephemeral_upgrades_the_session_which_moves_then(upgrading: list[ZooKeeperEnsemble], role: str) -> None:
    seen = []
    for ensemble in upgrading:
        member, other = pair_of(ensemble, role)
        path = f"/{role}"
        with Wire(member.client_port) as wire:
            told: list[object] = [settled(member, ("1", "0"), wire)]
            for request in (
                create(path),
                create(f"{path}/e", flags=EPHEMERAL),
                create(f"{path}/e", flags=EPHEMERAL),
                multi(create(f"{path}/f", flags=EPHEMERAL)),
                create(f"{path}/e/no"),
            ):
                told.append(wire.ask(*request).error)
            # One transaction between the two creates: the session becomes global once.
            told.append(czxid(wire, f"{path}/e") - czxid(wire, path))
            told += [settled(member, ("0", "1"), wire), settled(other, ("0", "1"), wire), reattached(other, wire)]
        with Wire(other.client_port, session=wire.session, password=wire.password) as moved:
            told += [moved.ask(CLOSE, b"").error]
        with Wire(member.client_port) as wire:
            told += [wire.ask(104, b"\x00\x00\x00\x01/").error]
            told += [wire.ask(CLOSE, b"").error, settled(other, ("0", "0"))]
        seen.append(told)
    assert seen[0] == seen[1]
    assert seen[0][1:7] == [0, 0, -110, 0, -108, 2]
