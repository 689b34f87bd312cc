"""Brokers with their controllers over one tree of znodes, from one seed; what is lost, late or expired is drawn.

Each broker has a `Controller` and a session. Its operations are applied one by one, so those of several brokers mix at
any point; the connection can be lost before, between and after them, and the session can expire. Messages to brokers go
over one ordered channel each. A broker keeps an image of the cluster from them; for what it leads it proposes changes
of the ISR.

`Judges` (`judges.py`) sees every write before it is applied.
"""

from __future__ import annotations

from collections import deque
from random import Random

from attrs import define, evolve, field

from zab.coordination.driver import Connected, Expired, Results, Submit, Suspended, WatchFired
from zab.coordination.operations import Operation, Result, ZooKeeperError
from zab.kafka.errors import ErrorCode
from zab.partition.controller.controller import Controller
from zab.partition.controller.effects import (
    Effect,
    Failed,
    PartitionStates,
    PartitionUpdate,
    Registered,
    Reported,
    StopReplica,
    ToBroker,
)
from zab.partition.controller.registration import Registration
from zab.partition.controller.requests import (
    AlterPartition,
    Answer,
    Input,
    PartitionChange,
    Request,
    StopReplicaAnswered,
)
from zab.partition.controller.state import ControllerSettings
from zab.partition.controller.znodes import Broker, TopicPartition
from zab.simulator.coordination.znode_tree import ZnodeTree

SETTINGS = ControllerSettings(partition_count=2, replication_factor=2, balance_interval_ms=3000)


@define
class Image:
    """What a broker knows from the messages of controllers."""

    controller_id: int = -1
    controller_epoch: int = 0
    sequence: int = 0
    live: dict[int, Broker] = field(factory=dict)
    topics: dict[str, str] = field(factory=dict)
    """The name of a topic by its id."""
    partitions: dict[tuple[str, int], PartitionUpdate] = field(factory=dict)
    """By topic id and number."""


@define
class Process:
    """One broker. `pending` are the operations of its present batch that are not applied yet."""

    broker_id: int
    random: Random
    life: int = 0
    controller: Controller | None = None
    session: int = 0
    is_connected: bool = False
    inbox: deque[Input] = field(factory=deque)
    batch: int = 0
    pending: deque[Operation] = field(factory=deque)
    results: list[Result] = field(factory=list)
    is_asking: bool = False
    epoch: int = -1
    """The broker epoch of this life, -1 before it is registered."""
    last_epoch: int | None = -1
    """At the last clean stop; -1 after another one; None if it does not say."""
    image: Image = field(factory=Image)
    reports: list[str] = field(factory=list)
    failure: str | None = None
    is_stopping: bool = False
    """It asked for a controlled shutdown, so it will stop."""

    @property
    def is_up(self) -> bool:
        return self.controller is not None

    @property
    def is_controller(self) -> bool:
        return self.controller is not None and self.controller.state.is_active


