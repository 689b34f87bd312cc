"""Observers that follow through a master: the protocol alone."""

from collections.abc import Callable
from typing import Any

import pytest

from datatree.log.epochs import save_epochs
from tests.rigs.direct.peers import TICK_MS, Ensemble, histories
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.features import OBSERVER_MASTERS
from zab.protocol.roles import LearnerHandler
from zab.protocol.states import OBSERVING
from zab.quorum.ids import Link, ServerId

OBSERVER = ServerId(4)


def begin(size: int = 3, observers: int = 1, **settings: Any) -> Ensemble:
    """Voters 1 to `size`, and observers after them, which all follow and serve."""
    sids = frozenset(ServerId(size + number) for number in range(1, observers + 1))
    ensemble = Ensemble(size, observers=sids, has_observer_masters=1, **settings)
    ensemble.start()
    ensemble.elect()
    ensemble.run(20 * TICK_MS)
    assert all(ensemble.peer(sid).serving for sid in ensemble.up())
    return ensemble


def source(ensemble: Ensemble, sid: ServerId = OBSERVER) -> ServerId:
    following = ensemble.peer(sid).following
    assert following is not None
    return following.source


def leader_of(ensemble: Ensemble) -> ServerId:
    leader = ensemble.leader()
    assert leader is not None
    return leader


def handler_at_master(ensemble: Ensemble, sid: ServerId = OBSERVER) -> LearnerHandler:
    following = ensemble.peer(source(ensemble, sid)).following
    assert following is not None
    assert following.mastering is not None
    handler = following.mastering.handler_of(sid)
    assert handler is not None
    return handler


def routes(ensemble: Ensemble) -> dict[Any, ServerId]:
    leading = ensemble.peer(leader_of(ensemble)).leading
    assert leading is not None
    return leading.attached


def closed_to_observers(ensemble: Ensemble, sids: set[int]) -> None:
    """Nobody dials these servers any more, and links of the observer to them break."""
    connect = ensemble.connect

    def refuse(sid: ServerId, to: ServerId) -> None:
        if to in sids:
            ensemble.step(sid, ev.DialFailed(to))
        else:
            connect(sid, to)

    ensemble.connect = refuse  # type: ignore[method-assign]
    for link in [link for link, ends in ensemble.links.items() if ends[0] == OBSERVER and ends[1] in sids]:
        ensemble.close(link, None)


def spied(ensemble: Ensemble) -> list[tuple[ServerId, msg.Message]]:
    """What each server sends from now on, but pings."""
    sent: list[tuple[ServerId, msg.Message]] = []
    send = ensemble.send

    def spy(sid: ServerId, links: Any, message: msg.Message) -> None:
        if not isinstance(message, msg.Ping):
            sent.extend((sid, message) for _ in links)
        send(sid, links, message)

    ensemble.send = spy  # type: ignore[method-assign]
    return sent


def test_an_observer_follows_through_a_follower_and_has_what_is_committed() -> None:
    ensemble = begin()
    leader = leader_of(ensemble)
    assert source(ensemble) != leader
    assert ensemble.peer(OBSERVER).state == OBSERVING
    assert OBSERVER not in ensemble.peer(leader).learners.values()
    assert list(routes(ensemble).values()) == [OBSERVER]
    for number in range(5):
        ensemble.propose(leader, b"%d" % number)
    ensemble.settle()
    assert len(histories(ensemble)) == 1
    assert ensemble.servers[OBSERVER].applied == ensemble.servers[leader].applied
    assert len(ensemble.servers[OBSERVER].applied) == 5


def test_an_observer_gets_nothing_that_is_not_committed() -> None:
    ensemble = begin()
    leader, master = leader_of(ensemble), source(ensemble)
    sent = spied(ensemble)
    for sid in (1, 2, 3):
        ensemble.servers[ServerId(sid)].held = {fx.AppendBatches}
    zxid = ensemble.propose(leader)
    ensemble.settle()
    assert ensemble.peer(master).history.last[0] == zxid > ensemble.peer(OBSERVER).history.last[0]
    assert not [message for sid, message in sent if sid == master and isinstance(message, msg.Proposal)]
    for sid in (1, 2, 3):
        ensemble.servers[ServerId(sid)].held = set()
    ensemble.settle()
    assert ensemble.peer(OBSERVER).history.last[0] == zxid


