"""Apply goes ahead of telling: watch events are sent to a few connections a turn, and no reply overtakes them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble, Server
from zab.member.clients.connection import ClientConnection


def told_by_turn(ensemble: Ensemble, watchers: list[Client]) -> list[int]:
    """How many of them each turn of their server has sent anything, filled in from now on."""
    [server] = {watcher.server for watcher in watchers}
    counts: list[int] = []
    step = ensemble.step

    def counting(stepped: Server) -> None:
        before = [len(watcher.received) for watcher in watchers]
        step(stepped)
        if stepped is server:
            counts.append(sum(len(watcher.received) > had for watcher, had in zip(watchers, before, strict=True)))

    ensemble.step = counting  # type: ignore[method-assign]
    return counts


def watching(ensemble: Ensemble, server: Server, count: int, path: bytes = b"/a") -> list[Client]:
    watchers = [ensemble.session(server) for _ in range(count)]
    for watcher in watchers:
        ensemble.do(watcher, watcher.add_watch(path, 1))
    return watchers


def marked_by_turn(ensemble: Ensemble) -> set[ClientConnection]:
    """The connections that turns leave something to do for, from now on."""
    marked: set[ClientConnection] = set()
    step = ensemble.step

    def noting(server: Server) -> None:
        step(server)
        marked.update(server.member.clients.dirty)

    ensemble.step = noting  # type: ignore[method-assign]
    return marked


@pytest.mark.parametrize("watcher_count", [0, 50])
def test_what_is_committed_is_applied_in_its_turn_however_many_watch(
    watcher_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each turn of a follower has fifteen changes to apply, and sends to five connections."""
    for place in ("requests.applying.APPLIED_COUNT_MAX", "requests.processor.DELIVERED"):
        monkeypatch.setattr(f"zab.member.{place}", 40)
    monkeypatch.setattr("zab.member.requests.event_sending.SENT", 5)
    ensemble = Ensemble(3)
    follower, writer = ensemble.follower, ensemble.session(ensemble.leader)
    ensemble.do(writer, writer.create(b"/a"))
    watchers = watching(ensemble, follower, watcher_count)
    member, unapplied = follower.member, []
    for _ in range(40):
        writer.say(b"".join(writer.set(b"/a", b"x") for _ in range(15)))
        for server in ensemble.servers.values():
            ensemble.step(server)
        ensemble._deliver()
        unapplied.append(member.peer.committed - member.applied)
    assert set(unapplied) == {0}
    assert bool(member.state.event_sender.waiting) == bool(watchers)
    ensemble.settle()
    for watcher in watchers:
        assert [path for _, path in watcher.events()] == [b"/a"] * 600


def test_turn_sends_events_to_so_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.requests.event_sending.SENT", 5)
    ensemble = Ensemble(1)
    [server] = ensemble.servers.values()
    writer = ensemble.session()
    ensemble.do(writer, writer.create(b"/a"))
    counts = told_by_turn(ensemble, watching(ensemble, server, 23))
    ensemble.do(writer, writer.set(b"/a", b"x"))
    assert [count for count in counts if count] == [5, 5, 5, 5, 3]


def test_turn_sends_so_many_bytes_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.requests.event_sending.SENT_BYTES", 900)
    ensemble = Ensemble(1)
    [server] = ensemble.servers.values()
    writer, path = ensemble.session(), b"/" + b"a" * 300
    ensemble.do(writer, writer.create(path))
    counts = told_by_turn(ensemble, watching(ensemble, server, 7, path))
    ensemble.do(writer, writer.set(path, b"x"))
    assert [count for count in counts if count] == [3, 3, 1]


