"""Commands of the admin server on members in memory: what they say in an ensemble, and that they come in slices."""

import json
from typing import Any

import pytest

from datatree.opcodes import OpCode
from datatree.requests import PathKind
from tests.rigs.direct.members import SURROUNDINGS, Ensemble, Server
from zab.member.storage.events import SnapshotAsked
from zab.member.words import admin_commands
from zab.member.words.admin_commands import COMMANDS, CommandError


def tell(server: Server, name: str, **parameters: str) -> tuple[dict[str, Any], int]:
    """The answer, and in how many slices it came."""
    steps = COMMANDS[name].tell(server.member.view.around(SURROUNDINGS), parameters)
    slices = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, slices
        slices += 1


@pytest.fixture
def ensemble() -> Ensemble:
    return Ensemble(3)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_tells_something_json_can_hold(ensemble: Ensemble, name: str) -> None:
    ensemble.session(ensemble.follower)
    for server in ensemble.servers.values():
        told, _ = tell(server, name, traceMask="1")
        assert not {"command", "error"} & told.keys()
        json.dumps(told)


@pytest.mark.parametrize("name", sorted(name for name, command in COMMANDS.items() if command.always))
def test_what_is_told_always_is_told_without_a_leader(name: str) -> None:
    ensemble = Ensemble(3, start=False)
    tell(ensemble.servers[1], name, traceMask="1")


def test_the_leader_is_told_by_all(ensemble: Ensemble) -> None:
    leader = ensemble.leader
    for server in ensemble.servers.values():
        told, _ = tell(server, "leader")
        host = server.member.config.ensemble.servers[leader.sid].host
        assert told == {"is_leader": server is leader, "leader_id": leader.sid, "leader_ip": host}
    with pytest.raises(CommandError, match="not initialized"):
        tell(Ensemble(1).servers[1], "leader")


@pytest.mark.parametrize("mask", ["", "x", "1.5", str(1 << 63)])
def test_a_mask_is_a_long(ensemble: Ensemble, mask: str) -> None:
    with pytest.raises(CommandError, match="requires long"):
        tell(ensemble.leader, "set_trace_mask", traceMask=mask)
    assert tell(ensemble.leader, "get_trace_mask")[0] == {"tracemask": 306}


@pytest.mark.parametrize("name", ["watches", "watches_by_path", "watch_summary"])
def test_long_answers_come_in_slices(ensemble: Ensemble, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_commands, "NAMES", 1_000)
    client = ensemble.session(ensemble.follower)
    for first in range(0, 3_000, 100):
        bodies = [PathKind(b"/w%d" % number, 0).encode() for number in range(first, first + 100)]
        ensemble.do(client, *[client.request(OpCode.ADD_WATCH, body) for body in bodies])
    told, slices = tell(ensemble.follower, name)
    assert slices > 3
    if name == "watch_summary":
        assert told == {"num_connections": 1, "num_paths": 3_000, "num_total_watches": 3_000}


def test_a_dump_of_ephemerals_comes_in_slices(ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_commands, "NAMES", 1_000)
    client = ensemble.session(ensemble.follower)
    for first in range(0, 3_000, 100):
        ensemble.do(client, *[client.create(b"/e%d" % number, b"", 1) for number in range(first, first + 100)])
    told, slices = tell(ensemble.follower, "dump")
    [paths] = told["session_id_to_ephemeral_paths"].values()
    assert len(paths) == 3_000
    assert slices > 3


def test_a_snapshot_that_is_asked_for_is_of_the_state_as_it_is(ensemble: Ensemble) -> None:
    client = ensemble.session(ensemble.follower)
    ensemble.do(client, client.create(b"/a"))
    server = ensemble.follower
    server.answers.append(SnapshotAsked())
    server.answers.append(SnapshotAsked())
    ensemble.settle()
    assert [taken.zxid for taken in server.snapshots] == [server.member.applied]
