"""Whole members, of which the last one is an observer that follows through a master."""

from collections import deque

import pytest

from datatree.errors import ErrorCode
from datatree.snapshot import SnapshotWriter
from tests.member.trees.spoiled_trees import digests, said, spoil, write
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble, Server
from zab.member.words.admin_commands import COMMANDS
from zab.member.words.figures import figures
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.quorum.ids import ServerId

LINES = {"observerMasterPort": 2191}


def begin(**lines: object) -> Ensemble:
    return Ensemble(4, observers=1, **LINES, **lines)


def observer(ensemble: Ensemble) -> Server:
    return ensemble.servers[4]  # type: ignore[index]


def master(ensemble: Ensemble) -> Server:
    following = observer(ensemble).member.peer.following
    assert following is not None
    assert following.source != following.leader
    return ensemble.servers[following.source]


def session_of(client: Client) -> int:
    assert client.response is not None
    return client.response.session_id


def leave_master(ensemble: Ensemble) -> None:
    """The observer loses its master and goes on elsewhere."""
    link = observer(ensemble).member.peer.link_to_leader
    assert link is not None
    ensemble.break_link(link)
    ensemble.settle()
    for _ in range(100):
        if observer(ensemble).member.serving:
            return
        ensemble.advance(50)
    raise AssertionError(observer(ensemble).traces[-5:])


def test_clients_of_an_observer_read_write_and_sync_through_its_master() -> None:
    ensemble = begin()
    client = ensemble.session(observer(ensemble))
    replies = ensemble.do(client, client.create(b"/a", b"one"), client.set(b"/a", b"two"), client.get(b"/a"))
    assert [error for _, error, _ in replies] == [0, 0, 0]
    elsewhere = ensemble.session(ensemble.leader)
    ensemble.do(elsewhere, elsewhere.set(b"/a", b"three"))
    assert [error for _, error, _ in ensemble.do(client, client.sync(), client.get(b"/a"))] == [0, 0]
    assert observer(ensemble).value(b"/a") == ensemble.leader.value(b"/a") == b"three"
    requests = [sid for sid, message in ensemble.sent if isinstance(message, mmsg.Request)]
    assert set(requests) == {observer(ensemble).sid}
    relayed = {sid for sid, message in ensemble.sent if isinstance(message, msg.Relayed)}
    assert relayed == {master(ensemble).sid, ensemble.leader.sid}


def test_a_session_moves_to_an_observer_and_its_older_server_may_not_write_for_it() -> None:
    ensemble = begin()
    client = ensemble.session(ensemble.leader)
    moved = ensemble.reattach(client, observer(ensemble))
    ensemble.settle()
    assert session_of(moved) == session_of(client)
    assert [error for _, error, _ in ensemble.do(moved, moved.create(b"/a"))] == [0]
    tracker = ensemble.leader.member.sessions.tracker
    assert tracker is not None
    assert ensemble.leader.member.sessions.refusal(session_of(client), master(ensemble).sid) == ErrorCode.SESSIONMOVED  # type: ignore[arg-type]
    assert ensemble.leader.member.sessions.refusal(session_of(client), observer(ensemble).sid) == 0  # type: ignore[arg-type]


def test_a_session_that_is_over_is_refused_through_a_master() -> None:
    ensemble = begin()
    client = ensemble.session(observer(ensemble), timeout_ms=4_000)
    ensemble.cut |= {4}
    ensemble.advance(20_000)
    ensemble.cut -= {4}
    ensemble.start()
    back = ensemble.reattach(client, observer(ensemble))
    ensemble.settle()
    assert back.response is not None
    assert back.response.timeout_ms == 0


def test_sessions_of_an_observer_are_touched_through_its_master() -> None:
    ensemble = begin()
    client = ensemble.session(observer(ensemble), timeout_ms=4_000)
    until = ensemble.now + 20_000
    while ensemble.now < until:
        ensemble.do(client, client.exists(b"/"))
        ensemble.advance(1_000)
    assert not client.is_closed
    assert session_of(client) in ensemble.leader.member.tree.sessions


class Held(deque[tuple[ServerId, msg.Message]]):
    """What is on a link, except for what this server says of observers: that is kept for later."""

    def __init__(self, sid: ServerId) -> None:
        super().__init__()
        self._sid = sid
        self.kept: list[msg.Message] = []

    def append(self, item: tuple[ServerId, msg.Message]) -> None:
        if item[0] == self._sid and isinstance(item[1], msg.Relayed | msg.Detach):
            self.kept.append(item[1])
        else:
            super().append(item)