def test_reply_stands_behind_events_that_wait_and_takes_them_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of ten watchers reads what has changed, while the others are told one by one."""
    monkeypatch.setattr("zab.member.requests.event_sending.SENT", 1)
    ensemble = Ensemble(1)
    [server] = ensemble.servers.values()
    writer = ensemble.session()
    ensemble.do(writer, writer.create(b"/a"))
    *others, last = watching(ensemble, server, 10)
    writer.say(writer.set(b"/a", b"1") + writer.set(b"/a", b"2"))
    while not others[0].received:
        ensemble.step(server)
    assert last.received == []
    last.say(last.get(b"/a"))
    ensemble.step(server)
    assert [item[0] for item in last.received] == ["event", "event", "reply"]
    assert last.received[-1][-1][0] == b"2"
    ensemble.settle()
    assert len(last.received) == 3
    assert [len(other.events()) for other in others] == [2] * 9


def test_apply_waits_once_too_many_events_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower finds a hundred batches, each of which is 60 bytes or so for each of 20 watchers."""
    monkeypatch.setattr("zab.member.requests.event_sending.SENT", 1)
    ensemble = Ensemble(3, maxBatchCount=1)
    follower, writer = ensemble.follower, ensemble.session(ensemble.leader)
    ensemble.do(writer, writer.create(b"/a"))
    watchers = watching(ensemble, follower, 20)
    sender = follower.member.state.event_sender
    sender.bytes_max = 5_000
    follower.durable_held = True
    ensemble.do(writer, *(writer.set(b"/a", b"x") for _ in range(100)))
    waited = []
    step = ensemble.step

    def noting(server: Server) -> None:
        step(server)
        if server is follower:
            waited.append(sender.bytes)

    ensemble.step = noting  # type: ignore[method-assign]
    ensemble.release(follower)
    ensemble.settle()
    assert sender.bytes_max < max(waited) <= sender.bytes_max + 20 * 60
    assert [len(watcher.events()) for watcher in watchers] == [100] * 20
    assert (sender.bytes, sender.waiting) == (0, {})


def test_apply_does_not_wait_for_who_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a socket does not take is output, and waits for no turn any more."""
    monkeypatch.setattr("zab.member.requests.event_sending.SENT", 1)
    ensemble = Ensemble(3)
    follower, writer = ensemble.follower, ensemble.session(ensemble.leader)
    ensemble.do(writer, writer.create(b"/a"))
    watchers = watching(ensemble, follower, 5)
    follower.member.state.event_sender.bytes_max = 200
    follower.keep_output = True
    ensemble.do(writer, *(writer.set(b"/a", b"x") for _ in range(30)))
    assert follower.member.applied == ensemble.leader.member.applied
    assert [watcher.received for watcher in watchers] == [[]] * 5
    assert len({watcher.connection.unsent_bytes for watcher in watchers} - {0}) == 1


def test_limit_is_half_of_what_outputs_of_all_may_have() -> None:
    ensemble = Ensemble(1, totalOutputLimitBytes=64 << 20)
    [server] = ensemble.servers.values()
    assert server.member.state.event_sender.bytes_max == 32 << 20


@pytest.mark.parametrize("how", ["closed", "answered"])
def test_who_is_gone_or_was_answered_waits_no_more(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.member.requests.event_sending.SENT", 1)
    ensemble = Ensemble(1)
    [server] = ensemble.servers.values()
    writer = ensemble.session()
    ensemble.do(writer, writer.create(b"/a"))
    watchers = watching(ensemble, server, 6)
    writer.say(writer.set(b"/a", b"x"))
    while not watchers[0].received:
        ensemble.step(server)
    early: list[Any] = watchers[3:]
    for watcher in early:
        watcher.close() if how == "closed" else watcher.say(watcher.get(b"/a"))
    ensemble.step(server)
    sent = partial(map, len, [watcher.received for watcher in watchers])
    assert [*sent()][3:] == ([0, 0, 0] if how == "closed" else [2, 2, 2])
    later = marked_by_turn(ensemble)
    ensemble.settle()
    assert not later & {watcher.connection for watcher in early}
    assert [*sent()] == ([1, 1, 1, 0, 0, 0] if how == "closed" else [1, 1, 1, 2, 2, 2])
    sender = server.member.state.event_sender
    assert (sender.bytes, sender.waiting) == (0, {})
