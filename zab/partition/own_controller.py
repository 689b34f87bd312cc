"""The controller that every broker has, and what a broker does for a controller, its own or that of another broker.

    give(input)             something for this broker's controller; `run` hands it on
    run()                   this broker's controller takes its steps, until nothing is left
    told_by_another(…)      the controller is another broker, and says something

The controllers of all brokers are alike, and one of them is active. What it says to its own broker is taken without a
link, and by the same rules: a message to an earlier life, or of an earlier controller, is not taken.

Not here: what a controller decides (`zab.partition.controller`), links (`neighbours`), what a message changes
(`metadata_publisher`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import Factory, define

from zab.coordination.driver import Submit
from zab.kafka.errors import ErrorCode
from zab.partition.clients import Clients
from zab.partition.controller import effects as of_controller
from zab.partition.controller.controller import Controller
from zab.partition.controller.effects import ToBroker
from zab.partition.controller.requests import Answer, StopReplicaAnswered
from zab.partition.controller.requests import Input as ControllerInput
from zab.partition.events import Effects
from zab.partition.links.arrivals import Arrivals
from zab.partition.local_replicas import LocalReplicas
from zab.partition.metadata_publisher import MetadataPublisher
from zab.partition.neighbours import Neighbours, RemoteToken, Taking
from zab.partition.requests.asking_controller import AskingController

NOT_REGISTERED: Final = -1


@define(eq=False)
class OwnController:
    """See the docstring of the module. Each turn begins with `begin`. Times are monotonic ms; `wall` is ms since 1970.

    _registered: the broker has this id, this epoch, and is in this cluster. _settle: do what is necessary before the
    controller goes on, which may give it more."""

    _controller: Controller
    _who: Callable[[], tuple[int, int]]
    _asking: AskingController
    _arrivals: Arrivals
    _metadata: MetadataPublisher
    _local: LocalReplicas
    _clients: Clients
    _neighbours: Neighbours
    _registered: Callable[[int, int, str], None]
    _settle: Callable[[], None]
    _given: list[ControllerInput] = Factory(list)
    _messages: list[ToBroker] = Factory(list)
    """What it said to its own broker before the logs were open."""
    _now: int = 0
    _wall: int = 0
    _effects: Effects = Factory(Effects)

    def begin(self, now: int, wall: int, effects: Effects) -> None:
        """A turn begins; its effects go here."""
        self._now, self._wall, self._effects = now, wall, effects

    def give(self, given: ControllerInput) -> None:
        """It gets this with its next step."""
        self._given.append(given)

    def run(self) -> None:
        """Hand it what there is for it, and do what it says, until there is nothing left."""
        while True:
            given, self._given = self._given, []
            if self._is_active:
                given += [request for _, request in self._asking.due()]
            for effect in self._controller.step(self._now, given, self._wall):
                self._take(effect)
            self._settle()
            if not (self._given or (self._is_active and self._asking.has_due)):
                return

    @property
    def _is_active(self) -> bool:
        broker_id, _ = self._who()
        return broker_id != NOT_REGISTERED and self._asking.controller == broker_id

    def _take(self, effect: of_controller.Effect) -> None:
        broker_id, _ = self._who()
        match effect:
            case Submit():
                self._effects.submits.append(effect)
            case Answer(token):
                if isinstance(token, RemoteToken):
                    self._neighbours.answer(effect, token)
                elif isinstance(token, int):
                    self._asking.answer(token, effect)
            case ToBroker(receiver) if receiver != broker_id:
                self._neighbours.tell(effect)
            case ToBroker():
                self._take_own(effect)
            case of_controller.Registered(registered_id, broker_epoch, cluster_id):
                self._registered(registered_id, broker_epoch, cluster_id)
            case of_controller.Follows(controller_id):
                self._controller_is(NOT_REGISTERED if controller_id is None else controller_id)
            case of_controller.ConfigChanged(entity_path, config):
                self._metadata.config_changed(entity_path, dict(config), broker_id)
            case of_controller.AccessListsKnown(count):
                self._effects.notes.append(f"there are {count} access lists")
                self._clients.go_on(self._now)
            case of_controller.Reported(text):
                self._effects.reports.append(text)
            case of_controller.Failed(reason):
                self._effects.failure = reason
            case of_controller.Became(epoch):
                self._controller_is(broker_id)
                self._effects.notes.append(f"this broker is the controller, of epoch {epoch}")
            case of_controller.Resigned(reason):
                self._controller_is(NOT_REGISTERED)
                self._neighbours.resigned()
                self._effects.reports.append(f"this broker is the controller no longer: {reason}")

    def _controller_is(self, broker_id: int) -> None:
        self._asking.controller_is(broker_id)
        self._metadata.image = self._metadata.image.changed(controller=broker_id)

    # -------------------------------------------------------------------------------------------------------- messages

    def logs_are_open(self) -> None:
        """Take what had to wait for that."""
        messages, self._messages = self._messages, []
        for message in messages:
            self._take_own(message)

    def _take_own(self, message: ToBroker) -> None:
        """This broker is the controller, and says this to itself."""
        if self._arrivals.error(message, *self._who()) is not ErrorCode.NONE:
            return
        if not self._local.is_open:
            self._messages.append(message)
            return
        stopped = self._take_message(message, 0)
        if stopped is not None:
            self._given.append(stopped)

    def told_by_another(self, message: ToBroker, number: int, taken: Taking) -> None:
        """The controller is another broker, and says this to this life."""
        if not self._local.is_open:
            taken(ErrorCode.BROKER_NOT_AVAILABLE, None)
        else:
            taken(ErrorCode.NONE, self._take_message(message, number))

    def _take_message(self, envelope: ToBroker, number: int) -> StopReplicaAnswered | None:
        """Do what the controller says; what becomes of a StopReplica that deletes."""
        self._arrivals.take(envelope, number)
        self._neighbours.live(envelope)
        deleted = self._metadata.publish(envelope)
        return StopReplicaAnswered(*self._who(), envelope.controller_epoch, deleted) if deleted else None
