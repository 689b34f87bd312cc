"""Clients of librdkafka that load the brokers and write down what they are told (`recording`).

    Sender          an idempotent producer, or one that is not; keeps some records under way
    Transactor      transactions over several partitions, of which some are aborted
    Reader          a consumer that is assigned all partitions, and now and then sent back
    GroupMember     a consumer of a group that subscribes, and commits what it has been given
    Answerer        of a group; answers each record in another topic, exactly once, with transactions

Each runs in a thread until it is told to stop, whatever it meets. An error of a send makes its outcome INFO: librdkafka
does not say whether an attempt may have been stored. What is definite is the end of a transaction.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Final

from attrs import evolve
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.chaos.brokers.history import (
    NOWHERE,
    Assign,
    Commit,
    Committed,
    Outcome,
    Partition,
    Poll,
    Record,
    Send,
    Transaction,
)
from tests.chaos.brokers.recording import Recording, now

_SILENT: Final = logging.getLogger("tests.chaos.brokers.librdkafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False

QUICK: Final = {
    "logger": _SILENT,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 300,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 300,
    "topic.metadata.refresh.interval.ms": 1000,
    "socket.timeout.ms": 3000,
    "socket.connection.setup.timeout.ms": 1000,
    "connections.max.idle.ms": 10_000,
}
"""Idle connections are closed, since librdkafka waits for a group's coordinator at a handle that it has given up when
that broker was not in the metadata for a moment. It looks again when any connection changes its state."""

UNDER_WAY_MAX: Final = 50
ENDLESS_SECONDS: Final = 60.0


class Client:
    """One thread. `count` is how much it has got done."""

    def __init__(self, name: str, recording: Recording, bootstrap: str, seed: int) -> None:
        self.name = name
        self.recording = recording
        self.bootstrap = bootstrap
        self.random = random.Random(f"{seed} {name}")
        self.count = 0
        self.incarnation = 0
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.stop = threading.Event()
        self.failure: BaseException | None = None

    @property
    def who(self) -> str:
        return f"{self.name}.{self.incarnation}"

    def options(self, **more: object) -> dict[str, Any]:
        given = {name.replace("_", "."): value for name, value in more.items()}
        return {"bootstrap.servers": self.bootstrap, "client.id": self.who, **QUICK, **given}

    def _run(self) -> None:
        try:
            while not self.stop.is_set():
                self.incarnation += 1
                try:
                    self.live()
                except KafkaException as error:
                    self.recording.met(f"{type(self).__name__}: {error.args[0].name()}")
                    self.stop.wait(0.2)
        except BaseException as error:
            self.failure = error
            raise

    def live(self) -> None:
        """One incarnation: until it is to stop, or something ends it."""
        raise NotImplementedError

    def send(
        self, producer: Producer, partition: Partition, value: str, told: Callable[[bool], None], **more: Any
    ) -> None:
        """Hand over one record; `told` hears whether it was acknowledged."""
        given = {"client": self.who, "number": self.recording.number(), "partition": partition, "value": value, **more}
        begun = Send(outcome=Outcome.INFO, start=now(), **given)
        self.recording.sent(begun)

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self.recording.sent(evolve(begun, outcome=Outcome.OK, end=now(), offset=message.offset()))
            else:
                self.recording.met(f"{type(self).__name__} send: {error.name()}")
            told(error is None)

        producer.produce(partition[0], value.encode(), partition=partition[1], on_delivery=delivered)

    def polled(self, consumer: Consumer, seconds: float = 0.1, **more: Any) -> tuple[Record, ...]:
        """What it is given; it is written down."""
        start = now()
        records = []
        for message in consumer.consume(200, seconds):
            error = message.error()
            if error is None:
                records.append(
                    Record((message.topic(), message.partition()), message.offset(), message.value().decode())
                )
            elif error.code() in _LOSSES:
                self.recording.complaints.append(f"{self.who}: {error}")
            else:
                self.recording.met(f"{type(self).__name__} poll: {error.name()}")
        found = tuple(records)
        if found:
            # The callbacks of a rebalance come before it, and what they note has lower numbers.
            number = self.recording.number()
            self.recording.add(Poll(client=self.who, number=number, start=start, end=now(), records=found, **more))
        return found


_LOSSES: Final = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION)


class Sender(Client):
    """See the docstring of the module."""

    def __init__(self, *client: Any, partitions: Sequence[Partition], is_idempotent: bool, gap_seconds: float) -> None:
        super().__init__(*client)
        self.partitions = partitions
        self.is_idempotent = is_idempotent
        self.gap_seconds = gap_seconds
        self.under_way = 0

    def live(self) -> None:
        # A message that times out makes librdkafka take another epoch, under which it sends those that may be written
        # already once more: an idempotent sender waits as long as it takes.
        timeout_ms = 0 if self.is_idempotent else 30_000
        producer = Producer(
            self.options(enable_idempotence=self.is_idempotent, acks="all", linger_ms=2, message_timeout_ms=timeout_ms)
        )
        # Of what a former incarnation had under way, nothing more is told.
        number = self.under_way = 0
        while not self.stop.is_set():
            number += 1
            self.under_way += 1
            partition = self.random.choice(self.partitions)
            self.send(producer, partition, f"{self.who}-{number}", self._told, is_idempotent=self.is_idempotent)
            producer.poll(self.gap_seconds)
            while self.under_way >= UNDER_WAY_MAX and not self.stop.is_set():
                producer.poll(0.05)
        producer.flush(ENDLESS_SECONDS)

    def _told(self, is_acknowledged: bool) -> None:
        self.under_way -= 1
        self.count += is_acknowledged


class Transactor(Client):
    """See the docstring of the module."""

    def __init__(self, *client: Any, partitions: Sequence[Partition]) -> None:
        super().__init__(*client)
        self.partitions = partitions
        self.made = 0

    def live(self) -> None:
        producer = transactional(self)
        while not self.stop.is_set():
            self.made += 1
            name = f"{self.name}-T{self.made}"
            with_abort = self.random.random() < 0.3
            transaction = Open(self, producer, name)
            for index in range(self.random.randint(1, 8)):
                partition = self.random.choice(self.partitions)
                self.send(producer, partition, f"{name}-{index}", lambda _: None, transaction=name)
                producer.poll(self.random.choice([0, 0, 0.01]))
            if with_abort:
                # Otherwise librdkafka takes what it has not sent yet back, and there is nothing to abort.
                producer.flush(ENDLESS_SECONDS)
            self.count += transaction.end(aborts=with_abort)


def transactional(client: Client) -> Producer:
    """A producer with the name of this client; the former one with it is fenced."""
    options = client.options(transactional_id=client.name, transaction_timeout_ms=20_000, linger_ms=1)
    producer = Producer(options)
    producer.init_transactions(ENDLESS_SECONDS)
    return producer


class Open:
    """A transaction that has begun."""

    def __init__(self, client: Client, producer: Producer, name: str) -> None:
        self.client = client
        self.producer = producer
        self.name = name
        self.start = now()
        producer.begin_transaction()

    def end(self, *, aborts: bool) -> bool:
        """Commit or abort it, and write down what became of it; whether it is committed. Raises KafkaException if this
        producer is of no more use."""
        asked = inf
        try:
            if not aborts:
                self.producer.flush(ENDLESS_SECONDS)
                asked = now()
                try:
                    self._retried(self.producer.commit_transaction)
                except KafkaException as error:
                    if not error.args[0].txn_requires_abort():
                        raise
                    self.client.recording.met(f"commit: {error.args[0].name()}")
                else:
                    self._note(Outcome.OK, asked)
                    return True
            self._retried(self.producer.abort_transaction)
        except KafkaException:
            # The next producer of this name ends it: as it was decided, if it was.
            self._note(Outcome.FAIL if asked == inf else Outcome.INFO, asked, inf)
            raise
        self._note(Outcome.FAIL, asked)
        return False

    def _retried(self, step: Callable[[float], None]) -> None:
        deadline = now() + ENDLESS_SECONDS
        while True:
            try:
                step(5.0)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or now() > deadline:
                    raise

    def _note(self, outcome: Outcome, asked: float, end: float | None = None) -> None:
        number, ended = self.client.recording.number(), now() if end is None else end
        given = {"client": self.client.who, "number": number, "start": self.start, "end": ended}
        self.client.recording.add(Transaction(name=self.name, outcome=outcome, asked=asked, **given))


class Reader(Client):
    """See the docstring of the module."""

    def __init__(self, *client: Any, partitions: Sequence[Partition], is_committed: bool) -> None:
        super().__init__(*client)
        self.partitions = partitions
        self.is_committed = is_committed
        self.positions: dict[Partition, int] = dict.fromkeys(partitions, 0)

    def live(self) -> None:
        isolation = "read_committed" if self.is_committed else "read_uncommitted"
        consumer = Consumer(
            self.options(
                group_id=self.name, enable_auto_commit=False, auto_offset_reset="error", isolation_level=isolation
            )
        )
        try:
            self._assign(consumer)
            while not self.stop.is_set():
                for record in self.polled(consumer, is_committed=self.is_committed):
                    self.positions[record.partition] = record.offset + 1
                    self.count += 1
                if self.random.random() < 0.005:
                    back = self.random.choice(self.partitions)
                    self.positions[back] = self.random.randint(0, self.positions[back])
                    self._assign(consumer)
        finally:
            consumer.close()

    def _assign(self, consumer: Consumer) -> None:
        consumer.assign([TopicPartition(topic, index, at) for (topic, index), at in self.positions.items()])
        at = now()
        self.recording.add(
            Assign(client=self.who, number=self.recording.number(), positions=dict(self.positions), start=at, end=at)
        )


class Grouped(Client):
    """A consumer that subscribes. Where its partitions begin is asked for, and written down."""

    group = ""

    def __init__(self, *client: Any, group: str, topics: Sequence[str]) -> None:
        super().__init__(*client)
        self.group = group
        self.topics = topics
        self.given: dict[Partition, int] = {}
        """Up to where it was given records that are not committed yet."""

    def subscribed(self) -> Consumer:
        consumer = Consumer(
            self.options(
                group_id=self.group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                session_timeout_ms=4000,
                heartbeat_interval_ms=500,
            )
        )
        consumer.subscribe(list(self.topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        return consumer

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.given.clear()
        number, start = self.recording.number(), now()
        positions: dict[Partition, int | None] = {(each.topic, each.partition): None for each in partitions}
        try:
            found = consumer.committed(partitions, 10.0)
        except KafkaException as error:
            self.recording.met(f"committed: {error.args[0].name()}")
        else:
            if all(each.error is None for each in found):
                offsets = {(each.topic, each.partition): max(each.offset, NOWHERE) for each in found}
                given = {"client": self.who, "number": number, "start": start, "end": now()}
                self.recording.add(Committed(group=self.group, offsets=offsets, **given))
                positions = {where: max(0, offset) for where, offset in offsets.items()}
                for each in partitions:
                    each.offset = max(0, offsets[each.topic, each.partition])
        self._note(positions)
        consumer.assign(partitions)

    def _revoked(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.given.clear()
        self._note({})

    def _note(self, positions: dict[Partition, int | None]) -> None:
        at = now()
        self.recording.add(
            Assign(client=self.who, number=self.recording.number(), positions=positions, start=at, end=at)
        )

    def note_commit(self, number: int, start: float, outcome: Outcome, transaction: str | None = None) -> None:
        ended = {} if outcome is Outcome.INFO else {"end": now()}
        self.recording.add(
            Commit(
                client=self.who,
                number=number,
                group=self.group,
                offsets=dict(self.given),
                outcome=outcome,
                start=start,
                transaction=transaction,
                **ended,
            )
        )

    @property
    def places(self) -> list[TopicPartition]:
        return [TopicPartition(topic, index, offset) for (topic, index), offset in self.given.items()]


class GroupMember(Grouped):
    """See the docstring of the module."""

    def live(self) -> None:
        consumer = self.subscribed()
        until = now() + self.random.uniform(5, 30)
        try:
            while not self.stop.is_set() and now() < until:
                for record in self.polled(consumer, 0.3, group=self.group):
                    self.given[record.partition] = record.offset + 1
                    self.count += 1
                if self.given:
                    self._commit(consumer)
        finally:
            consumer.close()

    def _commit(self, consumer: Consumer) -> None:
        number, start = self.recording.number(), now()
        try:
            done = consumer.commit(offsets=self.places, asynchronous=False)
        except KafkaException as error:
            # Each attempt may have been another's; only what the last one was told is known.
            self.note_commit(number, start, Outcome.INFO)
            self.recording.met(f"commit of a group: {error.args[0].name()}")
            return
        is_done = all(each.error is None for each in done or ())
        self.note_commit(number, start, Outcome.OK if is_done else Outcome.INFO)
        if is_done:
            self.given.clear()


class Answerer(Grouped):
    """See the docstring of the module."""

    def __init__(self, *client: Any, group: str, topics: Sequence[str], answers: Sequence[Partition]) -> None:
        super().__init__(*client, group=group, topics=topics)
        self.answers = answers
        self.made = 0

    def live(self) -> None:
        producer = transactional(self)
        consumer = self.subscribed()
        try:
            while not self.stop.is_set():
                self.made += 1
                name = f"{self.name}-T{self.made}"
                records = self.polled(consumer, 0.2, group=self.group, transaction=name)
                for record in records:
                    self.given[record.partition] = record.offset + 1
                if not records or not self.given:
                    continue
                if not self._answer(producer, consumer, name, records):
                    # What was not answered is asked for again, by the next incarnation.
                    return
                self.given.clear()
        finally:
            consumer.close()

    def _answer(self, producer: Producer, consumer: Consumer, name: str, records: Sequence[Record]) -> bool:
        transaction = Open(self, producer, name)
        for number, record in enumerate(records):
            partition = self.answers[record.partition[1] % len(self.answers)]
            value = f"{name}-{number}"
            self.send(producer, partition, value, lambda _: None, transaction=name, source=record.value)
        number, start = self.recording.number(), now()
        aborts = self.random.random() < 0.1
        try:
            producer.send_offsets_to_transaction(self.places, consumer.consumer_group_metadata(), ENDLESS_SECONDS)
        except KafkaException as error:
            self.recording.met(f"offsets of a transaction: {error.args[0].name()}")
            self.note_commit(number, start, Outcome.INFO, name)
            aborts = True
        else:
            self.note_commit(number, start, Outcome.OK, name)
        is_committed = transaction.end(aborts=aborts)
        self.count += is_committed
        return is_committed


def start(clients: Sequence[Client]) -> None:
    for client in clients:
        client.thread.start()


def stop(clients: Sequence[Client]) -> list[str]:
    """Have all end. Of those that do not, since a call of theirs never returns: the name and the call."""
    for client in clients:
        client.stop.set()
    deadline = now() + 2 * ENDLESS_SECONDS
    for client in clients:
        client.thread.join(max(0.0, deadline - now()))
    return [f"{client.name} does not end: {_place(client.thread)}" for client in clients if client.thread.is_alive()]


def _place(thread: threading.Thread) -> str:
    """Where it is, from the outermost call to the innermost."""
    frame = sys._current_frames().get(thread.ident or 0)
    calls = [f"{each.name}:{each.lineno}" for each in traceback.extract_stack(frame) if each.filename == __file__]
    return " > ".join(calls)


def without_progress(clients: Sequence[Client], seconds: float) -> list[str]:
    """The clients that get nothing done within this time, now that nothing goes wrong any more, or have failed."""
    before = {client.name: client.count for client in clients}
    deadline = now() + seconds
    waiting = [*clients]
    while waiting and now() < deadline and not any(client.failure for client in waiting):
        time.sleep(0.05)
        waiting = [client for client in waiting if client.count == before[client.name]]
    return [f"{client.name}: {client.failure or 'nothing done'}" for client in waiting]