def test_a_new_observer_is_readmitted_and_has_its_record_after_a_restart() -> None:
    ensemble = begin()
    assert not ensemble.peer(OBSERVER).amnesiac
    assert ensemble.peer(OBSERVER).recorded_lineage == ensemble.peer(leader_of(ensemble)).lineage
    ensemble.crash(OBSERVER)
    ensemble.propose(leader_of(ensemble))
    ensemble.settle()
    ensemble.start(OBSERVER)
    assert not ensemble.peer(OBSERVER).amnesiac
    ensemble.run(20 * TICK_MS)
    assert ensemble.peer(OBSERVER).serving
    assert len(histories(ensemble)) == 1


def test_observers_spread_over_the_masters() -> None:
    ensemble = begin(observers=8)
    sources = [source(ensemble, ServerId(sid)) for sid in range(4, 12)]
    assert set(sources) == {1, 2, 3} - {leader_of(ensemble)}


def test_masters_that_are_near_are_tried_first() -> None:
    """All dial the nearest; when it ends they go on with the next one, and then with somebody else."""
    ensemble = begin(size=5, observers=4)
    leader = leader_of(ensemble)
    near = [sid for sid in (5, 4, 3, 2, 1) if sid != leader][:2]
    again = begin(size=5, observers=4, near_observer_masters=tuple(near))
    assert leader_of(again) == leader
    observers = [ServerId(sid) for sid in range(6, 10)]
    assert [source(again, sid) for sid in observers] == [near[0]] * 4
    again.crash(ServerId(near[0]))
    again.run(40 * TICK_MS)
    assert [source(again, sid) for sid in observers] == [near[1]] * 4
    again.crash(ServerId(near[1]))
    again.run(40 * TICK_MS)
    assert {source(again, sid) for sid in observers} <= set(again.up()) - {leader}
    assert all(again.peer(sid).serving for sid in observers)


def test_a_leader_that_is_near_is_followed_itself_before_those_that_are_far() -> None:
    leader = leader_of(begin(size=5))
    nearest, other = [ServerId(sid) for sid in (1, 2, 3, 4, 5) if sid != leader][:2]
    ensemble = begin(size=5, near_observer_masters=(nearest, leader, other))
    assert source(ensemble, ServerId(6)) == nearest
    ensemble.crash(nearest)
    ensemble.run(40 * TICK_MS)
    assert source(ensemble, ServerId(6)) == leader_of(ensemble) == leader


def test_who_is_near_and_no_voter_is_passed_over() -> None:
    ensemble = begin(observers=2, near_observer_masters=(5, 77, 4))
    assert {source(ensemble, ServerId(sid)) for sid in (4, 5)} <= {1, 2, 3} - {leader_of(ensemble)}


def test_the_leader_is_the_last_one_that_is_tried() -> None:
    ensemble = begin()
    leader = leader_of(ensemble)
    closed_to_observers(ensemble, {1, 2, 3} - {leader})
    ensemble.run(20 * TICK_MS)
    assert source(ensemble) == leader
    assert ensemble.peer(OBSERVER).serving
    assert routes(ensemble) == {}


def test_when_the_master_ends_its_observer_goes_on_elsewhere() -> None:
    ensemble = begin()
    leader, master = leader_of(ensemble), source(ensemble)
    ensemble.crash(master)
    assert not ensemble.peer(OBSERVER).serving
    ensemble.run(20 * TICK_MS)
    assert source(ensemble) not in (master, leader)
    assert ensemble.peer(OBSERVER).serving
    zxid = ensemble.propose(leader)
    ensemble.settle()
    assert ensemble.peer(OBSERVER).history.last[0] == zxid


