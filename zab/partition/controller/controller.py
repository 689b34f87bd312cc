"""One broker's part in the control of the cluster: it registers, takes part in elections, and is the controller or not.

    effects = controller.step(now_ms, inputs)

There is one queue with one consumer (`coordination.Driver`), and no other code touches the state. Watches, requests and
timers only add events to it. At the end of an event the brokers are told what it changed (`pushes`).

    input                      event
    Connected, a new session   register, elect, follow changes of settings
    Expired                    the queue is cleared, callers get NOT_CONTROLLER, all is read again with the next session
    WatchFired(path)           the handler of the path reads it, and sets the watch again
    a request                  its handler; a broker that is not the controller answers NOT_CONTROLLER
    StopReplicaAnswered        a deletion goes on
    time                       callers whose time is over get REQUEST_TIMED_OUT; leaders are balanced

Every write of a controller checks the version of /controller_epoch (`fencing`). If that fails, another controller was
elected: this one resigns at once, and follows. If the service refuses something else, which should not happen, the
controller gives /controller back after a pause, and somebody starts from what the znodes say.

Deterministic: what happens follows from the inputs, their times, and the random source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any, Final

from attrs import evolve

from zab.coordination.driver import Connected, Driver, Event, Expired, Results, Suspended, WatchFired
from zab.coordination.operations import CoordinationError
from zab.coordination.steps import Pause, Steps
from zab.kafka.errors import ErrorCode
from zab.partition.access.acl_znodes import CHANGES
from zab.partition.access.acls import AccessLists
from zab.partition.controller import (
    acl_changes,
    brokers,
    config_changes,
    deletion,
    election,
    isr_changes,
    preferred,
    producer_ids,
    pushes,
    reassignment,
    shutdown,
    topics,
)
from zab.partition.controller.effects import Became, Effect, Failed, Follows, Registered, Resigned
from zab.partition.controller.fencing import ControllerMovedError
from zab.partition.controller.registration import Registration, RegistrationError, register
from zab.partition.controller.requests import (
    AllocateProducerIds,
    AlterConfig,
    AlterPartition,
    AlterPartitionReassignments,
    Answer,
    ControlledShutdown,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    ElectLeaders,
    Input,
    ListPartitionReassignments,
    Request,
    StopReplicaAnswered,
)
from zab.partition.controller.start import start
from zab.partition.controller.state import ControllerSettings, ControllerState
from zab.partition.controller.znodes import (
    BROKERS,
    CONFIG_CHANGES,
    CONTROLLER,
    DELETE_TOPICS,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PREFERRED_ELECTION,
    REASSIGNMENT,
    TOPICS,
)

Handler = Callable[[ControllerState], Steps[None]]
PAUSE_MS: Final = 500
"""After a failure, before the next try."""

_REQUESTS: Final[dict[type, Callable[[ControllerState, Any], Steps[None]]]] = {
    CreateTopics: topics.create,
    CreatePartitions: topics.create_partitions,
    DeleteTopics: deletion.request,
    AlterPartition: isr_changes.alter,
    AlterPartitionReassignments: reassignment.request,
    ListPartitionReassignments: reassignment.listed,
    ElectLeaders: preferred.elect,
    ControlledShutdown: shutdown.shut_down,
    AllocateProducerIds: producer_ids.allocate,
    AlterConfig: config_changes.alter,
}
_WATCHED: Final[dict[str, Handler]] = {
    BROKERS: brokers.on_change,
    TOPICS: topics.on_topics_changed,
    DELETE_TOPICS: deletion.on_requests_changed,
    REASSIGNMENT: reassignment.on_legacy_request,
    PREFERRED_ELECTION: preferred.on_legacy_request,
    ISR_CHANGES: isr_changes.on_notified,
    LOG_DIR_EVENTS: isr_changes.on_log_dir_event,
}
"""What a controller does when the watch on a path fires."""


def _if_there_are_lists(
    handler: Callable[[ControllerState, Any], Steps[None]], state: ControllerState, request: CreateAcls | DeleteAcls
) -> Steps[None]:
    if state.settings.has_access_lists:
        yield from handler(state, request)
    else:
        state.answer(Answer(request.token, ErrorCode.SECURITY_DISABLED, "the controller has no authorizer"))


class Controller:
    """registration: who this broker is. random: for ids and for the replicas of new topics."""

    def __init__(self, registration: Registration, settings: ControllerSettings, random: Random) -> None:
        self.registration = registration
        self.state = ControllerState(broker_id=registration.broker.id, settings=settings, random=random)
        self._driver = Driver()
        self._changes = config_changes.Follower()
        self._acls = acl_changes.Follower()
        self._requests: dict[type, Callable[[ControllerState, Any], Steps[None]]] = {
            **_REQUESTS,
            CreateAcls: partial(_if_there_are_lists, self._acls.create),
            DeleteAcls: partial(_if_there_are_lists, self._acls.delete),
        }
        self._follows: int | None = None
        self._balance_at_ms: int | None = None
        self._has_failed = False
        self.expired_count = self.suspended_count = 0
        """Sessions that expired, and connections that were lost."""
        self._inputs: dict[type, Callable[[Any], None]] = {
            Connected: self._on_connected,
            Suspended: self._on_suspended,
            Expired: self._on_expired,
            Results: self._driver.on_results,
            WatchFired: self._on_watch,
            StopReplicaAnswered: self._on_stop_replica_answered,
            **dict.fromkeys(self._requests, self._on_request),
        }

    # -------------------------------------------------------------------------------------------------------- for hosts

    @property
    def access_lists(self) -> AccessLists | None:
        """The access lists; None: they are not known yet. Others only read them."""
        return self._acls.lists

    @property
    def is_idle(self) -> bool:
        """Whether no event waits or runs."""
        return self._driver.is_idle

    @property
    def is_connected(self) -> bool:
        """Whether the coordination service can be reached."""
        return self._driver.is_connected

    @property
    def queue_size(self) -> int:
        """How many events wait or run."""
        return self._driver.size

    @property
    def deadline_ms(self) -> int | None:
        """When a step is due without any input."""
        times = [*self.state.deadlines.values(), self._driver.deadline_ms, self._balance_at_ms]
        return min((each for each in times if each is not None), default=None)

    def step(self, now_ms: int, inputs: Iterable[Input] = (), wall_ms: int | None = None) -> list[Effect]:
        """Take inputs in their order, do what can be done now, and say what follows. now_ms never falls: all that waits
        does so by it. wall_ms: since 1970, for what znodes say; None: the same as now_ms."""
        self.state.now_ms = now_ms
        self.state.wall_ms = now_ms if wall_ms is None else wall_ms
        if not self._has_failed:
            for each in inputs:
                self._inputs[type(each)](each)
            self._on_time()
            self._advance()
        effects, self.state.effects = self.state.effects, []
        return effects

    def _advance(self) -> None:
        while not self._has_failed:
            try:
                self.state.effects.extend(self._driver.advance(self.state.now_ms))
                return
            except ControllerMovedError as error:
                self._resign(str(error))
                self._offer("elect", self._elect)
            except CoordinationError as error:
                self.state.report(f"the coordination service refuses: {error}")
                self._recover()
            except RegistrationError as error:
                self.state.effects.append(Failed(str(error)))
                self._has_failed = True

    # ----------------------------------------------------------------------------------------------------------- inputs

    def _on_connected(self, connected: Connected) -> None:
        self._driver.on_connected()
        if connected.session_id != self.state.session_id:
            self._end_session()
            self.state.session_id = connected.session_id
            self._offer("register", self._register)
            self._read_all()
            self._offer("elect", self._elect)

    def _on_suspended(self, _: Suspended) -> None:
        self._driver.on_suspended()
        self.suspended_count += 1

    def _read_all(self) -> None:
        """What every broker follows, the controller or not."""
        self._offer("read settings", self._changes.on_session)
        if self.state.settings.has_access_lists:
            self._offer("read access lists", self._acls.on_session)

    def _on_expired(self, _: Expired) -> None:
        self._driver.on_suspended()
        self._end_session()
        self.state.session_id = 0
        self.expired_count += 1

    def _end_session(self) -> None:
        self._driver.clear()
        self._resign("the session expired")
        self._follows = None

    def _on_watch(self, fired: WatchFired) -> None:
        path = fired.path
        if path == CONTROLLER:
            self._offer("elect", self._elect)
        elif path == CONFIG_CHANGES:
            self._offer(path, self._changes.on_change)
        elif path in CHANGES.values():
            self._offer("read changes of access lists", self._acls.on_change)
        elif self.state.is_active:
            handler = _WATCHED.get(path)
            parent, _, name = path.rpartition("/")
            if handler is not None:
                self._offer_active(path, handler)
            elif parent == BROKERS:
                self._offer_active(BROKERS, brokers.on_change)
            elif parent == TOPICS:
                self._offer_active(path, lambda state: topics.on_topic_changed(state, name))

    def _on_request(self, request: Request) -> None:
        if not self.state.is_active:
            self.state.effects.append(Answer(request.token, ErrorCode.NOT_CONTROLLER))
            return
        if len(self.state.waiting) >= self.state.settings.requests_waiting_max:
            self.state.effects.append(Answer(request.token, ErrorCode.REQUEST_TIMED_OUT, "too many requests wait"))
            return
        self.state.waiting.add(request.token)
        timeout_ms = getattr(request, "timeout_ms", None)
        if timeout_ms is not None:
            self.state.deadlines[request.token] = self.state.now_ms + timeout_ms
        handler = self._requests[type(request)]
        self._offer_each(repr(request.token), self._if_active(lambda state: handler(state, request)))

    def _on_stop_replica_answered(self, answered: StopReplicaAnswered) -> None:
        self._offer_each("stop replica answered", self._if_active(lambda state: deletion.on_answer(state, answered)))

    def _on_time(self) -> None:
        now_ms = self.state.now_ms
        for token, deadline_ms in list(self.state.deadlines.items()):
            if now_ms >= deadline_ms:
                self.state.answer(Answer(token, ErrorCode.REQUEST_TIMED_OUT))
        if self._balance_at_ms is not None and now_ms >= self._balance_at_ms:
            self._schedule_balance()
            self._offer_active("balance", preferred.balance)

    def _schedule_balance(self) -> None:
        settings = self.state.settings
        self._balance_at_ms = self.state.now_ms + settings.balance_interval_ms if settings.balances_leaders else None

    # ----------------------------------------------------------------------------------------------------------- events

    def _offer(self, name: str, handler: Handler) -> None:
        self._driver.offer(Event(name, partial(self._run, handler)))

    def _offer_active(self, name: str, handler: Handler) -> None:
        # An event of an earlier term of office, which will be dropped, must not stand for this one.
        self._offer(f"{name} in epoch {self.state.epoch}", self._if_active(handler))

    def _offer_each(self, name: str, handler: Handler) -> None:
        self._driver.offer(Event(name, partial(self._run, handler), is_unique=False))

    def _run(self, handler: Handler) -> Steps[None]:
        yield from handler(self.state)
        if self.state.is_active:
            pushes.flush(self.state)

    def _if_active(self, handler: Handler) -> Handler:
        """The handler, for this term of office only: events of an earlier one are dropped."""
        epoch = self.state.epoch

        def handle(state: ControllerState) -> Steps[None]:
            if state.is_active and state.epoch == epoch:
                yield from handler(state)

        return handle

    def _register(self, state: ControllerState) -> Steps[None]:
        found = yield from register(state, self.registration)
        state.broker_id = found.broker.id
        broker = found.broker
        if broker.previous_epoch is not None:
            # Should the session expire, this process goes on, with all that it has.
            broker = evolve(broker, previous_epoch=broker.epoch)
        self.registration = Registration(broker, found.cluster_id, self.registration.session_timeout_ms)
        state.effects.append(Registered(found.broker.id, found.broker.epoch, found.cluster_id))

    def _elect(self, state: ControllerState) -> Steps[None]:
        elected = yield from election.elect(state)
        if not elected.is_here:
            self._resign(f"broker {elected.broker_id} is the controller")
            if self._follows != elected.broker_id:
                self._follows = elected.broker_id
                state.effects.append(Follows(elected.broker_id))
        elif not state.is_active or elected.epoch != state.epoch:
            self._resign(f"the next epoch is {elected.epoch}")
            yield from self._take_office(state, elected)

    def _take_office(self, state: ControllerState, elected: election.Elected) -> Steps[None]:
        state.is_active, state.epoch, state.epoch_version = True, elected.epoch, elected.version
        self._follows = state.broker_id
        state.effects.append(Became(elected.epoch))
        yield from start(state)
        self._schedule_balance()

    def _resign(self, reason: str) -> None:
        if self.state.is_active:
            self.state.forget()
            self._balance_at_ms = None
            self.state.effects.append(Resigned(reason))

    def _recover(self) -> None:
        """Begin again after something failed that should not."""
        # What waits is not handled with what this controller believes now; its callers are told to ask again.
        self._driver.clear()
        self._offer("give up", self._give_up)
        self._offer("register", self._register)
        self._read_all()
        self._offer("elect", self._elect)

    def _give_up(self, state: ControllerState) -> Steps[None]:
        if state.is_active:
            yield from election.give_up(state)
            self._resign("the coordination service refused a write")
        yield Pause(PAUSE_MS)
