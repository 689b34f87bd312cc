"""A broker without its surroundings: clients, replicas and, on one of the brokers, the controller.

    step(now, wall, inputs) -> effects      one turn
    next_deadline()                         when the next one is due although nothing happens

Its life: the coordination service is found, the broker registers, its logs are opened and recovered, and from then on
it does what the controller says. Clients are answered from the beginning, at first that the broker leads nothing.

A turn takes its inputs in order, then does once what they made necessary: marks rise, what is to be stored is handed
out, and requests are looked at that wait for it.

Other brokers are met over links (`neighbours`): followers fetch here, this broker fetches from leaders, and controllers
tell what they have decided, wherever they are.

Not here: the connections of clients and their limits (`clients`), those of followers (`followers`), what waits
(`waiting_requests`), what becomes of what the controller says (`own_controller`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from zab.coordination.driver import Expired
from zab.kafka.api_key import ApiKey
from zab.kafka.errors import ErrorCode
from zab.partition.access.authorizer import Authorizer
from zab.partition.access.users import Users
from zab.partition.cleaning import Cleaned, Cleaning
from zab.partition.clients import Clients
from zab.partition.consumer_groups.heartbeat import Rules
from zab.partition.controller.controller import Controller
from zab.partition.controller.effects import ToBroker
from zab.partition.controller.requests import Input as ControllerInput
from zab.partition.coordinator_log import PartLoaded, Surroundings
from zab.partition.coordinators import Coordinators
from zab.partition.events import Effects, Input, LogsOpened, LogsRefused, RecordFound, SessionLives
from zab.partition.figures import BrokerView
from zab.partition.followers import FOLLOWERS_ASK, Followers
from zab.partition.giving_away import GivingAway
from zab.partition.guards.guards import guards_of
from zab.partition.image.cluster_image import ClusterImage
from zab.partition.links.arrivals import Arrivals
from zab.partition.links.messages import DialFailed, LinkDown, LinkReceived, LinkUp
from zab.partition.local_replicas import LocalReplicas
from zab.partition.log.checkpoints import MetaProperties
from zab.partition.log.file_effects import Confirmed, Failed, FileEffect
from zab.partition.metadata_publisher import MetadataPublisher
from zab.partition.meters.meters import Meters
from zab.partition.neighbours import Neighbours, Taking
from zab.partition.own_controller import NOT_REGISTERED, OwnController
from zab.partition.proposals import Proposals
from zab.partition.quotas.client_quotas import THROTTLE_MS_MAX, ClientQuotas
from zab.partition.replica.fetcher import Fetchers
from zab.partition.replica.replica import Replica
from zab.partition.requests.acls import AclRequests
from zab.partition.requests.asking_controller import AskingController
from zab.partition.requests.asking_coordinators import AskingCoordinators
from zab.partition.requests.audit import ADMINISTRATIVE, record_of
from zab.partition.requests.client_quotas import ClientQuotaRequests
from zab.partition.requests.configs import BrokerChanges, ConfigRequests
from zab.partition.requests.dispatch import AuditedBy, Dispatch, Handler
from zab.partition.requests.fetch import FetchRequests
from zab.partition.requests.fetch_sessions import FetchSessions
from zab.partition.requests.follower_connection import FollowerConnection
from zab.partition.requests.login import LoginRequests
from zab.partition.requests.metadata import MetadataRequests
from zab.partition.requests.mutation_quotas import MutationQuotas
from zab.partition.requests.offsets import OffsetRequests
from zab.partition.requests.permissions import Permissions
from zab.partition.requests.placement import PlacementRequests
from zab.partition.requests.produce import ProduceRequests
from zab.partition.requests.producer_ids import ProducerIds
from zab.partition.requests.record_searches import RecordSearches
from zab.partition.requests.replicas import Replicas
from zab.partition.requests.request import Ready, Request
from zab.partition.requests.scram_users import ScramUserRequests
from zab.partition.requests.throttling import Throttling
from zab.partition.requests.topics import TopicRequests
from zab.partition.session_rule import SessionRule
from zab.partition.settings.broker_config import BrokerConfig
from zab.partition.transactions.marker import Marker, MarkerDone
from zab.partition.transactions.requests import Verify
from zab.partition.waiting_requests import Operation, WaitingRequests
from zab.service.audit import Record
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected

NEVER: Final = 1 << 62


class Broker:
    """One broker. Times are monotonic ms; `wall` is ms since 1970."""

    def __init__(
        self,
        config: BrokerConfig,
        controller: Controller,
        rng: Random,
        now: int,
        wall: int,
        free_bytes: Callable[[], int],
        secret: bytes = b"",
        clock_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        """`free_bytes`: how much more the disk takes. `secret`: what all brokers have; empty: nothing. `clock_ns`: the
        time that goes on within a turn; by default it stands still."""
        self.config = config
        self.id = self.epoch = NOT_REGISTERED
        self.cluster_id = ""
        self.replicas = Replicas(lambda: self._metadata.image)
        self._session = SessionRule(self.replicas, self._touch)
        self._local = LocalReplicas(config, self.replicas, self._session, rng, self._touch, now)
        self._controller = controller
        self._now = now
        self._wall = wall
        self._effects = Effects()
        self.meters = Meters()
        self._waiting = WaitingRequests(now)
        self._searches = RecordSearches()
        self._touched: dict[Replica, None] = {}
        """Replicas to which something happened in this turn."""
        self._ready: Ready = {}
        self._asking = AskingController()
        self._asking_coordinators = AskingCoordinators(lambda: self.id)
        self._producer_ids = ProducerIds(self._asking)
        changes = BrokerChanges()
        self._configs = ConfigRequests(config, changes, lambda: self._metadata.image, lambda: self.id, self._asking)
        self._topics = TopicRequests(self._asking, lambda: self._metadata.image, self._configs.of_new_topic)
        of_logs = Surroundings(self.replicas, self._asking, lambda: self._metadata.image, self._touch)
        self._coordinators = Coordinators(
            *(config, of_logs, self._producer_ids, self._asking_coordinators, rng, now, self._wall)
        )
        self._users = Users(config.plain_users, rng, secret)
        self._logins = LoginRequests(config, self._users, rng, now, self._audit)
        is_read = self._coordinators.is_reading
        self._cleaning = Cleaning(config.cleaner, self.replicas, self._touch, is_read, free_bytes, now)
        rules = config.access.rules
        self._throttling = self._throttles(clock_ns)
        self._quotas = self._throttling.quotas
        authorizer = None if rules is None else Authorizer(rules, lambda: controller.access_lists)
        self._fetch_sessions = FetchSessions(config.requests.fetch_session_slots, rng, lambda: self._now)
        handlers = self._handlers(free_bytes, authorizer)
        audits: dict[int, AuditedBy] = dict.fromkeys(ADMINISTRATIVE, self._audit_answer)
        guards = guards_of(lambda: self._metadata.image)
        permissions = Permissions(authorizer, self._audit)
        dispatch = Dispatch(handlers, self._ready, self.meters, audits, guards, permissions, self._throttling)
        self._clients = Clients(config.requests, self._logins, dispatch, self._waiting)
        self._stand_among_others(handlers, changes, now)

    def _stand_among_others(self, handlers: Mapping[int, Handler], changes: BrokerChanges, now: int) -> None:
        """Make what has to do with other brokers and the controller."""
        config, replication = self.config, self.config.replication
        of_followers = Dispatch({key: handlers[key] for key in FOLLOWERS_ASK}, self._ready, self.meters)
        self._followers = Followers(of_followers, self._waiting)
        self._fetchers = Fetchers(replication, self._who, self._touch)
        self._metadata = MetadataPublisher(
            *(config.topics, changes, self.replicas, self._local, self._fetchers, self._coordinators),
            *(self.meters, self._users, self._quotas.limits),
        )
        self._arrivals = Arrivals()
        self._proposals = Proposals(self._asking, self._who, self._touch, replication.lag_max_ms, now)
        self._giving_away = GivingAway(replication, self._asking, self._who, self._has_others)
        asking = self._asking, self._asking_coordinators
        self._neighbours = Neighbours(
            *(replication, self, self._followers, self._who, *asking, self._fetchers, self._arrivals)
        )
        self._own_controller = OwnController(
            *(self._controller, self._who, self._asking, self._arrivals, self._metadata, self._local, self._clients),
            *(self._neighbours, self._registered, self._settle),
        )
        self._coordinators.markers.elsewhere = self._neighbours.write_marker

    @property
    def image(self) -> ClusterImage:
        """What this broker knows of the cluster."""
        return self._metadata.image

    def _audit(self, record: Record) -> None:
        if self.config.audit.enabled:
            self._effects.audit.append(record)

    def _throttles(self, clock_ns: Callable[[], int]) -> Throttling:
        quotas = self.config.quotas
        throttle_ms_max = min(THROTTLE_MS_MAX, self.config.requests.idle_ms // 2)
        return Throttling(
            ClientQuotas(quotas.windows_count, quotas.window_seconds * 1000, throttle_ms_max),
            clock_ns,
            lambda connection, wait_ms: self._clients.mute(connection, wait_ms, self._now),
        )

    def _audit_answer(self, request: Request, answer: Any) -> None:
        self._audit(record_of(request, answer))

    def _who(self) -> tuple[int, int]:
        return self.id, self.epoch

    def _handlers(self, free_bytes: Callable[[], int], authorizer: Authorizer | None) -> dict[int, Handler]:
        broker, requests = self.config.broker, self.config.requests
        creates = self._topics.create_on_the_way if broker.creates_topics else None
        metadata = MetadataRequests(lambda: self._metadata.image, creates)
        produce = ProduceRequests(
            *(self.replicas, lambda: self._wall, self._wait, self._touch),
            *(self._coordinators.verification, requests.queued_bytes_max),
        )
        fetch = FetchRequests(
            *(self.replicas, lambda: self._metadata.image, self._wait, requests.fetch_bytes_max),
            lambda: self._now,
            self._touch,
            self._fetch_sessions,
        )
        offsets = OffsetRequests(self.replicas, self._searches.begin, self._wait, self._touch)
        mutations = MutationQuotas(self._throttling, lambda: self._metadata.image, broker.partition_count)
        placement = PlacementRequests(self._asking, self.replicas, broker.log_directory, free_bytes)
        return {
            ApiKey.PRODUCE: produce.produce,
            ApiKey.FETCH: fetch.fetch,
            ApiKey.METADATA: metadata.metadata,
            ApiKey.DESCRIBE_CLUSTER: metadata.describe_cluster,
            ApiKey.LIST_OFFSETS: offsets.list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
            ApiKey.DELETE_RECORDS: offsets.delete_records,
            ApiKey.CREATE_TOPICS: mutations.create(self._topics.create),
            ApiKey.CREATE_PARTITIONS: mutations.create_partitions(self._topics.create_partitions),
            ApiKey.DELETE_TOPICS: mutations.delete(self._topics.delete),
            ApiKey.DESCRIBE_CONFIGS: self._configs.describe,
            ApiKey.ALTER_CONFIGS: self._configs.alter,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self._configs.alter_incrementally,
            ApiKey.ELECT_LEADERS: placement.elect_leaders,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: placement.reassign,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: placement.list_reassignments,
            ApiKey.DESCRIBE_LOG_DIRS: placement.describe_log_dirs,
            **self._coordinators.handlers(),
            **self._logins.handlers(),
            **ScramUserRequests(self._users, self._asking).handlers(),
            **ClientQuotaRequests(self._quotas.limits, self._asking).handlers(),
            **AclRequests(authorizer, self._asking).handlers(),
        }

    def view(self) -> BrokerView:
        """What others may look at, between two turns."""
        return BrokerView(
            id=self.id,
            epoch=self.epoch,
            is_open=self._local.is_open,
            is_stopping=self._giving_away.has_begun,
            image=self.image,
            replicas=self.replicas,
            controller=self._controller,
            meters=self.meters,
            waiting=self._waiting,
            proposals=self._proposals,
            fetchers=self._fetchers,
            clients=self._clients,
            fetch_sessions=self._fetch_sessions,
            quotas=self._quotas,
            logins=self._logins,
            coordinators=self._coordinators,
            cleaning=self._cleaning,
        )

    # ----------------------------------------------------------------------------------------------------------- a turn

    def step(self, now: int, wall: int, inputs: Sequence[Input]) -> Effects:
        """Take one turn."""
        self._now, self._wall = now, wall
        self._logins.now = self.meters.now = self._quotas.now = now
        effects = self._effects = Effects()
        self._metadata.begin(now, wall, effects.reports)
        self._own_controller.begin(now, wall, effects)
        self._asking.now = self._asking_coordinators.now = now
        self._coordinators.advance(now, wall)
        self._keep_session(now, inputs)
        if self._local.is_open:
            self._cleaning.settle(now)
        for given in inputs:
            match given:
                case ClientBytes(connection, data):
                    self._clients.heard(connection, data, now)
                case ClientConnected(connection):
                    self._clients.connected(connection, now)
                case ClientClosed(connection):
                    self._clients.forget(connection)
                case Confirmed(token):
                    self._local.stored(token, None)
                case Failed(token, reason):
                    self._local.stored(token, reason)
                case RecordFound(token, result):
                    self._searches.end(token, result)
                case PartLoaded():
                    self._coordinators.loaded(given)
                case Cleaned():
                    self._cleaning.done(given, now)
                case LogsOpened():
                    self._take_logs(given)
                case SessionLives():
                    pass
                case Expired():
                    self._session_ended()
                    self._own_controller.give(given)
                case LogsRefused(reason):
                    effects.failure = reason
                case LinkUp() | LinkDown() | LinkReceived() | DialFailed():
                    self._neighbours.take(given, now, wall)
                case _:
                    self._own_controller.give(given)
        self._clients.keep_up(now)
        self._local.keep_up(now, wall)
        self._clean(now, wall)
        self._asking.end_late()
        self._asking_coordinators.end_late()
        self._proposals.keep_up(self.replicas, now)
        self._leave_failed_storage()
        self._giving_away.keep_up(now)
        goes_on = True
        while goes_on:
            self._settle()
            self._own_controller.run()
            goes_on = self._let_out()
        self._break_lines()
        self._neighbours.keep_up(now)
        self._gather(effects)
        return effects

    def _leave_failed_storage(self) -> None:
        """Once a log has failed, stop after others lead: they have what this broker cannot store. If there are none,
        go on with the other logs."""
        reason = self._local.failure
        if reason is not None and not self._giving_away.has_begun and self._has_others():
            self._giving_away.begin(partial(self._fail, reason))

    def _has_others(self) -> bool:
        return len(self.image.brokers) > 1

    def _fail(self, reason: str) -> None:
        self._effects.failure = reason

    def _keep_session(self, now: int, inputs: Sequence[Input]) -> None:
        """Lead while the session surely lives."""
        if inputs and isinstance(inputs[0], SessionLives):
            self._session.prove(inputs[0].until_ms)
        if self._session.keep_up(now) and self.replicas:
            lives = "lives: this broker leads again"
            doubt = "may be over: this broker leads nothing until it has lived on, or another one has begun"
            self._effects.reports.append(f"the session {doubt if self._session.is_in_doubt else lives}")
            self._coordinators.follow(self.image.topics)

    def _session_ended(self) -> None:
        self._arrivals.ended_epoch = self.epoch
        self._session.end()
        self._metadata.image = self.image.without_leader(self.id)
        self._coordinators.follow(self.image.topics)

    def _gather(self, effects: Effects) -> None:
        """What the parts ask for."""
        neighbours = self._neighbours
        dials, breaks = neighbours.take_dials()
        effects.dials += dials
        effects.breaks += breaks
        effects.sends += neighbours.sends
        effects.reports += [*neighbours.notes, *self._fetchers.notes]
        neighbours.sends, neighbours.notes = [], []
        self._fetchers.notes.clear()
        effects.dirty, self._clients.dirty = self._clients.dirty, {}
        effects.reports += self._clients.notes
        self._clients.notes = []
        effects.files += self._local.effects
        effects.reports += [*self._local.notes, *self._coordinators.take_notes()]
        effects.loads += self._coordinators.take_loads()
        effects.cleans, self._cleaning.jobs = self._cleaning.jobs, []
        effects.searches, self._searches.begun = self._searches.begun, []
        effects.reports += self._cleaning.notes
        self._cleaning.notes = []
        self._local.effects, self._local.notes = [], []

    def next_deadline(self) -> int:
        """When the next step is due although nothing happens."""
        of_controller = self._controller.deadline_ms
        return min(
            NEVER if of_controller is None else of_controller,
            self._session.next_deadline(),
            self._waiting.next_deadline(),
            self._clients.next_deadline(),
            self._local.next_deadline(),
            self._proposals.next_deadline(),
            self._giving_away.next_deadline(),
            self._neighbours.next_deadline(),
            self._coordinators.next_deadline(),
            self._cleaning.next_deadline() if self._local.is_open else NEVER,
        )

    def _clean(self, now: int, wall: int) -> None:
        """Go on with compaction."""
        if self._local.is_open:
            self._cleaning.keep_up(now, wall)
        if self._cleaning.has_cleaned:
            self._cleaning.has_cleaned = False
            self._local.save_cleaned_ends()

    # ---------------------------------------------------------------------------------------------- clients, followers

    def _let_out(self) -> bool:
        """Send what is ready, and go on with requests that waited for it. True: there were any."""
        ready = list(self._ready)
        self._ready.clear()
        goes_on = False
        for connection in ready:
            if isinstance(connection, FollowerConnection):
                goes_on = self._followers.let_out(connection, self._effects) or goes_on
            else:
                goes_on = self._clients.let_out(connection, self._now) or goes_on
        return goes_on or bool(self._ready)

    def _break_lines(self) -> None:
        """Close the connections whose answers have parts of logs that are deleted, or of files that compaction
        replaces."""
        gone = [*self._local.gone, *self._cleaning.gone]
        self._local.gone, self._cleaning.gone = [], []
        self._clients.break_lines(gone)

    # ------------------------------------------------------------------------------------------------- what has to wait

    def _wait(self, operation: Operation, timeout_ms: int) -> None:
        """Let a request wait for the replicas that it names."""
        self._waiting.wait(operation, self._now + max(0, timeout_ms))

    def _touch(self, replica: Replica) -> None:
        self._touched[replica] = None

    def _settle(self) -> None:
        """Raise marks, hand out what is to be stored, and end the waiting of what can be answered now; then send the
        proposals that came of it."""
        has_settled = True
        while has_settled or self._touched or self._waiting.has_touched:
            touched, self._touched = self._touched, {}
            for replica in touched:
                replica.advance(self._now)
                self._proposals.look(replica, self._now)
                self._effects.files += self._local.effects_of(replica, self._now)
                self._waiting.touch(replica)
            self._coordinators.settle()
            has_settled = self._waiting.settle(self._now)
        self._proposals.send(self._now)

    @property
    def consumer_rules(self) -> Rules:
        """What holds for all groups of KIP-848."""
        return self._coordinators.consumer_rules

    # ------------------------------------------------------------------------------------------ other brokers, its own

    def write_marker(self, marker: Marker, done: MarkerDone) -> None:
        """The coordinator of another broker ends a transaction in a partition that this one leads."""
        self._coordinators.markers.write_here(marker, done)

    def verify(self, asked: Verify) -> tuple[ErrorCode, ...]:
        """Another broker asks the coordinator of a transaction that this one may have."""
        return self._coordinators.verify(asked)

    def to_controller(self, given: ControllerInput) -> None:
        """Another broker asks the controller that this one may be."""
        self._own_controller.give(given)

    def told_by_controller(self, message: ToBroker, number: int, taken: Taking) -> None:
        """The controller is another broker, and says this to this life."""
        self._own_controller.told_by_another(message, number, taken)

    def _registered(self, broker_id: int, broker_epoch: int, cluster_id: str) -> None:
        self.id, self.epoch, self.cluster_id = broker_id, broker_epoch, cluster_id
        self._metadata.image = self.image.changed(cluster_id=cluster_id)
        self._producer_ids.registered(broker_id, broker_epoch)
        if not self._local.is_open:
            self._effects.opens = MetaProperties(broker_id, cluster_id)

    def _take_logs(self, given: LogsOpened) -> None:
        self._local.open(self.id, given.directory, given.logs)
        self._effects.reports += given.notes
        self._own_controller.logs_are_open()

    # ---------------------------------------------------------------------------------------------------------- the end

    def give_leaders_away(self, done: Callable[[], None]) -> None:
        """Have other brokers lead what this one leads, from the next step on; `done` is called when it may stop."""
        self._giving_away.begin(done)

    def close(self) -> list[FileEffect]:
        """Write down all that a clean start trusts. Nothing is stepped any more."""
        self._coordinators.stop()
        return self._local.close()

    def clean_shutdown(self, answers: Iterable[Input]) -> list[FileEffect]:
        """The mark of a clean stop, given all that the storage has answered since the last step; nothing if some log is
        not as it should be."""
        for answer in answers:
            if isinstance(answer, Confirmed):
                self._local.stored(answer.token, None)
            elif isinstance(answer, Failed):
                self._local.stored(answer.token, answer.reason)
        return self._local.clean_shutdown(self.epoch)
