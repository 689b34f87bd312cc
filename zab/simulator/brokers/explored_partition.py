"""The states and steps of a small world: one partition, its replicas on as many brokers, and the controller.

    write 1         the leader appends a record
    ask 2           a follower sends a fetch to the broker that it copies
    serve 2         it arrives there, and is answered
    take 2          the answer arrives
    grow 1, shrink 1    a leader proposes who joins the in-sync set, or who leaves it
    alter 1         the proposal arrives at the controller, which writes it or refuses it
    answer 1        the leader hears of that
    repeat 1        it asks once more, as the answer was lost
    tell 2          a broker hears the state of the partition, and which brokers live
    start 2         a process that has ended starts
    register 2      a broker is known to the controller from now on; it stopped uncleanly if its process had ended
    fence 2         the session of a broker whose process ended is over

    crash 2, wipe 2     a process ends; its disk is replaced as well
    expire 2            a session is over although the process runs
    lose 2, drop 1      a fetch or its answer is lost; a proposal or its answer is
    move 2              an operator lets another member of the in-sync set lead

Steps from `crash` on and writes are bounded in number, leader epochs and partition epochs by the highest one. Real are
the replica, the follower, the log (`explored_replica`), and the decisions of the controller
(`zab.partition.controller.leaders`, `isr_changes`). The controller is one place, and writes at once. A broker is told
only the newest state: what it is told late it could have been told before.

Each state is judged, by the names of the TLA+ model of KIP-966 (`judged`).
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeAlias, cast

import attrs

from zab.kafka.errors import ErrorCode
from zab.partition.controller import isr_changes
from zab.partition.controller.leaders import Candidates, for_offline, with_isr, with_leader, without, without_unclean
from zab.partition.controller.requests import PartitionChange
from zab.partition.controller.state import ControllerState
from zab.partition.controller.znodes import NO_LEADER, PartitionState, TopicPartition
from zab.partition.replica.in_sync_set import Proposal
from zab.simulator.brokers.explored_replica import Action, Entry, Facts, Question, Reply, Sites
from zab.simulator.world.verdict import SafetyError

PARTITION: Final = TopicPartition("t", 0)
Step: TypeAlias = tuple[str, int]


@attrs.frozen
class Bounds:
    """The bounds of an exploration."""

    replicas: int = 2
    min_in_sync: int = 1
    epochs: int = 3
    """The highest leader epoch."""
    changes: int = 4
    """The highest partition epoch: how often the controller writes the state."""
    writes: int = 1
    crashes: int = 1
    wipes: int = 0
    expiries: int = 0
    losses: int = 0
    """How many fetches, proposals and answers are lost."""
    moves: int = 0


class Left(NamedTuple):
    """How often each bounded step may still happen."""

    writes: int
    crashes: int
    wipes: int
    expiries: int
    losses: int
    moves: int


@attrs.frozen
class Fetch:
    """What a follower has under way: a question, or its answer."""

    source: int
    question: Question
    reply: Reply | None = None


@attrs.frozen
class Asked:
    """What a leader has under way: a proposal of this life of its broker, or the answer to it."""

    proposal: Proposal
    broker_epoch: int
    action: Action | None = None
    """What the leader does with the answer."""


class State(NamedTuple):
    """A state of the world, which decides the possible steps. Tuples have one place for each broker."""

    control: PartitionState
    lives: tuple[int, ...]
    """The epoch of each broker; 0: the controller does not know it."""
    lives_count: int
    unclean: frozenset[int]
    """Brokers whose process has ended since they had everything."""
    lossy: frozenset[int]
    """Unclean brokers whose disk was replaced."""
    stopped: frozenset[int]
    """Brokers whose process has ended since they were registered last."""
    sites: tuple[int, ...]
    fetches: tuple[Fetch | None, ...]
    asked: tuple[Asked | None, ...]
    committed: tuple[Entry, ...]
    """Everything that was ever below the true high watermark; a record is known by its epoch and its value."""
    left: Left


class World:
    """See the docstring of the module. Brokers are 1, 2, …"""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.sites = Sites()
        self.brokers = tuple(range(1, bounds.replicas + 1))
        self.least = min(bounds.min_in_sync, bounds.replicas)

    def beginning(self) -> State:
        """All replicas are in sync, the first one leads, and everybody knows it."""
        brokers, bounds = self.brokers, self.bounds
        control = PartitionState(leader=1, leader_epoch=0, isr=brokers)
        lives, nothing = tuple(brokers), (None,) * len(brokers)
        left = Left(*(getattr(bounds, name) for name in Left._fields))
        nobody: frozenset[int] = frozenset()
        sites = tuple(map(self.sites.begin, brokers))
        state = State(control, lives, len(brokers), nobody, nobody, nobody, sites, nothing, nothing, (), left)
        for broker in brokers:
            state = self.after(state, ("tell", broker))
        return state

    # ------------------------------------------------------------------------------------------------------------ steps

    def facts(self, state: State, broker: int) -> Facts:
        """What is true of this broker."""
        return self.sites.facts[state.sites[broker - 1]]

    def steps(self, state: State) -> Iterator[Step]:
        """All possible next steps, without regard to the bound of epochs."""
        for broker in self.brokers:
            facts = self.facts(state, broker)
            if facts.is_up:
                yield from self._of_a_process(state, broker, facts)
            else:
                yield "start", broker
                if state.lives[broker - 1]:
                    yield "fence", broker
            yield from self._of_messages(state, broker)
            if state.left.moves and self._may_move(state, broker):
                yield "move", broker

    def _may_move(self, state: State, broker: int) -> bool:
        control = state.control
        return broker in control.isr and state.lives[broker - 1] > 0 and control.leader not in (broker, NO_LEADER)

    def _of_a_process(self, state: State, broker: int, facts: Facts) -> Iterator[Step]:
        at, left = broker - 1, state.left
        if not state.lives[at]:
            yield "register", broker
        elif broker not in state.stopped and facts.known != self._known(state):
            yield "tell", broker
        if facts.leads is not None:
            if left.writes:
                yield "write", broker
            if state.asked[at] is None:
                yield from self._proposals(state, broker, facts)
        if facts.source is not None and state.fetches[at] is None:
            yield "ask", broker
        if left.crashes:
            yield "crash", broker
        if left.wipes:
            yield "wipe", broker
        if left.expiries and state.lives[at] and broker not in state.stopped:
            yield "expire", broker

    def _proposals(self, state: State, broker: int, facts: Facts) -> Iterator[Step]:
        if facts.proposal is not None:
            yield "repeat", broker
            return
        for name, looks_for_lag in (("grow", False), ("shrink", True)):
            _, proposal = self.sites.after(state.sites[broker - 1], ("propose", looks_for_lag))
            if proposal is not None:
                yield name, broker

    def _of_messages(self, state: State, broker: int) -> Iterator[Step]:
        fetch, asked = state.fetches[broker - 1], state.asked[broker - 1]
        if fetch is not None:
            yield ("serve" if fetch.reply is None else "take"), broker
            if state.left.losses:
                yield "lose", broker
        if asked is not None:
            yield ("alter" if asked.action is None else "answer"), broker
            if state.left.losses:
                yield "drop", broker

    def is_beyond(self, state: State) -> bool:
        """Whether it has later epochs than the bounds allow."""
        control, bounds = state.control, self.bounds
        return control.leader_epoch > bounds.epochs or control.partition_epoch > bounds.changes

    def after(self, state: State, step: Step) -> State:
        """The state after a step. Raises SafetyError, or an exception of the code under test."""
        name, broker = step
        method = getattr(self, f"_{name}")
        return self._judged(method(state, broker))

    def _acts(self, state: State, broker: int, action: Action) -> tuple[State, Any]:
        number, output = self.sites.after(state.sites[broker - 1], action)
        return state._replace(sites=_put(state.sites, broker, number)), output

    # -------------------------------------------------------------------------------------------------------- brokers

    def _known(self, state: State) -> tuple[Any, ...]:
        """What brokers are told now."""
        control = state.control
        epochs = tuple((each, life) for each, life in zip(self.brokers, state.lives, strict=True) if life)
        return (
            *(control.leader, control.leader_epoch, control.partition_epoch, control.isr, self.brokers),
            *(control.recovering, self.least, epochs),
        )

    def _tell(self, state: State, broker: int) -> State:
        state, _ = self._acts(state, broker, ("told", self._known(state)))
        return state

    def _write(self, state: State, broker: int) -> State:
        value = b"%d" % state.left.writes
        state, _ = self._acts(state, broker, ("write", value))
        return state._replace(left=state.left._replace(writes=state.left.writes - 1))

    def _ask(self, state: State, broker: int) -> State:
        source = self.facts(state, broker).source
        assert source is not None
        state, question = self._acts(state, broker, ("ask",))
        return state._replace(fetches=_put(state.fetches, broker, Fetch(source, question)))

    def _serve(self, state: State, broker: int) -> State:
        fetch = state.fetches[broker - 1]
        assert fetch is not None
        if not self.facts(state, fetch.source).is_up:
            return self._lost(state, broker)
        action = ("serve", broker, state.lives[broker - 1], fetch.question)
        state, reply = self._acts(state, fetch.source, action)
        return state._replace(fetches=_put(state.fetches, broker, attrs.evolve(fetch, reply=reply)))

    def _take(self, state: State, broker: int) -> State:
        fetch = state.fetches[broker - 1]
        assert fetch is not None
        state, _ = self._acts(self._lost(state, broker), broker, ("take", fetch.question, fetch.reply))
        return state

    def _lost(self, state: State, broker: int) -> State:
        return state._replace(fetches=_put(state.fetches, broker, None))

    def _lose(self, state: State, broker: int) -> State:
        return self._lost(state, broker)._replace(left=state.left._replace(losses=state.left.losses - 1))

    def _crash(self, state: State, broker: int) -> State:
        state = self._end(state, broker)
        return state._replace(left=state.left._replace(crashes=state.left.crashes - 1))

    def _wipe(self, state: State, broker: int) -> State:
        empty, _ = self.sites.after(self.sites.begin(broker), ("crash",))
        state = self._end(state, broker)
        return state._replace(
            sites=_put(state.sites, broker, empty),
            lossy=state.lossy | {broker},
            left=state.left._replace(wipes=state.left.wipes - 1),
        )

    def _end(self, state: State, broker: int) -> State:
        state, _ = self._acts(state, broker, ("crash",))
        return state._replace(
            fetches=_put(state.fetches, broker, None),
            asked=_put(state.asked, broker, None),
            unclean=state.unclean | {broker},
            stopped=state.stopped | {broker},
        )

    def _start(self, state: State, broker: int) -> State:
        state, _ = self._acts(state, broker, ("start",))
        return state

    # ------------------------------------------------------------------------------------------------------ proposals

    def _grow(self, state: State, broker: int) -> State:
        return self._propose(state, broker, looks_for_lag=False)

    def _shrink(self, state: State, broker: int) -> State:
        return self._propose(state, broker, looks_for_lag=True)

    def _propose(self, state: State, broker: int, *, looks_for_lag: bool) -> State:
        state, proposal = self._acts(state, broker, ("propose", looks_for_lag))
        return self._asks(state, broker, proposal)

    def _repeat(self, state: State, broker: int) -> State:
        return self._asks(state, broker, self.facts(state, broker).proposal)

    def _asks(self, state: State, broker: int, proposal: Proposal | None) -> State:
        assert proposal is not None
        return state._replace(asked=_put(state.asked, broker, Asked(proposal, state.lives[broker - 1])))

    def _drop(self, state: State, broker: int) -> State:
        left = state.left._replace(losses=state.left.losses - 1)
        return state._replace(asked=_put(state.asked, broker, None), left=left)

    def _alter(self, state: State, broker: int) -> State:
        asked, control = state.asked[broker - 1], state.control
        assert asked is not None
        if not asked.broker_epoch or asked.broker_epoch != state.lives[broker - 1]:
            return state._replace(asked=_put(state.asked, broker, None))
        proposal = asked.proposal
        change = PartitionChange(
            PARTITION.partition,
            proposal.leader_epoch,
            proposal.partition_epoch,
            tuple(zip(proposal.isr, proposal.broker_epochs, strict=True)),
        )
        error = isr_changes.checked(self._controller(state), broker, PARTITION, control, change)
        if error in (ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH):
            return state._replace(asked=_put(state.asked, broker, None))
        if error is not None:
            return self._answered(state, broker, asked, ("refused", proposal, int(error)))
        if not isr_changes.holds_already(control, change):
            after = with_isr(control, proposal.isr, replicas=self.brokers, min_isr=self.least)
            state = self._written(state, attrs.evolve(after, recovering=change.recovering))
            control = state.control
        known = (control.leader_epoch, control.isr, control.partition_epoch, control.recovering, self.least)
        return self._answered(state, broker, asked, ("confirmed", *known))

    def _answered(self, state: State, broker: int, asked: Asked, action: Action) -> State:
        return state._replace(asked=_put(state.asked, broker, attrs.evolve(asked, action=action)))

    def _answer(self, state: State, broker: int) -> State:
        asked = state.asked[broker - 1]
        assert asked is not None
        assert asked.action is not None
        state, _ = self._acts(state, broker, asked.action)
        return state._replace(asked=_put(state.asked, broker, None))

    # ------------------------------------------------------------------------------------------------------ controller

    def _controller(self, state: State) -> ControllerState:
        """What the checks of a proposal ask the controller."""
        lives = zip(self.brokers, state.lives, strict=True)
        brokers = {broker: SimpleNamespace(epoch=life) for broker, life in lives if life}
        assignment = SimpleNamespace(replicas=self.brokers)
        found = SimpleNamespace(brokers=brokers, shutting_down=set(), assignment=lambda _partition: assignment)
        return cast(ControllerState, found)

    def _candidates(self, state: State) -> Candidates:
        alive = frozenset(each for each, life in zip(self.brokers, state.lives, strict=True) if life)
        return Candidates(replicas=self.brokers, state=state.control, alive=alive, min_isr=self.least)

    def _written(self, state: State, after: PartitionState | None) -> State:
        """The state with this one of the partition; None: nothing changes."""
        if after is None:
            return state
        self._check_valid(state.control, after)
        return state._replace(control=after.at(state.control.partition_epoch + 1))

    def _fence(self, state: State, broker: int) -> State:
        """As `zab.partition.controller.brokers.on_gone`."""
        state = state._replace(lives=_put(state.lives, broker, 0))
        if state.control.leader == broker:
            state = self._written(state, for_offline(self._candidates(state)))
        return self._written(state, without(self._candidates(state), {broker}))

    def _expire(self, state: State, broker: int) -> State:
        """A broker notices the end of its session before the service does."""
        state, _ = self._acts(state, broker, ("abdicate",))
        state = state._replace(asked=_put(state.asked, broker, None))
        state = self._fence(state, broker)
        return state._replace(left=state.left._replace(expiries=state.left.expiries - 1))

    def _register(self, state: State, broker: int) -> State:
        """As `zab.partition.controller.brokers.on_come`."""
        if broker in state.stopped:
            state = self._written(state, without_unclean(self._candidates(state), {broker}))
        life = state.lives_count + 1
        state = state._replace(
            lives=_put(state.lives, broker, life), lives_count=life, stopped=state.stopped - {broker}
        )
        if state.control.leader == NO_LEADER:
            state = self._written(state, for_offline(self._candidates(state)))
        return state

    def _move(self, state: State, broker: int) -> State:
        state = self._written(state, with_leader(state.control, broker))
        return state._replace(left=state.left._replace(moves=state.left.moves - 1))

    # ---------------------------------------------------------------------------------------------------------- verdict

    def _check_valid(self, before: PartitionState, after: PartitionState) -> None:
        is_valid = not set(after.isr) & set(after.elr) and after.leader_epoch >= before.leader_epoch
        is_valid = is_valid and (len(after.isr) < self.least or not after.elr)
        is_valid = is_valid and after.leader in (*after.isr, NO_LEADER)
        if after.leader not in (before.leader, NO_LEADER):
            is_valid = is_valid and after.leader_epoch > before.leader_epoch
        if not is_valid:
            raise SafetyError("ValidControllerIsrAndElr", f"{after} after {before}")

    def _judged(self, state: State) -> State:
        """The state with what it commits. Raises SafetyError."""
        of = {broker: self.facts(state, broker) for broker in self.brokers}
        running = {broker: facts for broker, facts in of.items() if facts.is_up}
        leading = {broker: facts for broker, facts in running.items() if facts.leads is not None}
        for broker, facts in running.items():
            if not 0 <= facts.mark <= len(facts.entries):
                raise SafetyError("ValidReplicaState", f"broker {broker}: {facts.mark} of {len(facts.entries)}")
        for broker, facts in leading.items():
            if facts.latest_epoch != facts.leads:
                raise SafetyError("ValidReplicaState", f"broker {broker} leads {facts.leads}: {facts.latest_epoch}")
            if facts.source is not None:
                raise SafetyError("ValidFetcherState", f"broker {broker} leads, and copies {facts.source}")
            state = self._commit(state, broker, facts, running)
        self._check_logs(running)
        self._check_leaders(state, leading)
        self._check_candidates(state, running)
        caught_up = {
            broker
            for broker in state.unclean & running.keys() & set(state.control.isr)
            if running[broker].entries[: len(state.committed)] == state.committed and broker not in state.stopped
        }
        return state._replace(unclean=state.unclean - caught_up, lossy=state.lossy - caught_up)

    def _commit(self, state: State, broker: int, facts: Facts, running: dict[int, Facts]) -> State:
        """What this leader lets consumers read, or everybody has whom it counts, is committed."""
        reached = facts.mark
        others = [running.get(each) for each in facts.maximal - {broker}]
        if len(facts.committed) >= facts.min_in_sync and all(
            each is not None and each.latest_epoch == facts.leads for each in others
        ):
            ends = [len(each.entries) for each in others if each is not None]
            reached = max(reached, min([len(facts.entries), *ends]))
        found = facts.entries[:reached]
        size = min(len(found), len(state.committed))
        if found[:size] != state.committed[:size] and not self._may_lose(state):
            text = f"broker {broker} leads epoch {facts.leads} with {found}, {state.committed} were read"
            raise SafetyError("ConsistentReadProperty", text)
        return state._replace(committed=found) if len(found) > len(state.committed) else state

    def _may_lose(self, state: State) -> bool:
        """KIP-966: so many replicas stopped uncleanly as have to be in sync, and one of them lost its disk."""
        return bool(state.lossy) and len(state.unclean) >= self.least

    def _check_logs(self, running: dict[int, Facts]) -> None:
        for one, facts in running.items():
            for two, others in running.items():
                mark = min(facts.mark, others.mark)
                if one < two and facts.entries[:mark] != others.entries[:mark]:
                    raise SafetyError("LogMatchingProperty", f"brokers {one} and {two} differ below {mark}")

    def _check_leaders(self, state: State, leading: dict[int, Facts]) -> None:
        control, committed = state.control, state.committed
        epochs = [facts.leads for facts in leading.values()]
        if len(set(epochs)) < len(epochs):
            raise SafetyError("one leader for each epoch", f"{epochs}")
        for broker, facts in leading.items():
            if facts.leads != control.leader_epoch:
                continue
            if facts.entries[: len(committed)] != committed and not self._may_lose(state):
                text = f"broker {broker} leads epoch {facts.leads} with {facts.entries}, {committed} are committed"
                raise SafetyError("LeaderCompletenessProperty", text)
            if len(facts.committed) >= facts.min_in_sync and not {*control.isr, *control.elr} <= facts.maximal:
                text = f"the leader counts {sorted(facts.maximal)}: {control}"
                raise SafetyError("ReplicationQuorumSupersetProperty", text)

    def _check_candidates(self, state: State, running: dict[int, Facts]) -> None:
        committed, control = state.committed, state.control
        for broker in (*control.isr, *control.elr):
            facts = running.get(broker)
            if facts is None or broker in state.stopped or broker in state.lossy or self._may_lose(state):
                continue
            if facts.entries[: len(committed)] != committed:
                text = f"broker {broker} has {facts.entries}, {committed} are committed: {control}"
                raise SafetyError("LeaderCandidateCompletenessProperty", text)


def _put(values: tuple[Any, ...], broker: int, value: Any) -> tuple[Any, ...]:
    return (*values[: broker - 1], value, *values[broker:])
