"""Several whole brokers without a host, over one tree of znodes, with links that the test cuts.

    rig = SeveralBrokers()              brokers 1 to 3, registered; 1 is the controller
    rig.brokers[2].client()             as for `OneBroker`
    rig.create("t")                     a topic with a replica on each
    rig.cut(1, 2), rig.heal()           no link between these two, until it is healed
    rig.crash(1), rig.start(1)          its session ends with it

Everything happens in order and at once; time passes when the test says so.
"""

from __future__ import annotations

from itertools import count

from tests.partition.one_broker import LISTENER, OneBroker, a_batch, produce
from zab.coordination.driver import WatchFired
from zab.kafka.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from zab.partition.controller.znodes import Broker as RegisteredBroker
from zab.partition.links.messages import (
    DialFailed,
    FollowerAnswered,
    LinkDown,
    LinkReceived,
    LinkUp,
    decode,
    encode,
)
from zab.simulator.coordination.znode_tree import ZnodeTree

ROUNDS_MAX = 20_000
LINES = "offsets.topic.num.partitions=2\ngroup.initial.rebalance.delay.ms=0\n"


class SeveralBrokers:
    """See the docstring of the module."""

    def __init__(self, how_many=3, lines=LINES):
        self.now = 1000
        self.tree = ZnodeTree()
        self.links = Links(self)
        self.lines = lines
        self.brokers = {}
        self.disks = {}
        self.sent = []
        """Every message that was sent over a link, with its sender and receiver."""
        for broker_id in range(1, how_many + 1):
            self.start(broker_id)

    def start(self, broker_id):
        """Begin the next life of a broker, with the disk that it had."""
        self.brokers[broker_id] = Member(self, broker_id)
        self.run()
        return self.brokers[broker_id]

    def crash(self, broker_id, random=None):
        """A broker ends, and its session; with `random`, its disk loses what was not synced."""
        broker = self.brokers.pop(broker_id)
        self.disks[broker_id] = broker.disk
        if random is not None:
            broker.disk.crash(random)
        broker.files.close()
        self.links.lose_all(broker_id)
        self.tree.end_session(broker.session)
        self.run()

    def stop(self, broker_id):
        """A broker stops cleanly."""
        broker = self.brokers.pop(broker_id)
        self.disks[broker_id] = broker.disk
        broker.stop()
        self.links.lose_all(broker_id)
        self.run()

    def run(self):
        """Take turns until nobody has anything to do."""
        for _ in range(ROUNDS_MAX):
            self.tell_watches()
            busy = [each for each in self.brokers.values() if each.is_busy]
            if not busy:
                return
            for broker in busy:
                broker.one_turn()
        raise AssertionError("the brokers never come to rest")

    def tell_watches(self):
        for session, path in self.tree.fired:
            for broker in self.brokers.values():
                if broker.session == session:
                    broker.answers.append(WatchFired(path))
        self.tree.fired.clear()

    def pass_time(self, ms):
        """Take the turns that are due meanwhile."""
        until = self.now + ms
        while True:
            deadline = min((each.broker.next_deadline() for each in self.brokers.values()), default=until)
            if deadline > until:
                break
            self.now = max(self.now + 1, deadline)
            self.run()
        self.now = until
        self.run()

    def cut(self, one, other):
        self.links.cut(one, other)
        self.run()

    def heal(self):
        self.links.severed.clear()
        self.pass_time(2000)

    def create(self, name, replicas=(1, 2, 3), **settings):
        """Create a topic with one partition, led by the first of these."""
        assignment = (CreatableReplicaAssignment(partition_index=0, broker_ids=tuple(replicas)),)
        configs = tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in settings.items()
        )
        topic = CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=assignment, configs=configs
        )
        [result] = self.controller.client().ask(CreateTopicsRequest(topics=(topic,)), 7).topics
        assert not result.error_code, result

    @property
    def controller(self):
        [one] = [each for each in self.brokers.values() if each.broker._controller.state.is_active]
        return one

    def leader(self, topic, index=0):
        """The broker that leads the partition, as it says itself, in the newest epoch."""
        led = [each for each in self.brokers.values() if (r := each.replica(topic, index)) is not None and r.leader]
        return max(led, key=lambda each: each.replica(topic, index).leader.epoch)

    def state(self, topic, index=0):
        return self.leader(topic, index).replica(topic, index).leader

    def produce(self, topic, *values, acks=-1, timeout_ms=1000):
        """What a produce at the leader is answered, or None."""
        client = self.leader(topic).client()
        client.send(produce(topic, a_batch(*values), acks=acks, timeout_ms=timeout_ms), 9)
        found = client.answers()
        return found[0].responses[0].partition_responses[0] if found else None

    def bytes_of(self, broker_id, topic, index=0):
        """All records of a replica, as its disk has them."""
        broker = self.brokers[broker_id]
        log = broker.replica(topic, index).log
        assert log.written_end == log.log_end
        return b"".join(bytes(broker.disk.read(each.path, 0, each.size)) for each in log.segments)


