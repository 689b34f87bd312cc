"""The other brokers, as this one deals with them over links: whom it asks and answers, and what is repeated.

    what it says, on links that it dials        to
    FollowerAsked                               the leaders of what it copies (`Fetchers`)
    Asked                                       the controller (`AskingController`)
    Told                                        everybody, while it is the controller (`ControllerChannel`)
    Ended                                       the leaders of partitions whose transaction ends
    Verifying                                   the coordinators of transactions (`AskingCoordinators`)

and what others ask it on links that they have dialled, it answers there. What a link carried that ends is said again on
the next one. A broker asks as itself alone: what names another one is refused.

    take(event)         something happened on a link
    keep_up(now)        at the end of a turn: what is to be said, dialled, broken off

Not here: what requests of followers are answered (`requests`), what the controller's words do (`broker`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import ProtocolError
from zab.partition.controller.effects import PartitionStates, ToBroker
from zab.partition.controller.requests import Answer, Request, StopReplicaAnswered
from zab.partition.controller.requests import Input as ControllerInput
from zab.partition.controller.znodes import Broker as RegisteredBroker
from zab.partition.followers import Followers
from zab.partition.links.arrivals import Arrivals
from zab.partition.links.controller_channel import ControllerChannel
from zab.partition.links.dialling import Dialling
from zab.partition.links.messages import (
    Answered,
    Asked,
    DialFailed,
    Ended,
    FollowerAnswered,
    FollowerAsked,
    FromLinks,
    LinkDown,
    LinkReceived,
    LinkUp,
    Marked,
    Message,
    Taken,
    Told,
    Verified,
    Verifying,
)
from zab.partition.replica.fetcher import Fetchers
from zab.partition.requests.asking_controller import AskingController
from zab.partition.requests.asking_coordinators import AskingCoordinators
from zab.partition.requests.follower_connection import FollowerConnection
from zab.partition.settings.broker_settings import ReplicationSettings
from zab.partition.settings.listeners import Endpoint, endpoint_in
from zab.partition.transactions.marker import Marker, MarkerDone
from zab.partition.transactions.requests import Verify
from zab.wire.frames import FrameReader

Taking: TypeAlias = Callable[[ErrorCode, StopReplicaAnswered | None], None]
"""Called once a message of the controller is done with: an error, or what became of a StopReplica that deletes."""
_NO_FRAMES: Final = 1


class Broker(Protocol):
    """What a broker does with what the others say."""

    def told_by_controller(self, message: ToBroker, number: int, taken: Taking) -> None:
        """The controller says this, to this life."""

    def write_marker(self, marker: Marker, done: MarkerDone) -> None:
        """Another broker's coordinator wants this marker in a partition that this one leads."""

    def verify(self, asked: Verify) -> tuple[ErrorCode, ...]:
        """Another broker asks the coordinator of a transaction that this one may have."""

    def to_controller(self, given: ControllerInput) -> None:
        """Something for the controller that this broker may be."""


@attrs.frozen
class RemoteToken:
    """The name of another broker's question."""

    link: int
    number: int


