"""A turn over ports that only take notes: its order, and what becomes of each effect and answer."""

from collections import deque
from typing import Any, get_args

import pytest

from datatree.log.zxid import Zxid
from zab.member import turn as module
from zab.member.events import FOR_THE_TURN, Answer, Input, MemberEffect, Warn
from zab.member.ports import Ports
from zab.member.settings.zoo_cfg import parse
from zab.member.state.metrics import Metrics
from zab.member.storage.events import (
    FetchFailed,
    InstallSnapshot,
    LookBackSlice,
    ReadChanges,
    RollLog,
    SnapshotFetched,
    SnapshotTaken,
    SnapshotUnusable,
    StorageFailed,
    TakeSnapshot,
    Waits,
)
from zab.member.turn import READ_AHEAD_BYTES, TURN_NS, Turn
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol.message import Commit, Notification
from zab.wire.client_protocol import ClientConnected

CHAIN = bytes(16)
NOW_NS = 5_000_000_123


class ScriptedMember:
    """Gives out the effects that a test put into `effects`."""

    def __init__(self) -> None:
        self.config = parse("dataDir=/nowhere\nclientPort=2181", "zoo.cfg")
        self.clients = self
        self.dirty: dict[Any, None] = {}
        self.effects: list[Any] = []
        self.told: list[Any] = []
        self.may_have_more = True
        self.has_more = self.is_between_states = False
        self.awaits_durable = True
        self.metrics = Metrics()

    def take_message(self, now: int, link: int, payload: bytes) -> bool:
        return False

    def take_durable(self, now: int, event: ev.Durable) -> bool:
        return False

    def step(self, now: int, wall: int, inputs: list[Any]) -> list[Any]:
        assert (now, wall) == (NOW_NS // 1_000_000, 77)
        self.told = list(inputs)
        effects, self.effects = self.effects, []
        return effects

    def next_deadline(self) -> int:
        return 9_000


class Port:
    """Every call of it is a line of `notes`; `returns` are what it returns."""

    def __init__(self, name: str, notes: list[tuple[Any, ...]], **returns: Any) -> None:
        self._name = name
        self._notes = notes
        self.returns = returns

    def __getattr__(self, called: str) -> Any:
        def call(*arguments: Any, **pairs: Any) -> Any:
            self._notes.append((f"{self._name}.{called}", *arguments, *sorted(pairs.items())))
            returned = self.returns.get(called)
            return returned(*arguments) if callable(returned) else returned

        return call


class Rig:
    def __init__(self) -> None:
        self.notes: list[tuple[Any, ...]] = []
        self.member = ScriptedMember()
        self.over_links: list[Any] = []
        self.of_clients: list[Any] = []
        self.answers: deque[Any] = deque()
        self.unsent: dict[int, int] = {}
        self.links = Port(
            "links",
            self.notes,
            receive=self._receive(self.over_links),
            unsent_bytes=lambda link: self.unsent.get(link, 0),
        )
        self.clients = Port("clients", self.notes, receive=self._receive(self.of_clients))
        for port in (self.links, self.clients):
            port.has_news = port.has_unsent = port.has_knocks = True  # type: ignore[attr-defined]
        self.tasks = Port("tasks", self.notes)
        self.tasks.answers = self.answers  # type: ignore[assignment]
        self.storage, self.operator = Port("storage", self.notes), Port("operator", self.notes)
        self.waits = self.storage.waits = Waits()  # type: ignore[assignment]
        self.election = Port("election", self.notes)
        clock = Port("clock", [], monotonic_ns=self._now_ns, wall_ns=77_000_000, processor_ns=lambda: self.worked_ns)
        self.now_ns, self.worked_ns = NOW_NS, 0
        ports = Ports(
            clock,
            self.links,
            self.election,
            self.clients,
            self.storage,
            self.tasks,
            self.operator,
            self.operator.role_changed,
        )
        self.turn = Turn(self.member, ports)  # type: ignore[arg-type]

    def have_nothing(self) -> None:
        """No port has anything to do."""
        for port in (self.links, self.clients):
            port.has_news = port.has_unsent = port.has_knocks = False  # type: ignore[attr-defined]

    def _now_ns(self) -> int:
        return self.now_ns

    @staticmethod
    def _receive(source: list[Any]) -> Any:
        def receive(inputs: list[Any], *_rest: Any) -> None:
            inputs += source
            source.clear()

        return receive

    def take(self, *effects: MemberEffect, answers: tuple[Answer, ...] = ()) -> list[tuple[Any, ...]]:
        """One turn with these; what was called for them, without what every turn calls."""
        del self.notes[:]
        self.member.effects += effects
        self.answers += answers
        self.turn.take()
        return [note for note in self.notes if note[0] not in EVERY_TURN]


EVERY_TURN = {
    "links.receive", "clients.receive", "clients.flush", "links.flush", "clients.accept",
    "links.accept", "clients.adapt_budget",
}  # fmt: skip


def fetch() -> fx.FetchSnapshot:
    return fx.FetchSnapshot(3, 2, 5, CHAIN, CHAIN)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_everything_is_taken_in_in_order_and_the_member_is_told_of_it(rig: Rig) -> None:
    rig.over_links.append(up := ev.QuorumLinkUp(1, 2, True))
    rig.of_clients.append(connected := ClientConnected(None))  # type: ignore[arg-type]
    rig.answers.append(durable := ev.Durable(1, 5))
    rig.turn.take()
    assert rig.member.told == [durable, up, connected]
    assert [note[0] for note in rig.notes] == [
        "links.receive", "clients.receive", "clients.flush", "links.flush", "clients.accept",
        "links.accept", "clients.adapt_budget",
    ]  # fmt: skip
    assert ("clients.receive", [durable, up, connected], NOW_NS + TURN_NS) in rig.notes


def test_what_became_durable_is_taken_at_once_unless_something_came_before_it(rig: Rig) -> None:
    taken: list[ev.Durable] = []

    def take_durable(now: int, event: ev.Durable) -> bool:
        taken.append(event)
        return event.generation == 1

    rig.member.take_durable = take_durable  # type: ignore[method-assign]
    answers = [ev.Durable(1, 5), ev.Durable(2, 6), ev.Durable(1, 7)]
    rig.answers.extend(answers)
    rig.turn.take()
    assert taken == answers[:2]
    assert rig.member.told == answers[1:]


def test_with_something_to_store_followers_write_while_this_member_does(rig: Rig) -> None:
    drain, epochs = fx.DrainLog(1), fx.SaveEpochs(1, 2, 2)
    rig.take(drain, fx.Send((4,), Commit(1)), epochs)
    order = [note for note in rig.notes if note[0] in ("links.send", "links.flush", "storage.put", "clients.flush")]
    assert [note[0] for note in order] == ["links.send", "links.flush", "storage.put", "storage.put", "clients.flush"]
    assert order[2:4] == [("storage.put", drain), ("storage.put", epochs)]
    rig.take()
    assert not any(note[0] == "storage.put" for note in rig.notes), "each effect is stored once"


def test_with_nothing_to_store_whoever_waits_for_an_answer_comes_first(rig: Rig) -> None:
    rig.take(fx.Send((4,), Commit(1)))
    order = [note[0] for note in rig.notes if note[0] in ("links.send", "links.flush", "clients.flush")]
    assert order == ["links.send", "clients.flush", "links.flush"]


def test_each_effect_has_its_port(rig: Rig) -> None:
    vote = Notification(0, 1, 0, 0, 0, b"", False, 0, False, False, False)
    role = fx.RoleChanged(2, "broadcast", 1, True)
    changes, look = ReadChanges((0, 0), b"/", 5, 100, []), LookBackSlice(5, 10)
    send = fx.SendNotification(2, vote)
    assert rig.take(send) == [("election.send", send)]
    assert rig.take(fx.ConnectQuorum(2)) == [("tasks.dial", 2, ("as_observer", False))]
    assert rig.take(fx.ConnectQuorum(2, as_observer=True)) == [("tasks.dial", 2, ("as_observer", True))]
    assert rig.take(fx.CloseLink(4, "done")) == [("links.close", 4, "done")]
    assert rig.take(fx.OfferSnapshot(4, 0)) == [("tasks.offer_snapshot", fx.OfferSnapshot(4, 0))]
    assert rig.take(fx.MarkMoved(9)) == [("storage.mark_moved", 9)]
    assert rig.take(fx.Trace("why")) == [("operator.trace", "why")]
    assert rig.take(Warn("see to it")) == [("operator.warn", "see to it")]
    assert rig.take(role) == [("operator.role_changed", role)]
    assert rig.take(changes) == [("tasks.read_for_changes", changes)]
    assert rig.take(look) == [("tasks.read_for_changes", look)]
    ((called, reason),) = rig.take(fx.Halt("the tree is wrong"))
    assert called == "operator.stop"
    assert "the tree is wrong" in reason


def test_every_effect_that_leaves_a_member_is_carried_out() -> None:
    of_the_member = {fx.Deliver, fx.AnswerPing, fx.LearnerDropped, fx.SyncConfirmed, fx.MemberMessage}
    """Done when they come out."""
    assert set(module._CARRY_OUT) | module._AT_ONCE == set(get_args(MemberEffect)) - of_the_member


def test_every_answer_is_the_turns_or_an_input() -> None:
    assert set(get_args(Answer)) == set(get_args(Input)) | set(FOR_THE_TURN)
    assert set(FOR_THE_TURN) <= set(module._ON_ANSWER)


def test_a_snapshot_begins_a_new_log_file_and_is_followed_by_retention(rig: Rig) -> None:
    taking = TakeSnapshot(5, CHAIN, None)  # type: ignore[arg-type]
    assert rig.take(taking) == [("tasks.take_snapshot", taking), ("storage.put", RollLog())]
    assert rig.take(answers=(SnapshotTaken(5),)) == [("tasks.purge", {})]
    assert rig.member.told == [SnapshotTaken(5)]


def test_retention_may_be_off(rig: Rig) -> None:
    rig.member.config = parse("dataDir=/nowhere\nclientPort=2181\nautopurge.purgeInterval=0", "zoo.cfg")
    assert rig.take(answers=(SnapshotTaken(5),)) == []


def test_h4_log_read_waits_until_its_link_has_room(rig: Rig) -> None:
    read = fx.ReadLog(7, 5, 100)
    rig.unsent[7] = READ_AHEAD_BYTES + 1
    assert rig.take(read) == [("links.unsent_bytes", 7)]
    assert rig.turn.waits_for_room
    rig.unsent[7] = READ_AHEAD_BYTES
    assert rig.take() == [("links.unsent_bytes", 7), ("tasks.read_log", read)]
    assert not rig.turn.waits_for_room
    assert rig.take() == []


def test_offered_snapshot_is_held_until_the_member_lets_go_of_it(rig: Rig) -> None:
    offered = ev.SnapshotOffered(7, 5, CHAIN)
    rig.take(fx.OfferSnapshot(7, 0))
    assert rig.take(answers=(offered,)) == []
    assert rig.member.told == [offered]
    rig.take(fx.OfferSnapshot(8, 0))
    rig.take(answers=(ev.SnapshotOffered(8, 6, CHAIN),))
    assert rig.take(answers=(SnapshotTaken(9),)) == [("tasks.purge", {7: 5, 8: 6})]
    assert rig.take(fx.ReleaseSnapshot(7)) == []
    assert rig.take(answers=(SnapshotTaken(9),)) == [("tasks.purge", {8: 6})]


def test_nothing_is_removed_while_a_snapshot_is_chosen_for_a_learner(rig: Rig) -> None:
    rig.take(fx.OfferSnapshot(7, 0))
    assert rig.take(answers=(SnapshotTaken(5),)) == []
    rig.take(fx.ReleaseSnapshot(7))
    assert rig.take(answers=(SnapshotTaken(5),)) == [("tasks.purge", {})]


def test_snapshot_that_was_chosen_too_late_is_not_held(rig: Rig) -> None:
    rig.take(fx.OfferSnapshot(7, 0))
    rig.take(fx.ReleaseSnapshot(7))
    rig.take(answers=(ev.SnapshotOffered(7, 5, CHAIN),))
    assert rig.turn.offered == {}


def test_snapshot_that_is_given_up_is_said_to_the_operator_and_to_the_member(rig: Rig) -> None:
    withdrawn = ev.SnapshotWithdrawn(7, 5)
    ((called, sentence, *pairs),) = rig.take(answers=(withdrawn,))
    assert called == "operator.error"
    assert "maxPinnedLogBytes" in sentence
    assert pairs == [("link", 7), ("zxid", "0x5")]
    assert rig.member.told == [withdrawn]


def test_learner_for_which_there_is_no_snapshot_is_said_to_the_operator_and_to_the_member(rig: Rig) -> None:
    nothing = ev.NothingToOffer(7, 5)
    (error,) = rig.take(answers=(nothing,))
    assert error == ("operator.error", "there is no snapshot to synchronize a learner with", ("link", 7))
    assert rig.member.told == [nothing]


def test_fetched_snapshot_is_installed(rig: Rig) -> None:
    wanted = fetch()
    assert rig.take(wanted) == [("tasks.fetch", wanted)]
    assert rig.take(answers=(SnapshotFetched(wanted),)) == [("storage.put", InstallSnapshot(wanted))]
    assert rig.take(answers=(SnapshotFetched(wanted),)) == [], "once"


def test_storage_effect_after_a_fetch_takes_its_place(rig: Rig) -> None:
    wanted, drain = fetch(), fx.DrainLog(4)
    rig.take(wanted)
    assert rig.take(drain) == [("tasks.stop_fetching",), ("storage.put", drain)]
    assert rig.take(answers=(SnapshotFetched(wanted),)) == []
    assert rig.take(answers=(FetchFailed(wanted, "late"),)) == []


def test_fetch_takes_the_place_of_another_one(rig: Rig) -> None:
    first, second = fetch(), fetch()
    rig.take(first)
    assert rig.take(second) == [("tasks.stop_fetching",), ("tasks.fetch", second)]
    assert rig.take(answers=(FetchFailed(first, "late"), SnapshotFetched(second))) == [
        ("storage.put", InstallSnapshot(second))
    ]


@pytest.mark.parametrize("failed", [FetchFailed, SnapshotUnusable])
def test_snapshot_that_cannot_be_had_breaks_the_link_to_that_leader(rig: Rig, failed: Any) -> None:
    wanted = fetch()
    rig.take(wanted)
    if failed is SnapshotUnusable:
        rig.take(answers=(SnapshotFetched(wanted),))
    error, broken = rig.take(answers=(failed(wanted, "it is torn"),))
    assert error[0] == "operator.error"
    assert ("reason", "it is torn") in error
    assert broken[:2] == ("links.break_off_dialled", 2)
    assert not any(isinstance(told, ev.Event) for told in rig.member.told)


def test_storage_that_failed_ends_the_process(rig: Rig) -> None:
    ((called, reason),) = rig.take(answers=(StorageFailed("no space"),))
    assert called == "operator.stop"
    assert "no space" in reason


@pytest.mark.parametrize("part", ["links", "clients", "member"])
def test_more_to_do_is_said(rig: Rig, part: str) -> None:
    rig.have_nothing()
    assert rig.turn.take() is False
    if part == "member":
        rig.member.has_more = True
    else:
        getattr(rig, part).has_news = True
    assert rig.turn.take() is True


CALLS = {
    "has_news": ["receive", "adapt_budget"],
    "has_unsent": ["flush"],
    "has_knocks": ["accept"],
}


@pytest.mark.parametrize("attribute", CALLS)
@pytest.mark.parametrize("part", ["links", "clients"])
def test_port_with_nothing_to_do_is_not_called(rig: Rig, part: str, attribute: str) -> None:
    rig.have_nothing()
    rig.turn.take()
    assert rig.notes == []
    setattr(getattr(rig, part), attribute, True)
    rig.turn.take()
    called = [f"{part}.{name}" for name in CALLS[attribute] if (part, name) != ("links", "adapt_budget")]
    assert [note[0] for note in rig.notes] == called


def test_while_a_batch_is_applied_in_part_only_ends_of_clients_are_noticed(rig: Rig) -> None:
    rig.have_nothing()
    rig.clients.has_news = rig.member.is_between_states = True
    rig.turn.take()
    assert [note[0] for note in rig.notes] == ["clients.notice_ends"]


def test_clients_are_flushed_when_the_member_has_marked_some(rig: Rig) -> None:
    rig.have_nothing()
    rig.member.dirty["a connection"] = None
    rig.turn.take()
    assert rig.notes == [("clients.flush", rig.member.dirty, NOW_NS // 1_000_000)]


def test_longest_turn_is_what_it_cost_and_not_how_long_others_had_the_processor(rig: Rig) -> None:
    def step(took_ns: int, worked_ns: int) -> None:
        def receive(inputs: list[Any], *_rest: Any) -> None:
            rig.now_ns += took_ns
            rig.worked_ns += worked_ns

        rig.now_ns = NOW_NS
        rig.clients.returns["receive"] = receive
        rig.turn.take()

    step(9_000_000, 4_000_000)
    step(20_000_000, 3_000_000)
    assert rig.member.metrics.longest_turn_ns == 4_000_000
    step(7_000_000, 6_000_000)
    assert rig.member.metrics.longest_turn_ns == 6_000_000
    rig.member.metrics.reset()
    assert rig.member.metrics.longest_turn_ns == 0


# ----------------------------------------------------------------------------------------------- who waits for the disk


def test_the_storage_knows_whether_the_member_waits_for_it(rig: Rig) -> None:
    for waits in (True, False, False, True):
        rig.member.awaits_durable = waits
        rig.take()
        assert rig.waits.for_durable is waits


@pytest.mark.parametrize("is_awaited", [True, False])
def test_what_became_durable_before_anybody_waited_begins_a_turn(rig: Rig, is_awaited: bool) -> None:
    rig.have_nothing()
    rig.member.awaits_durable = False
    assert rig.turn.take() is False
    rig.member.awaits_durable = is_awaited

    def step(now: int, wall: int, inputs: list[Any]) -> list[Any]:
        rig.answers.append(ev.Durable(1, Zxid(5)))
        return []

    rig.member.step = step  # type: ignore[method-assign]
    assert rig.turn.take() is is_awaited