def test_a_master_that_looks_closes_the_links_of_its_observers() -> None:
    ensemble = begin()
    leader, master = leader_of(ensemble), source(ensemble)
    ensemble.partition(leader, master)
    ensemble.settle()
    assert ensemble.peer(master).learners == {}
    assert not ensemble.peer(OBSERVER).serving
    ensemble.run(20 * TICK_MS)
    assert ensemble.peer(OBSERVER).serving


def test_a_voter_and_a_unlisted_server_are_no_observers_of_a_master() -> None:
    ensemble = begin()
    leader, master = leader_of(ensemble), source(ensemble)
    [voter] = {1, 2, 3} - {leader, master}
    for number, sid in ((900, voter), (901, 77)):
        ensemble.links[Link(number)] = (ServerId(sid), master)
        ensemble.wires[Link(number), ServerId(sid)] = ensemble.wires[Link(number), master] = type(
            ensemble.wires[next(iter(ensemble.wires))]
        )()
        ensemble.servers.setdefault(ServerId(sid), type(ensemble.servers[master])(ServerId(sid)))
        ensemble.step(master, ev.QuorumLinkUp(Link(number), ServerId(sid), inbound=True))
        assert Link(number) not in ensemble.links
        assert Link(number) not in ensemble.peer(master).learners


def refused(change: Callable[[msg.ObserverInfo], None]) -> str:
    """What the master says when OBSERVERINFO is changed like this."""
    ensemble = begin()
    master = source(ensemble)
    peer = ensemble.peer(OBSERVER)
    info = msg.ObserverInfo(
        leader_of(ensemble), peer.accepted_epoch, peer.lineage, peer.holds, peer.amnesiac, is_low=False
    )
    change(info)
    following = ensemble.peer(master).following
    assert following is not None
    assert following.mastering is not None
    sent = spied(ensemble)
    ensemble.step(master, ev.QuorumLinkUp(Link(900), OBSERVER, inbound=True))
    ensemble.step(master, ev.MessageReceived(Link(900), info))
    if Link(900) in following.mastering.handlers:
        return ""
    reasons = [message.reason for _, message in sent if isinstance(message, msg.Refused)]
    return next(reason for reason in reasons if "replaced" not in reason)


def test_who_follows_another_leader_or_is_ahead_of_the_epoch_is_refused() -> None:
    def other_leader(info: msg.ObserverInfo) -> None:
        info.leader = ServerId(9)

    def later_epoch(info: msg.ObserverInfo) -> None:
        info.accepted_epoch += 1  # type: ignore[assignment]

    def other_lineage(info: msg.ObserverInfo) -> None:
        info.lineage = bytes(15) + b"x"
        info.holds = 3  # type: ignore[assignment]

    assert refused(lambda _info: None) == ""
    assert "it follows server 9" in refused(other_leader)
    assert "it has accepted epoch" in refused(later_epoch)
    assert "another ensemble" in refused(other_lineage)


def test_an_observer_that_accepted_a_later_epoch_ends_at_the_leader_which_renews() -> None:
    ensemble = begin()
    leader = leader_of(ensemble)
    before = ensemble.peer(leader).epoch
    ensemble.crash(OBSERVER)
    save_epochs(ensemble.servers[OBSERVER].disk, before + 3, before)
    ensemble.start(OBSERVER)
    ensemble.run(40 * TICK_MS)
    assert ensemble.peer(leader).epoch > before + 3
    assert ensemble.peer(OBSERVER).serving


def test_a_leader_of_an_older_version_has_no_masters() -> None:
    ensemble = begin()
    master = source(ensemble)
    following = ensemble.peer(master).following
    assert following is not None
    following.features &= ~OBSERVER_MASTERS
    ensemble.step(master, ev.TimePassed())
    assert following.mastering is None
    ensemble.run(20 * TICK_MS)
    assert source(ensemble) != master
    assert ensemble.peer(OBSERVER).serving


