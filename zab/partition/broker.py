"""A broker without its surroundings: clients, replicas and, on one of the brokers, the controller.

    step(now, wall, inputs) -> effects      one turn
    next_deadline()                         when the next one is due although nothing happens

Its life: the coordination service is found, the broker registers, its logs are opened and recovered, and from then on
it does what the controller says. Clients are answered from the beginning, at first that the broker leads nothing.

A turn takes its inputs in order, then does once what they made necessary: marks rise, and requests are looked at that
wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from zab.kafka.api_key import ApiKey
from zab.kafka.primitives import Uuid
from zab.partition.controller import effects as of_controller
from zab.partition.controller.controller import Controller
from zab.partition.controller.coordination import Connected, Expired, Results, Submit, Suspended, WatchFired
from zab.partition.controller.requests import Answer
from zab.partition.controller.requests import Request as ControllerRequest
from zab.partition.events import Effects, FromCoordination, Input, LogsOpened, LogsRefused, RecordFound
from zab.partition.image.cluster_image import ClusterImage, Topic
from zab.partition.image.from_controller import image_after
from zab.partition.log.checkpoints import MetaProperties, TopicPartition
from zab.partition.log.directory import LogDirectory
from zab.partition.log.file_effects import Confirmed, Failed, Token
from zab.partition.log.log import Log
from zab.partition.purgatory.purgatory import Purgatory
from zab.partition.replica.record_search import Found, RecordSearch
from zab.partition.replica.replica import Replica
from zab.partition.requests.asking_controller import AskingController
from zab.partition.requests.connection import ClientConnection, Closing
from zab.partition.requests.dispatch import Dispatch
from zab.partition.requests.fetch import Fetching, FetchRequests
from zab.partition.requests.metadata import MetadataRequests
from zab.partition.requests.offsets import Deleting, OffsetRequests
from zab.partition.requests.produce import Produced, ProduceRequests
from zab.partition.requests.producer_ids import ProducerIds
from zab.partition.requests.replicas import Replicas
from zab.partition.requests.request import Request
from zab.partition.requests.topics import TopicRequests

NEVER = 1 << 62
AT_ONCE_MS = 0


class Broker:
    """One broker. Times are monotonic ms; `wall` is ms since 1970."""

    def __init__(self, config: BrokerConfig, controller: Controller, rng: Random, now: int) -> None:
        self.config = config
        self.image = ClusterImage()
        self.id = config.broker.broker_id
        self.epoch = -1
        self.replicas = Replicas(lambda: self.image)
        self._controller = controller
        self._rng = rng
        self._now = now
        self._wall = 0
        self._effects = Effects()
        self._clients: dict[ClientConnection, None] = {}
        """Longest silence first."""
        self._purgatory: Purgatory[Produced | Fetching | Deleting] = Purgatory(now)
        self._waiting: dict[ClientConnection, dict[Waiting[Produced | Fetching | Deleting], None]] = {}
        self._searches: dict[int, Callable[[Found | ErrorCode], None]] = {}
        self._search_count = 0
        self._touched: dict[Replica, None] = {}
        """Replicas whose marks may rise."""
        self._to_controller: list[ControllerInput] = []
        self._logs = ReplicaLogs(config)
        self._ready: dict[ClientConnection, None] = {}
        self._asking = AskingController()
        self._producer_ids = ProducerIds(self._asking)
        self._dispatch = Dispatch(self._handlers(), self._ready)