def test_what_waited_at_a_master_that_was_left_is_not_done_behind_what_came_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client wrote 1, its observer lost its master, whose link is slow; the client came back and wrote 2."""
    ensemble = begin()
    client = ensemble.session(observer(ensemble), timeout_ms=40_000)
    ensemble.do(client, client.create(b"/a", b"0"))
    before, dial = master(ensemble), ensemble.dial
    link = before.member.peer.link_to_leader
    assert link is not None
    held = ensemble.on_wire[link] = Held(before.sid)
    client.say(client.set(b"/a", b"1"))
    ensemble.settle()
    assert [type(message) for message in held.kept] == [msg.Relayed]

    def dial_others(server: Server, sid: ServerId) -> None:
        if sid == before.sid:
            server.answers.append(ev.DialFailed(sid))
        else:
            dial(server, sid)

    monkeypatch.setattr(ensemble, "dial", dial_others)
    leave_master(ensemble)
    assert client.is_closed
    back = ensemble.reattach(client, observer(ensemble))
    ensemble.settle()
    assert [error for _, error, _ in ensemble.do(back, back.set(b"/a", b"2"), back.sync())] == [0, 0]
    assert [type(message) for message in held.kept] == [msg.Relayed, msg.Detach]
    ensemble.leader.answers += [ev.MessageReceived(link, message) for message in held.kept]
    ensemble.settle()
    assert ensemble.leader.value(b"/a") == b"2"
    assert before.member.serving
    assert observer(ensemble).member.serving


def test_an_observer_that_forwards_what_it_may_not_loses_its_own_link_and_no_other() -> None:
    ensemble = begin()
    before = master(ensemble)
    link, its_own = before.member.peer.link_to_leader, observer(ensemble).member.peer.link_to_leader
    assert its_own is not None
    lie = mmsg.Request([[[[b"ip", b"127.0.0.1"]], [mmsg.WRITE_HEAD.pack(7, 1, 4) + b"body"]]])
    before.answers.append(ev.MessageReceived(its_own, lie))
    ensemble.settle()
    assert its_own not in ensemble.links
    assert before.member.peer.link_to_leader == link
    assert before.member.serving
    ensemble.start()


def test_a_tree_that_differs_from_its_masters_is_made_anew() -> None:
    ensemble = begin()
    client = ensemble.session(observer(ensemble), timeout_ms=40_000)
    ensemble.do(client, client.create(b"/a", b"0"))
    right = observer(ensemble).member.tree.digest
    spoil(observer(ensemble))
    ensemble.advance(3_000)
    assert said(observer(ensemble), "this tree is wrong")
    ensemble.start()
    assert observer(ensemble).member.tree.digest == right
    suspicions = [message for sid, message in ensemble.sent if isinstance(message, msg.Relayed)]
    assert mmsg.Suspect in {type(msg.decode(message.message)) for message in suspicions}


def test_an_observer_whose_own_files_lead_to_no_tree_takes_the_snapshot_of_its_master() -> None:
    ensemble = begin(snapCount=8)
    client = ensemble.session(ensemble.leader)
    ensemble.do(client, client.create(b"/a"))
    while not ensemble.leader.snapshots:
        write(ensemble, client)
    for server in ensemble.others(observer(ensemble)):
        [taken] = server.snapshots
        SnapshotWriter(server.disk, taken.cursor, server.storage.log.lineage, taken.chain).write()
        ensemble.finish_snapshot(server)
    write(ensemble, client, 2)
    observer(ensemble).forget_oldest(2)
    spoil(observer(ensemble))
    write(ensemble, client, 3)
    ensemble.advance(3_000)
    assert said(observer(ensemble), "the tree cannot be repaired from this member's files")
    assert observer(ensemble).member.serving
    assert len(digests(ensemble)) == 1
    offered = [sid for sid, message in ensemble.sent if isinstance(message, mmsg.TreeOffered)]
    assert set(offered) == {master(ensemble).sid}


def test_what_is_told_of_observers_and_masters() -> None:
    ensemble = begin()
    told = {
        sid: {each.name: each.value for each in figures(server.member.view)} for sid, server in ensemble.servers.items()
    }
    of_master = told[master(ensemble).sid]
    assert of_master["synced_observers"] == 1
    assert "observer_master_id" not in of_master
    assert told[observer(ensemble).sid]["observer_master_id"] == master(ensemble).sid
    assert told[ensemble.leader.sid]["synced_observers"] == 0
    lags = [each.key for each in figures(master(ensemble).member.view) if each.name == "learner_lag"]
    assert lags == [str(observer(ensemble).sid)]
    [follower] = [
        each
        for each in ensemble.servers.values()
        if each.sid in {1, 2, 3} - {master(ensemble).sid} and each is not ensemble.leader
    ]
    assert told[follower.sid]["synced_observers"] == 0
    with pytest.raises(StopIteration) as end:
        next(iter(COMMANDS["observers"].tell(master(ensemble).member, {})))
    assert [each["sid"] for each in end.value.value["observers"]] == [4]
    without = Ensemble(4, observers=1)
    names = {
        each.name
        for server in without.servers.values()
        for each in figures(server.member.view)
        if server is not without.leader
    }
    assert "synced_observers" not in names