def test_requests_go_through_the_master_with_the_id_of_the_observer_and_answers_come_back() -> None:
    ensemble = begin()
    leader, master = leader_of(ensemble), source(ensemble)
    link = ensemble.peer(OBSERVER).link_to_leader
    assert link is not None
    said = [mmsg.Revalidate(5, 77, 4000), mmsg.Sync(9)]
    for message in said:
        ensemble.send(OBSERVER, (link,), message)
    ensemble.settle()
    heard = [each for each in ensemble.servers[leader].member_messages if not isinstance(each.message, msg.Ping)]
    assert [each.message for each in heard] == said
    assert {each.sid for each in heard} == {OBSERVER}
    [route] = routes(ensemble)
    assert {(each.link, each.behind) for each in heard} == {route}
    ensemble.send(leader, (route[0],), msg.Relayed(route[1], msg.encode(mmsg.Synced(9, 7 << 32))))
    ensemble.settle()
    told = [each for each in ensemble.servers[OBSERVER].member_messages if isinstance(each.message, mmsg.Synced)]
    assert [(each.message, each.link, each.sid) for each in told] == [(mmsg.Synced(9, 7 << 32), link, master)]


def test_what_a_left_route_still_carries_is_not_heard() -> None:
    """An observer has left one master for another: what the first one has still to tell comes too late."""
    ensemble = begin()
    leader, master = leader_of(ensemble), source(ensemble)
    [before] = routes(ensemble)
    for link in [link for link, ends in ensemble.links.items() if ends == (OBSERVER, master)]:
        ensemble.partition(OBSERVER, master)
        assert link not in ensemble.links
    ensemble.run(20 * TICK_MS)
    assert source(ensemble) not in (leader, master)
    [after] = routes(ensemble)
    assert after != before
    ensemble.servers[leader].member_messages.clear()
    ensemble.step(leader, ev.MessageReceived(before[0], msg.Relayed(before[1], msg.encode(mmsg.Sync(3)))))
    assert [each for each in ensemble.servers[leader].member_messages if isinstance(each.message, mmsg.Sync)] == []
    ensemble.step(leader, ev.MessageReceived(after[0], msg.Relayed(after[1], msg.encode(mmsg.Sync(3)))))
    assert [each.behind for each in ensemble.servers[leader].member_messages] == [after[1]]


def test_an_observer_that_comes_to_the_leader_itself_has_no_route_any_more() -> None:
    ensemble = begin()
    leader, master = leader_of(ensemble), source(ensemble)
    [before] = routes(ensemble)
    ensemble.step(leader, ev.QuorumLinkUp(Link(900), OBSERVER, inbound=True))
    assert routes(ensemble) == {}
    ensemble.settle()
    assert before[1] not in ensemble.peer(master).learners


def test_only_observers_are_attached() -> None:
    ensemble = begin()
    leader, master = leader_of(ensemble), source(ensemble)
    link = ensemble.peer(master).link_to_leader
    assert link is not None
    before = routes(ensemble)
    sent = spied(ensemble)
    for sid in (leader, master, ServerId(77)):
        ensemble.step(leader, ev.MessageReceived(link, msg.Attach(Link(900), sid)))
        assert sent[-1] == (leader, msg.Detach(Link(900)))
    assert routes(ensemble) == before


@pytest.mark.parametrize("message", [msg.Ack(1, 1 << 32), mmsg.Synced(1, 1), msg.HandOver(ServerId(1))])
def test_what_is_not_to_be_relayed_ends_the_link_of_the_master(message: msg.Message) -> None:
    ensemble = begin()
    leader = leader_of(ensemble)
    [route] = routes(ensemble)
    ensemble.step(leader, ev.MessageReceived(route[0], msg.Relayed(route[1], msg.encode(message))))
    assert route[0] not in ensemble.links
    assert routes(ensemble) == {}