class Links:
    """Pairs of ends, each a number; the receiver's end is the sender's, negative."""

    def __init__(self, rig):
        self.rig = rig
        self.severed = set()
        self.ends = {}
        """The broker at each end, and that at the other."""
        self._numbers = count(1)

    def dial(self, own, other):
        brokers = self.rig.brokers
        if other not in brokers or frozenset((own, other)) in self.severed:
            brokers[own].answers.append(DialFailed(other))
            return
        number = next(self._numbers)
        self.ends[number], self.ends[-number] = (own, other), (other, own)
        brokers[own].answers.append(LinkUp(number, other, False))
        brokers[other].answers.append(LinkUp(-number, own, True))

    def send(self, number, message):
        if number in self.ends:
            own, other = self.ends[number]
            self.rig.sent.append((own, other, message))
            self.rig.brokers[other].answers.append(LinkReceived(-number, decode(encode(message))))

    def lose(self, number):
        for end in (number, -number):
            own, _ = self.ends.pop(end, (None, None))
            if own in self.rig.brokers:
                self.rig.brokers[own].answers.append(LinkDown(end))

    def lose_all(self, broker_id):
        for number in [each for each, (own, _) in self.ends.items() if own == broker_id]:
            self.lose(number)

    def cut(self, one, other):
        self.severed.add(frozenset((one, other)))
        for number in [each for each, pair in self.ends.items() if pair == (one, other)]:
            self.lose(number)


class Member(OneBroker):
    """One of them."""

    def __init__(self, rig, broker_id):
        self.rig = rig
        super().__init__(rig.lines, now=rig.now, broker_id=broker_id, tree=rig.tree)

    def _begin(self):
        if self.config.broker.broker_id in self.rig.disks:
            self.disk = self.rig.disks.pop(self.config.broker.broker_id)
        self.rig.brokers[self.config.broker.broker_id] = self
        super()._begin()

    def registered_as(self, broker_id):
        endpoints = (f"{LISTENER}://host{broker_id}:9092", f"REPLICATION://host{broker_id}:9093")
        return RegisteredBroker(broker_id, endpoints, {LISTENER: LISTENER}, previous_epoch=None)

    @property
    def is_busy(self):
        return bool(self.answers) or self.broker.next_deadline() <= self.rig.now

    def turn(self, *inputs):
        self.answers += inputs
        self.rig.run()

    def one_turn(self):
        self.now = self.rig.now
        given = [self.session_lives(), *self.answers]
        self.answers.clear()
        effects = self.broker.step(self.now, self.wall, given)
        self.reports += effects.reports
        self.failure = self.failure or effects.failure
        self._carry_out(effects)
        links = self.rig.links
        for number, message in effects.sends:
            if isinstance(message, FollowerAnswered):
                message = FollowerAnswered((b"".join(map(self._bytes_of, message.pieces)),))
            links.send(number, message)
        for broker_id, endpoint in effects.dials:
            assert endpoint.host == f"host{broker_id}"
            links.dial(self.config.broker.broker_id, broker_id)
        for number, _ in effects.breaks:
            links.lose(number)
        self._send(effects.dirty)

    def tell_watches(self):
        self.rig.tell_watches()