class Cluster:
    """brokers: ids 0 to n - 1."""

    def __init__(self, seed: int, brokers: int = 3, settings: ControllerSettings = SETTINGS) -> None:
        self.random = Random(seed)
        self.settings = settings
        self.tree = ZnodeTree()
        self.now_ms = 1_000_000
        self.processes = {each: Process(each, Random(self.random.random())) for each in range(brokers)}
        self.messages: dict[tuple[int, int], deque[ToBroker]] = {}
        """By sender and receiver."""
        self.answers: list[tuple[int, Answer]] = []
        self.effects: list[tuple[int, Effect]] = []
        self.tokens = 0

    # -------------------------------------------------------------------------------------------------------- processes

    def boot(self, broker_id: int) -> None:
        process = self.processes[broker_id]
        assert not process.is_up
        process.life += 1
        broker = Broker(
            broker_id,
            (f"PLAINTEXT://host{broker_id}:9092",),
            {"PLAINTEXT": "PLAINTEXT"},
            previous_epoch=process.last_epoch,
        )
        process.last_epoch, process.epoch, process.image = -1, -1, Image()
        process.session = 0
        process.controller = Controller(Registration(broker), self.settings, process.random)
        self.connect(broker_id)

    def connect(self, broker_id: int) -> None:
        """With the session that it has, or with a new one."""
        process = self.processes[broker_id]
        if process.session not in self.tree.sessions:
            if process.session:
                process.inbox.append(Expired())
            process.session = self.tree.begin_session()
        process.is_connected = True
        process.inbox.append(Connected(process.session))

    def crash(self, broker_id: int, *, clean: bool = False) -> None:
        """clean: its session ends with it."""
        process = self.processes[broker_id]
        if clean:
            process.last_epoch = process.epoch
            self.tree.end_session(process.session)
        process.controller = None
        process.is_connected = process.is_asking = process.is_stopping = False
        process.inbox.clear()
        process.pending.clear()
        for key in [key for key in self.messages if broker_id in key]:
            del self.messages[key]
        if clean:
            process.session = 0

    def lose_connection(self, broker_id: int) -> None:
        """Some of what is under way is applied, and some of that is answered."""
        process = self.processes[broker_id]
        if not process.is_connected:
            return
        if process.is_asking:
            for _ in range(self.random.randint(0, len(process.pending))):
                process.results.append(self._apply(process))
            answered = self.random.randint(0, len(process.results))
            lost = Result(ZooKeeperError.CONNECTIONLOSS)
            count = len(process.results) + len(process.pending)
            results = process.results[:answered] + [lost] * (count - answered)
            process.inbox.append(Results(process.batch, tuple(results)))
            process.pending.clear()
            process.is_asking = False
        process.is_connected = False
        process.inbox.append(Suspended())

    def expire(self, session: int) -> None:
        self.tree.end_session(session)

    # ------------------------------------------------------------------------------------------------------------ moves

    def _apply(self, process: Process) -> Result:
        self.tree.now_ms = self.now_ms
        result = self.tree.apply(process.session, process.pending.popleft())
        self._deliver_watches()
        return result

    def _deliver_watches(self) -> None:
        for session, path in self.tree.fired:
            for process in self.processes.values():
                if process.is_up and process.session == session:
                    process.inbox.append(WatchFired(path))
        self.tree.fired.clear()

    def apply_one(self, broker_id: int) -> bool:
        """Apply one operation of the batch of a broker; with the last one its results arrive."""
        process = self.processes[broker_id]
        if not (process.is_connected and process.is_asking):
            return False
        process.results.append(self._apply(process))
        if not process.pending:
            process.is_asking = False
            process.inbox.append(Results(process.batch, tuple(process.results)))
        return True

    def take(self, broker_id: int, count: int = 1) -> bool:
        """Let a broker take inputs, or only see what time it is."""
        process = self.processes[broker_id]
        if process.controller is None:
            return False
        inputs = [process.inbox.popleft() for _ in range(min(count, len(process.inbox)))]
        if any(isinstance(each, Expired) for each in inputs):
            process.epoch = -1
        effects = process.controller.step(self.now_ms, inputs)
        for effect in effects:
            self._perform(process, effect)
        if process.failure is not None:
            # Its supervisor starts it again.
            process.failure = None
            self.crash(broker_id)
        return bool(inputs or effects)

    def _perform(self, process: Process, effect: Effect) -> None:
        if isinstance(effect, Submit):
            assert not process.is_asking
            process.is_asking, process.batch = True, effect.batch
            process.pending, process.results = deque(effect.operations), []
            if any(isinstance(each, Suspended | Expired) for each in process.inbox):
                # The connection that it is sent on is lost already.
                lost = Result(ZooKeeperError.CONNECTIONLOSS)
                process.inbox.appendleft(Results(process.batch, (lost,) * len(process.pending)))
                process.is_asking = False
                process.pending.clear()
        elif isinstance(effect, ToBroker):
            self.messages.setdefault((process.broker_id, effect.broker_id), deque()).append(effect)
        elif isinstance(effect, Answer):
            self.answers.append((process.broker_id, effect))
        elif isinstance(effect, Registered):
            process.epoch = effect.broker_epoch
        elif isinstance(effect, Reported):
            process.reports.append(effect.text)
        elif isinstance(effect, Failed):
            process.failure = effect.reason
        self.effects.append((process.broker_id, effect))

    def ask(self, broker_id: int, request: Request) -> None:
        if self.processes[broker_id].is_up:
            self.processes[broker_id].inbox.append(request)

    def token(self) -> int:
        self.tokens += 1
        return self.tokens

    # ---------------------------------------------------------------------------------------------------------- brokers

    def deliver(self, sender: int, receiver: int) -> bool:
        """The next message of a channel."""
        channel, process = self.messages.get((sender, receiver)), self.processes[receiver]
        if not channel or (process.is_up and process.epoch < 0):
            return False
        sent, image = channel.popleft(), process.image
        if not process.is_up or sent.broker_epoch != process.epoch or sent.controller_epoch < image.controller_epoch:
            return True
        if sent.controller_epoch > image.controller_epoch:
            image.sequence = 0
        image.controller_epoch, image.controller_id = sent.controller_epoch, sent.controller_id
        if isinstance(sent.message, StopReplica):
            self._stop_replicas(process, sent, sent.message)
        else:
            _update(image, sent.message)
        return True

    def _stop_replicas(self, process: Process, sent: ToBroker, message: StopReplica) -> None:
        deleted = {each.partition: ErrorCode.NONE for each in message.replicas if each.delete}
        if deleted:
            answered = StopReplicaAnswered(process.broker_id, process.epoch, sent.controller_epoch, deleted)
            controller = self.processes[sent.controller_id].controller
            if controller is not None:
                self.processes[sent.controller_id].inbox.append(answered)

    def propose(self, broker_id: int, *, expand: bool) -> bool:
        """One change of an ISR that this broker leads; expand: everybody who is alive has caught up."""
        process = self.processes[broker_id]
        image = process.image
        led = [key for key, each in image.partitions.items() if each.state.leader == broker_id]
        self.random.shuffle(led)
        for topic_id, number in led:
            update = image.partitions[topic_id, number]
            isr = list(update.state.isr)
            if expand:
                isr += [each for each in update.assignment.replicas if each in image.live and each not in isr]
            elif len(isr) > 1:
                isr.remove(self.random.choice([each for each in isr if each != broker_id]))
            if isr == list(update.state.isr) and not update.state.recovering:
                continue
            epochs = tuple((each, image.live[each].epoch if each in image.live else -1) for each in isr)
            change = PartitionChange(number, update.state.leader_epoch, update.state.partition_epoch, epochs)
            if update.state.recovering:
                change = evolve(change, isr=((broker_id, process.epoch),))
            request = AlterPartition(self.token(), broker_id, process.epoch, {topic_id: (change,)})
            self.ask(image.controller_id, request)
            return True
        return False

    # ------------------------------------------------------------------------------------------------------------- calm

    def settle(self, steps_max: int = 20_000) -> None:
        """No faults any longer: let everything happen that is to happen, and no time pass unless nothing else does."""
        for process in self.processes.values():
            if process.is_stopping:
                self.crash(process.broker_id, clean=True)
                self._deliver_watches()
            if not process.is_up:
                self.boot(process.broker_id)
            elif not process.is_connected:
                self.connect(process.broker_id)
        quiet = 0
        for _ in range(steps_max):
            living = {process.session for process in self.processes.values()}
            for session in sorted(self.tree.sessions - living):
                self.expire(session)
                self._deliver_watches()
            moved = [self._settle_one(each) for each in self.processes]
            moved += [self.deliver(*key) for key in list(self.messages)]
            if any(moved):
                quiet = 0
                continue
            proposed = [self.propose(each, expand=True) for each in self.processes]
            if any(proposed):
                continue
            quiet += 1
            self.now_ms += 500
            if quiet > 20:
                return
        raise AssertionError("the cluster does not come to rest")

    def _settle_one(self, broker_id: int) -> bool:
        process = self.processes[broker_id]
        if process.is_connected and process.session not in self.tree.sessions and not process.is_asking:
            self.lose_connection(broker_id)
            self.connect(broker_id)
        applied = self.apply_one(broker_id)
        return self.take(broker_id, 5) or applied

    @property
    def controllers(self) -> list[int]:
        return [each.broker_id for each in self.processes.values() if each.is_controller]

    def active(self) -> Controller:
        """The one controller."""
        (broker_id,) = self.controllers
        controller = self.processes[broker_id].controller
        assert controller is not None
        return controller

    def started(self) -> Cluster:
        """All brokers are up, and one is the controller."""
        for broker_id in self.processes:
            self.boot(broker_id)
        self.settle()
        return self

    def call(self, request: Request) -> Answer:
        """Ask the controller, and let everything happen that follows."""
        self.ask(self.controllers[0], request)
        self.settle()
        return next(answer for _, answer in reversed(self.answers) if answer.token == request.token)

    def partition(self, topic: str, number: int = 0) -> TopicPartition:
        return TopicPartition(topic, number)


def _update(image: Image, message: PartitionStates) -> None:
    if message.is_full:
        image.topics.clear()
        image.partitions.clear()
    else:
        assert message.sequence == image.sequence + 1, f"message {message.sequence} follows {image.sequence}"
    image.sequence = message.sequence
    image.live = {each.id: each for each in message.live_brokers}
    for topic in message.topics:
        image.topics[topic.topic_id] = topic.topic
        for update in topic.partitions:
            key = (topic.topic_id, update.partition)
            image.partitions[key] = update
    for topic_id in message.removed:
        image.topics.pop(topic_id, None)
        for key in [key for key in image.partitions if key[0] == topic_id]:
            del image.partitions[key]