def test_an_observer_serves_nobody_before_a_quorum_confirms_its_leader() -> None:
    ensemble = begin()
    leader = leader_of(ensemble)
    ensemble.crash(OBSERVER)
    ensemble.settle()
    sent = spied(ensemble)
    send = ensemble.send

    def without_confirmations(sid: ServerId, links: Any, message: msg.Message) -> None:
        if not isinstance(message, msg.Confirmed):
            send(sid, links, message)

    ensemble.send = without_confirmations  # type: ignore[method-assign]
    ensemble.start(OBSERVER)
    ensemble.run(2 * TICK_MS)
    assert any(isinstance(message, msg.Attach) for _, message in sent)
    assert not ensemble.peer(OBSERVER).serving
    ensemble.send = send  # type: ignore[method-assign]
    ensemble.step(leader, ev.SyncRequested(1))
    ensemble.settle()
    assert ensemble.peer(OBSERVER).serving


def test_an_epoch_is_renewed_with_the_observers_which_go_on_serving() -> None:
    ensemble = begin(counter_limit=8)
    leader, master = leader_of(ensemble), source(ensemble)
    before = ensemble.peer(leader).epoch
    link = ensemble.peer(OBSERVER).link_to_leader
    for _ in range(20):
        ensemble.propose(leader)
        ensemble.run(TICK_MS)
        assert ensemble.peer(OBSERVER).serving
    assert ensemble.peer(leader).epoch > before + 1
    assert ensemble.peer(OBSERVER).epoch == ensemble.peer(leader).epoch
    assert (source(ensemble), ensemble.peer(OBSERVER).link_to_leader) == (master, link)
    assert len(histories(ensemble)) == 1


def test_a_position_of_this_epoch_that_is_not_known_to_be_committed_here_is_waited_for() -> None:
    """The observer had it from the leader itself, or from a master that knows more. It is never cut."""
    ensemble = begin()
    leader = leader_of(ensemble)
    masters = [ServerId(sid) for sid in {1, 2, 3} - {leader}]
    connect = ensemble.connect
    closed_to_observers(ensemble, set(masters))
    ensemble.run(20 * TICK_MS)
    assert source(ensemble) == leader
    send = ensemble.send

    def without_commits(sid: ServerId, links: Any, message: msg.Message) -> None:
        if not isinstance(message, msg.Commit) or links == (ensemble.peer(OBSERVER).link_to_leader,):
            send(sid, links, message)

    ensemble.send = without_commits  # type: ignore[method-assign]
    zxid = ensemble.propose(leader)
    ensemble.settle()
    assert ensemble.peer(OBSERVER).history.last[0] == zxid
    assert all(ensemble.peer(master).committed < zxid for master in masters)
    ensemble.connect = connect  # type: ignore[method-assign]
    closed_to_observers(ensemble, {leader})
    ensemble.run(5 * TICK_MS)
    assert source(ensemble) in masters
    assert not ensemble.peer(OBSERVER).serving
    assert ensemble.servers[OBSERVER].halted is None
    ensemble.send = send  # type: ignore[method-assign]
    ensemble.propose(leader)
    ensemble.run(5 * TICK_MS)
    assert ensemble.peer(OBSERVER).serving
    assert len(histories(ensemble)) == 1


def test_who_lacks_much_gets_it_from_the_log_and_not_beyond_the_mark() -> None:
    ensemble = begin(recent_bytes_max=300)
    leader, master = leader_of(ensemble), source(ensemble)
    ensemble.crash(OBSERVER)
    for number in range(30):
        ensemble.propose(leader, b"%d" % number * 20)
        ensemble.settle()
    assert ensemble.peer(master).history.base[0] > 0
    for sid in (1, 2, 3):
        ensemble.servers[ServerId(sid)].held = {fx.AppendBatches}
    end = ensemble.peer(leader).committed
    ensemble.propose(leader)
    ensemble.settle()
    ensemble.start(OBSERVER)
    ensemble.run(2 * TICK_MS)
    assert ensemble.peer(OBSERVER).serving
    assert source(ensemble) != leader
    assert ensemble.peer(OBSERVER).history.last[0] == end