class Neighbours:
    """See the docstring of the module. Times are monotonic ms."""

    def __init__(
        self,
        settings: ReplicationSettings,
        broker: Broker,
        followers: Followers,
        who: Callable[[], tuple[int, int]],
        asking: AskingController,
        coordinators: AskingCoordinators,
        fetchers: Fetchers,
        arrivals: Arrivals,
    ) -> None:
        self.sends: list[tuple[int, Message]] = []
        self.notes: list[str] = []
        """What is to be sent, and sentences for the journal; the broker empties both."""
        self._settings = settings
        self._broker = broker
        self._of_followers = followers
        self._who = who
        self._asking = asking
        self._coordinators = coordinators
        self._fetchers = fetchers
        self._arrivals = arrivals
        self._channel = ControllerChannel()
        self._dialling = Dialling(settings.link_timeout_ms)
        self._inbound: dict[int, int] = {}
        """The broker at the other end of each link that was dialled to this one."""
        self._followers: dict[int, FollowerConnection] = {}
        self._marking: dict[int, tuple[int, MarkerDone]] = {}
        """The broker that is to write each marker, and who wants to know."""
        self._marker_count = 0
        self._unreached: set[int] = set()
        """Brokers for which there was a marker, but no link."""

    # -------------------------------------------------------------------------------------------------- the controller

    def tell(self, message: ToBroker) -> None:
        """Tell another broker what this one, the controller, has decided."""
        self._channel.tell(message)
        self.live(message)

    def live(self, message: ToBroker) -> None:
        """The controller, which may be this broker, has said who lives."""
        if isinstance(message.message, PartitionStates):
            own, _ = self._who()
            found = {broker.id: self._endpoint_of(broker) for broker in message.message.live_brokers}
            self._dialling.know({each: at for each, at in found.items() if at is not None and each != own})

    def _endpoint_of(self, broker: RegisteredBroker) -> Endpoint | None:
        for text in broker.endpoints:
            try:
                endpoint = endpoint_in(text)
            except ValueError:
                continue
            if endpoint.name == self._settings.listener_name:
                return endpoint
        return None

    def resigned(self) -> None:
        """This broker is the controller no longer."""
        self._channel.resigned()

    def answer(self, answer: Answer, token: RemoteToken) -> None:
        """The controller that this broker is has answered another broker."""
        self.sends.append((token.link, Answered(token.number, attrs.evolve(answer, token=None))))

    # ---------------------------------------------------------------------------------------------------------- events

    def take(self, event: FromLinks, now: int, wall_ms: int) -> None:
        """Something happened on a link."""
        match event:
            case LinkUp(link, broker_id, is_inbound):
                if is_inbound:
                    self._inbound[link] = broker_id
                else:
                    self._dialling.up(link, broker_id)
                    self._unreached.discard(broker_id)
            case LinkDown(link):
                self._down(link, now)
            case DialFailed(broker_id):
                self._dialling.failed(broker_id, now)
                self._coordinators.lost(broker_id)
            case LinkReceived(link, message):
                if link in self._inbound:
                    self._asked(link, self._inbound[link], message, now)
                else:
                    self._answered(link, message, now, wall_ms)

    def write_marker(self, broker_id: int, marker: Marker, done: MarkerDone) -> None:
        """Have this broker, which leads the partition, write the marker. `done` gets its answer, or
        BROKER_NOT_AVAILABLE: who asked tries again."""
        link = self._dialling.link_to(broker_id)
        if link is None:
            self._unreached.add(broker_id)
            done(ErrorCode.BROKER_NOT_AVAILABLE)
            return
        self._marker_count += 1
        self._marking[self._marker_count] = broker_id, done
        self.sends.append((link, Ended(self._marker_count, marker)))

    def _lose_markers(self, broker_id: int) -> None:
        for number in [number for number, (of, _) in self._marking.items() if of == broker_id]:
            _, done = self._marking.pop(number)
            done(ErrorCode.BROKER_NOT_AVAILABLE)

    def _down(self, link: int, now: int) -> None:
        self._inbound.pop(link, None)
        follower = self._followers.pop(link, None)
        if follower is not None:
            self._of_followers.gone(follower)
        broker_id = self._dialling.down(link, now)
        if broker_id is not None:
            self._fetchers.lost(broker_id)
            self._channel.lost(broker_id)
            self._lose_markers(broker_id)
            self._coordinators.lost(broker_id)
            if broker_id == self._asking.controller:
                self._asking.lost()

    def _asked(self, link: int, broker_id: int, message: Message, now: int) -> None:
        """A broker that has dialled a link asks something."""
        match message:
            case FollowerAsked(payload):
                self._from_follower(link, broker_id, payload, now)
            case Asked(number, request):
                self._question(RemoteToken(link, number), broker_id, request)
            case Told():
                self._told(link, broker_id, message)
            case Ended(number, marker):
                self._broker.write_marker(marker, lambda error: self.sends.append((link, Marked(number, error))))
            case Verifying(number, asked):
                self.sends.append((link, Verified(number, self._broker.verify(asked))))
            case _:
                self._break(link, f"broker {broker_id} answers what nobody asked")

    def _break(self, link: int, reason: str) -> None:
        self._dialling.breaks.append((link, reason))
        self.notes.append(f"a link is broken off: {reason}")

    def _from_follower(self, link: int, broker_id: int, payload: bytes, now: int) -> None:
        connection = self._followers.get(link)
        if connection is None:
            connection = self._followers[link] = FollowerConnection(
                *(-link, f"broker {broker_id}", 0, "", FrameReader(_NO_FRAMES)), broker_id=broker_id, link=link
            )
        connection.heard_at = now
        self._of_followers.came(connection, payload)
        if connection.has_too_many:
            self._break(link, f"broker {broker_id} does not wait for answers")

    def _question(self, token: RemoteToken, broker_id: int, request: Request) -> None:
        if getattr(request, "broker_id", broker_id) != broker_id:
            error = Answer(None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "a broker asks as itself alone")
            self.answer(error, token)
        else:
            self._broker.to_controller(attrs.evolve(request, token=token))

    def _told(self, link: int, broker_id: int, told: Told) -> None:
        message = told.message

        def taken(error: ErrorCode, stopped: StopReplicaAnswered | None = None) -> None:
            self.sends.append((link, Taken(told.number, error, stopped)))

        error = self._arrivals.error(message, *self._who())
        if message.controller_id != broker_id:
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        is_next = self._arrivals.is_next(told)
        if error is not ErrorCode.NONE:
            taken(error)
        elif is_next is False:
            taken(ErrorCode.BROKER_NOT_AVAILABLE)
        elif is_next is None and isinstance(message.message, PartitionStates):
            taken(ErrorCode.NONE)
        else:
            # What is to be stopped may be stopped once more, so that the controller is answered.
            self._broker.told_by_controller(message, max(told.number, self._arrivals.number_of(message)), taken)

    def _answered(self, link: int, message: Message, now: int, wall_ms: int) -> None:
        """A broker answers on a link that this one has dialled."""
        broker_id = self._dialling.broker_of(link)
        if broker_id is None:
            return
        match message:
            case FollowerAnswered(pieces):
                self._dialling.heard(link, now)
                try:
                    self._fetchers.answered(
                        broker_id, b"".join(each for each in pieces if isinstance(each, bytes)), now, wall_ms
                    )
                except ProtocolError as error:
                    self._break(link, f"broker {broker_id} answers a follower: {error}")
            case Answered(number, answer):
                self._asking.answer(number, answer)
            case Marked(number, error):
                _, done = self._marking.pop(number, (broker_id, None))
                if done is not None:
                    done(error)
            case Verified(number, errors):
                self._dialling.heard(link, now)
                if not self._coordinators.answer(broker_id, number, errors):
                    self._break(link, f"broker {broker_id} answers another question about a transaction")
            case Taken():
                self._dialling.heard(link, now)
                stopped = self._channel.taken(broker_id, message, now)
                if stopped is not None and stopped.broker_id == broker_id:
                    self._broker.to_controller(stopped)
            case _:
                self._break(link, f"broker {broker_id} asks on a link that it has not dialled")

    # ---------------------------------------------------------------------------------------------------- end of a turn

    def keep_up(self, now: int) -> None:
        """Say what is to be said."""
        own, _ = self._who()
        asking, controller = self._asking, self._asking.controller
        for source in list(self._fetchers.sources):
            link = self._dialling.link_to(source)
            payload = None if link is None else self._fetchers.request(source, now)
            if link is not None and payload is not None:
                self._say(link, FollowerAsked(payload), now)
        if controller != own:
            link = self._dialling.link_to(controller)
            if link is not None:
                self.sends += [
                    (link, Asked(number, attrs.evolve(request, token=None))) for number, request in asking.due()
                ]
        told = self._channel.waiting
        for broker_id in told:
            link = self._dialling.link_to(broker_id)
            if link is not None:
                for message in self._channel.due(broker_id, now):
                    self._say(link, message, now)
        for broker_id in self._coordinators.brokers:
            link = self._dialling.link_to(broker_id)
            if link is not None:
                for number, asked in self._coordinators.due(broker_id):
                    self._say(link, Verifying(number, asked), now)
        wanted = {*self._fetchers.sources, *told, *self._unreached, *self._coordinators.brokers}
        if asking.is_waiting and controller != own:
            wanted.add(controller)
        self._dialling.keep_up(now, wanted)

    def _say(self, link: int, message: Message, now: int) -> None:
        self.sends.append((link, message))
        self._dialling.said(link, now)

    def take_dials(self) -> tuple[list[tuple[int, Endpoint]], list[tuple[int, str]]]:
        """The links to be dialled, and those to be broken off."""
        dials, self._dialling.dials = self._dialling.dials, []
        breaks, self._dialling.breaks = self._dialling.breaks, []
        return dials, breaks

    def next_deadline(self) -> int:
        """When `keep_up` has something to do although nothing happens."""
        dialling = self._dialling
        return min(
            dialling.next_deadline(),
            self._channel.next_deadline(),
            self._fetchers.next_deadline(source for source in self._fetchers.sources if dialling.link_to(source)),
            self._asking.next_deadline(),
            self._coordinators.next_deadline(),
        )
