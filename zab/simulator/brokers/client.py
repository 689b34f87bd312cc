"""A client of Kafka's protocol in the simulated world: connections with brokers, and requests on them.

    ask(broker, body, version, then)    `then` is called once: with the answer, or with None if there will be none
    tell(broker, body, version)         a request without an answer
    metadata(topics, then)              who leads what, from any broker

A connection is opened when it is needed. A request that is not answered in time ends its connection, since answers are
in order; nobody knows then what became of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, Protocol

import attrs

from zab.kafka.declare import LAYOUTS
from zab.kafka.errors import ErrorCode
from zab.kafka.frames import decode_response, request_frame
from zab.kafka.headers import RequestHeader
from zab.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from zab.simulator.brokers.judge import Judge
from zab.simulator.brokers.process import BrokerProcess
from zab.simulator.world.machine import WALL_MS
from zab.simulator.world.network import Network
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.sockets import CLOSED, ClientLink
from zab.simulator.world.trace import Trace
from zab.simulator.world.verdict import SafetyError
from zab.wire.frames import FrameReader

METADATA_VERSION: Final = 12
TIMEOUT_US: Final = 3_000 * MS
"""How long a client waits for an answer."""
ANSWER_BYTES_MAX: Final = 1 << 26
CORRELATION_BYTES: Final = 4

Then = Callable[[Any], None]


class Surroundings(Protocol):
    """What clients see of the cluster."""

    schedule: Schedule
    network: Network
    trace: Trace
    judge: Judge

    @property
    def broker_ids(self) -> Sequence[int]: ...

    def process(self, broker: int) -> BrokerProcess | None: ...

    def has_topic(self, broker: int, topic: str, index: int, topic_id: bytes) -> bool: ...

    def is_newest(self, topic: str, topic_id: bytes) -> bool: ...

    def coordinates(self, broker: int, group: str) -> bool: ...


@attrs.define(eq=False)
class _Asked:
    key: int
    version: int
    correlation_id: int
    then: Then


class _Talk:
    """One connection with one broker."""

    def __init__(self, broker: int, link: ClientLink[Any]) -> None:
        self.broker = broker
        self.link = link
        self.frames = FrameReader(ANSWER_BYTES_MAX)
        self.asked: deque[_Asked] = deque()


class Client:
    """See the docstring of the module. `number` is negative."""

    def __init__(self, cluster: Surroundings, number: int, rng: Random, kept: frozenset[int] | None) -> None:
        """`kept`: only these of its wishes are sent; None: all are."""
        self.cluster = cluster
        self.number = number
        self.name = f"c{-number}"
        self.rng = rng
        self.is_stopped = False
        self.wishes_count = 0
        self._kept = kept
        self._talks: dict[int, _Talk] = {}
        self._correlation_id = 0

    def start(self) -> None:
        """Begin to work."""
        raise NotImplementedError

    def wishes(self) -> bool:
        """Count a wish. Whether it is sent."""
        self.wishes_count += 1
        return self._kept is None or self.wishes_count in self._kept

    @property
    def wall_ms(self) -> int:
        """The clock of this client."""
        return WALL_MS + self.cluster.schedule.now // MS

    def later(self, delay_us: int, action: Callable[..., None], *arguments: Any) -> None:
        self.cluster.schedule.after(delay_us, action, *arguments)

    def say(self, text: str) -> None:
        self.cluster.trace.say(self.name, text)

    # ---------------------------------------------------------------------------------------------------------- asking

    def ask(self, broker: int, body: object, version: int, then: Then, timeout_us: int = TIMEOUT_US) -> None:
        """Ask this broker."""
        talk = self._talks.get(broker) or self._connect(broker)
        if talk is None:
            self.later(int(50 * MS * (1 + self.rng.random())), then, None)
            return
        key, correlation_id = self._put(talk, body, version)
        asked = _Asked(key, version, correlation_id, then)
        talk.asked.append(asked)
        self.later(timeout_us, self._overdue, talk, asked)

    def tell(self, broker: int, body: object, version: int) -> None:
        """Send this broker a request that has no answer; nobody knows whether it arrives."""
        talk = self._talks.get(broker) or self._connect(broker)
        if talk is not None:
            self._put(talk, body, version)

    def _put(self, talk: _Talk, body: object, version: int) -> tuple[int, int]:
        """The key of the request, and its correlation id."""
        self._correlation_id += 1
        key = LAYOUTS[type(body)].key
        assert key is not None
        data = request_frame(RequestHeader(key, version, self._correlation_id, self.name), body)
        talk.link.to_server.send(data, len(data))
        return key, self._correlation_id

    def _connect(self, broker: int) -> _Talk | None:
        process = self.cluster.process(broker)
        if process is None or not self.cluster.network.reaches(self.number, broker):
            return None
        talk = self._talks[broker] = _Talk(broker, process.clients.connect(self))
        return talk

    def _overdue(self, talk: _Talk, asked: _Asked) -> None:
        if asked in talk.asked:
            self._end(talk)
            talk.link.to_client.cut()
            talk.link.to_server.send(CLOSED, 1)

    def leave(self) -> None:
        """Close all connections."""
        for talk in list(self._talks.values()):
            self._end(talk)
            talk.link.to_client.cut()
            talk.link.to_server.send(CLOSED, 1)

    def _end(self, talk: _Talk) -> None:
        """There will be no more answers."""
        if self._talks.get(talk.broker) is talk:
            del self._talks[talk.broker]
        asked, talk.asked = talk.asked, deque()
        for each in asked:
            each.then(None)

    def receive(self, link: Any, data: bytes) -> None:
        """Take bytes of a broker, or its end."""
        talk = next((each for each in self._talks.values() if each.link is link), None)
        if talk is None:
            return
        if data == CLOSED:
            self._end(talk)
            return
        for payload in talk.frames.feed(data):
            if not talk.asked:
                if self._talks.get(talk.broker) is not talk:
                    return
                raise SafetyError("answers are in the order of requests", f"{self.name} has asked nothing")
            asked = talk.asked.popleft()
            correlation_id = int.from_bytes(payload[:CORRELATION_BYTES], "big")
            if correlation_id != asked.correlation_id:
                text = f"{self.name} is answered {correlation_id} instead of {asked.correlation_id}"
                raise SafetyError("answers are in the order of requests", text)
            asked.then(decode_response(asked.key, asked.version, payload)[1])

    # -------------------------------------------------------------------------------------------------------- metadata

    def metadata(self, topics: Sequence[str] | None, then: Callable[[MetadataResponse | None], None]) -> None:
        """Ask any broker about these topics; None: all of them."""
        names = None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
        body = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        self.ask(self.rng.choice(self.cluster.broker_ids), body, METADATA_VERSION, then)


def errors_of(answer: Any) -> set[ErrorCode]:
    """All error codes in a response, without NONE."""
    found = set()
    for field in attrs.fields(type(answer)):
        value = getattr(answer, field.name)
        if field.name.endswith("error_code"):
            found.add(ErrorCode(value))
        elif isinstance(value, tuple):
            for each in value:
                if attrs.has(type(each)):
                    found |= errors_of(each)
    return found - {ErrorCode.NONE}
