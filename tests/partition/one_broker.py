"""One whole broker without a host: a disk that can lose power, a tree of znodes, and clients that the test plays.

rig = OneBroker()               registered, its logs open, the controller
client = rig.client()
client.ask(body, version)       the decoded answer
rig.restart(…)                  the next life of the broker, from what the disk has
"""

from __future__ import annotations

from collections import deque
from random import Random

import attrs

from zab.coordination.driver import Connected, Results, WatchFired
from zab.coordination.operations import Result, ZooKeeperError
from zab.kafka.apis import api_of
from zab.kafka.declare import LAYOUTS
from zab.kafka.frames import decode_response, request_frame
from zab.kafka.headers import RequestHeader
from zab.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from zab.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from zab.kafka.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from zab.kafka.primitives import Uuid
from zab.partition.broker import Broker
from zab.partition.cleaning import clean
from zab.partition.controller.controller import Controller
from zab.partition.controller.registration import Registration
from zab.partition.controller.state import ControllerSettings
from zab.partition.controller.znodes import Broker as RegisteredBroker
from zab.partition.coordinator_log import load_part
from zab.partition.events import LogsOpened, RecordFound, SessionLives
from zab.partition.log.directory import LogDirectory
from zab.partition.log.files import Files
from zab.partition.records.builder import encode_batch
from zab.partition.records.record import Record
from zab.partition.replica.record_search import find_record
from zab.partition.requests.connection import ClientConnection, Closing
from zab.partition.settings.broker_config import read_config
from zab.simulator.coordination.znode_tree import ZnodeTree
from zab.simulator.world.disk import FaultyDisk
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected
from zab.wire.file_slice import FileSlice
from zab.wire.frames import FrameReader

WALL_MS = 1_700_000_000_000
LISTENER = "PLAINTEXT"
SESSION_MS = 6000
LOST = Result(ZooKeeperError.CONNECTIONLOSS)
TURNS_MAX = 1000


class OneBroker:
    """See the docstring of the module. `holds` keeps the storage from answering, for as long as it is true."""

    def __init__(self, lines="", *, now=1000, broker_id=1, tree=None):
        self.config = read_config(f"broker.id={broker_id}\n{lines}")
        self.disk = FaultyDisk()
        self.tree = ZnodeTree() if tree is None else tree
        self.now = now
        self.holds = False
        self.is_cut_off = False
        """Whether it reaches no server of the coordination service."""
        self._clients_count = 0
        self._begin()

    def _begin(self, *, connects=True):
        self.files = Files(self.disk)
        self.answers = deque()
        self.held = deque()
        self.lives_until = self.now
        self.reports = []
        self.audit = []
        self.failure = None
        self.clients = {}
        self.told = {}
        who = self.registered_as(self.config.broker.broker_id)
        topics, broker = self.config.topics, self.config.broker
        settings = ControllerSettings(
            partition_count=broker.partition_count,
            deletes_topics=broker.deletes_topics,
            topic_defaults=topics,
            has_access_lists=self.config.access.rules is not None,
        )
        controller = Controller(Registration(who), settings, Random(1))
        self.broker = Broker(self.config, controller, Random(2), self.now, self.wall, self.disk.free_bytes)
        if connects:
            self.connect()

    def connect(self):
        """It gets a session with the coordination service."""
        self.session = self.tree.begin_session()
        self.turn(Connected(self.session))

    @property
    def wall(self):
        return WALL_MS + self.now

    # ------------------------------------------------------------------------------------------------------- turns

    def turn(self, *inputs):
        """Take turns until nothing is left to do."""
        given = list(inputs)
        for _ in range(TURNS_MAX):
            given += self.answers
            self.answers.clear()
            effects = self.broker.step(self.now, self.wall, [self.session_lives(), *given])
            given = []
            self.reports += effects.reports
            self.audit += effects.audit
            self.failure = self.failure or effects.failure
            self._carry_out(effects)
            self._send(effects.dirty)
            if not self.answers and self.broker.next_deadline() > self.now:
                return
        raise AssertionError("the broker never comes to rest")

    def session_lives(self):
        """What is known of the session, before each turn."""
        if not self.is_cut_off:
            self.lives_until = self.now + SESSION_MS
        return SessionLives(self.lives_until)

    def _carry_out(self, effects):
        self.held += effects.files
        if not self.holds:
            self.answers += self.files.perform(list(self.held))
            self.held.clear()
        for submit in effects.submits:
            if self.is_cut_off:
                self.answers.append(Results(submit.batch, (LOST,) * len(submit.operations)))
                continue
            self.tree.now_ms = self.wall
            results = tuple(self.tree.apply(self.session, each) for each in submit.operations)
            self.answers.append(Results(submit.batch, results))
        self.tell_watches()
        if effects.opens is not None:
            self.answers.append(self._opened(effects.opens))
        self.answers += [load_part(part, self.disk) for part in effects.loads]
        self.answers += [clean(job, self.disk) for job in effects.cleans]
        for token, search in effects.searches:
            self.answers.append(RecordFound(token, find_record(search, self.disk)))

    def registered_as(self, broker_id):
        """What it says about itself."""
        return RegisteredBroker(broker_id, (f"{LISTENER}://host:9092",), {LISTENER: LISTENER})

    def tell_watches(self):
        """Let it know of the watches that have fired."""
        self.answers += [WatchFired(path) for session, path in self.tree.fired if session == self.session]
        self.tree.fired.clear()

    def _opened(self, owner):
        directory = LogDirectory(self.disk, owner)
        logs = {}
        for where in directory.partitions:
            topic_id = directory.topic_id(where)
            logs[where] = Uuid(topic_id), directory.recover(where, topic_id, self.config.topics, self.wall).log
        return LogsOpened(directory, logs, tuple(directory.notes))

    def _send(self, dirty):
        self.told = dirty
        for connection in dirty:
            client = self.clients.get(connection)
            if client is None:
                continue
            client.taken += b"".join(map(self._bytes_of, connection.take_output()))
            if connection.closing:
                client.is_closed = True
                del self.clients[connection]

    def _bytes_of(self, piece):
        if isinstance(piece, FileSlice):
            data = self.disk.read(piece.path, piece.position, piece.length)
            assert len(data) == piece.length, piece
            return data
        return piece

    def let_go(self):
        """The storage does what it was asked for meanwhile."""
        self.holds = False
        self.answers += self.files.perform(list(self.held))
        self.held.clear()
        self.turn()

    def pass_time(self, ms):
        """Take the turns that are due meanwhile."""
        until = self.now + ms
        while (deadline := self.broker.next_deadline()) <= until:
            self.now = max(self.now + 1, deadline)
            self.turn()
        self.now = until
        self.turn()

    # ------------------------------------------------------------------------------------------------------- lives

    def stop(self):
        """Stop cleanly."""
        answers = [*self.answers, *self.files.perform(self.broker.close())]
        self.files.perform(self.broker.clean_shutdown(answers))
        self.files.close()
        self.tree.end_session(self.session)
        self.tree.fired.clear()

    def restart(self, *, crashes=None, connects=True):
        """Begin the next life: after a clean stop, or after a loss of power with this `Random`."""
        if crashes is None:
            self.stop()
        else:
            self.disk.crash(crashes)
            self.tree.end_session(self.session)
            self.tree.fired.clear()
        self._begin(connects=connects)

    # ----------------------------------------------------------------------------------------------------- clients

    def client(self, host="10.0.0.1", *, listener=LISTENER):
        """A client that has connected."""
        self._clients_count += 1
        frames = FrameReader(self.config.requests.request_bytes_max)
        connection = ClientConnection(self._clients_count, host, 1234, listener, frames)
        client = Client(self, connection)
        self.clients[connection] = client
        self.turn(ClientConnected(connection))
        return client

    def create(self, name, count=1, **settings):
        """Create a topic with one replica."""
        configs = tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in settings.items()
        )
        topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=(), configs=configs)
        [result] = self.client().ask(CreateTopicsRequest(topics=(topic,)), 7).topics
        assert not result.error_code, result
        return result.topic_id

    def begin_epoch(self, topic, index=0):
        """The controller elects the same leader again."""
        broker, state = self.broker, self.replica(topic, index).state
        later = {"leader_epoch": state.leader_epoch + 1, "partition_epoch": state.partition_epoch + 1}
        known = broker.image.topics[topic]
        changed = attrs.evolve(known, partitions={**known.partitions, index: attrs.evolve(state, **later)})
        broker._metadata.image = broker.image.changed(topics=[changed])
        broker._metadata.follow({topic: changed})
        self.turn()

    def replica(self, topic, index=0):
        return self.broker.replicas.get(topic, index)