def test_who_lacks_more_than_the_log_has_gets_a_snapshot_of_its_master() -> None:
    ensemble = begin(recent_bytes_max=300)
    leader = leader_of(ensemble)
    ensemble.crash(OBSERVER)
    for number in range(30):
        ensemble.propose(leader, b"%d" % number * 20)
        ensemble.settle()
    for sid in {1, 2, 3} - {leader}:
        server = ensemble.servers[ServerId(sid)]
        server.take_snapshot()
    ensemble.propose(leader)
    ensemble.settle()
    sent = spied(ensemble)
    ensemble.start(OBSERVER)
    ensemble.run(20 * TICK_MS)
    assert source(ensemble) != leader
    assert [sid for sid, message in sent if isinstance(message, msg.Snap)] == [source(ensemble)]
    assert ensemble.peer(OBSERVER).serving
    assert len(histories(ensemble)) == 1


def test_an_observer_that_is_too_slow_is_let_go_and_comes_again() -> None:
    ensemble = begin(observer_bytes_max=2000)
    leader, master = leader_of(ensemble), source(ensemble)
    ensemble.servers[OBSERVER].held = {fx.AppendBatches}
    for _ in range(3):
        ensemble.propose(leader, b"x" * 500)
        ensemble.settle()
    handler = handler_at_master(ensemble)
    assert 1500 < handler.unacknowledged_bytes <= 2000
    for _ in range(3):
        ensemble.propose(leader, b"x" * 500)
        ensemble.settle()
    assert OBSERVER not in ensemble.peer(master).learners.values()
    assert any("it is too slow" in line for line in ensemble.trace)
    ensemble.servers[OBSERVER].held = set()
    ensemble.run(20 * TICK_MS)
    assert ensemble.peer(OBSERVER).serving
    assert handler_at_master(ensemble).unacknowledged_bytes == 0
    assert len(histories(ensemble)) == 1


def test_one_batch_that_is_larger_than_the_limit_is_sent() -> None:
    ensemble = begin(observer_bytes_max=2000)
    zxid = ensemble.propose(leader_of(ensemble), b"x" * 5000)
    ensemble.settle()
    assert ensemble.peer(OBSERVER).history.last[0] == zxid
    assert not any("it is too slow" in line for line in ensemble.trace)


def test_a_silent_observer_is_dropped_by_its_master() -> None:
    ensemble = begin()
    master = source(ensemble)
    ensemble.paused.add(OBSERVER)
    ensemble.run(10 * TICK_MS)
    assert OBSERVER not in ensemble.peer(master).learners.values()
    assert routes(ensemble) == {}


def test_an_observer_waits_for_a_part_of_the_delay_before_it_dials() -> None:
    ensemble = Ensemble(3, observers=frozenset({OBSERVER}), has_observer_masters=1, reconnect_delay_ms=50 * TICK_MS)
    ensemble.start()
    leader = ensemble.elect()
    ensemble.run(TICK_MS)
    following = ensemble.peer(OBSERVER).following
    assert following is not None
    assert following.link is None
    assert following.redial_at is not None
    wait = following.redial_at - ensemble.now
    assert 0 < wait < 50 * TICK_MS
    ensemble.run(wait - 1)
    assert following.link is None
    ensemble.run(TICK_MS)
    assert ensemble.peer(OBSERVER).serving
    assert source(ensemble) != leader


def test_verdicts_and_session_keys_reach_the_observers() -> None:
    ensemble = begin()
    leader, master = leader_of(ensemble), source(ensemble)
    link = ensemble.peer(master).link_to_leader
    assert link is not None
    ensemble.send(leader, (link,), mmsg.Verdict(7, 8))
    keys = [[b"k" * 8, b"s" * 32]]
    ensemble.send(leader, (link,), msg.SessionKeys(keys))
    ensemble.settle()
    assert mmsg.Verdict(7, 8) in [each.message for each in ensemble.servers[OBSERVER].member_messages]
    assert [[key.name, key.key] for key in ensemble.peer(OBSERVER).session_keys] == keys