class Client:
    """One connection, seen from its other end."""

    def __init__(self, rig, connection):
        self.rig = rig
        self.connection = connection
        self.taken = b""
        self.is_closed = False
        self._asked = deque()
        self._correlation_id = 0

    def send(self, body, version):
        """Send a request, without waiting."""
        key = LAYOUTS[type(body)].key
        self._correlation_id += 1
        self._asked.append((key, version, self._correlation_id))
        self.send_bytes(request_frame(RequestHeader(key, version, self._correlation_id, "test"), body))

    def send_bytes(self, data):
        self.rig.turn(ClientBytes(self.connection, data))

    def answers(self):
        """What has been answered since the last call, decoded, in order."""
        reader = FrameReader(1 << 30)
        payloads = reader.feed(self.taken)
        self.taken = reader.rest()
        found = []
        for payload in payloads:
            key, version, correlation_id = self._asked.popleft()
            told, body = decode_response(key, version, payload)
            assert told == correlation_id
            assert isinstance(body, api_of(key).response)
            found.append(body)
        return found

    def answers_without(self, number):
        """The answers, where the request of this number (from 0) has none."""
        del self._asked[number]
        return self.answers()

    def ask(self, body, version):
        """The answer to a request that is answered at once."""
        self.send(body, version)
        [answer] = self.answers()
        return answer

    def leave(self):
        """Close the connection."""
        del self.rig.clients[self.connection]
        self.rig.turn(ClientClosed(self.connection))

    def is_cut_off(self):
        """Whether the broker has closed it."""
        return self.is_closed or self.connection.closing is not Closing.NO


# ------------------------------------------------------------------------------------------------------------ requests


def a_batch(*values, timestamp=WALL_MS, **options):
    """A batch of these values, as a producer sends it."""
    records = [Record(offset, timestamp, None, value) for offset, value in enumerate(values)]
    return encode_batch(records, **options)


def produce(topic, batch, *, index=0, acks=-1, timeout_ms=1000, transactional_id=None):
    data = PartitionProduceData(index=index, records=batch)
    topics = (TopicProduceData(name=topic, partition_data=(data,)),)
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def metadata(*names, **others):
    return MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in names), **others)
