"""The replicas of this broker: made and deleted as the controller says, and looked after while they are here.

    open(…)         the logs that recovery found
    follow(topics)  a replica for each partition that is given to this broker; settings that have changed
    stop(…)         a replica stops, and goes with its files if they are to be deleted
    stored(token)   the storage has done what a log asked for
    effects_of(…)   what a log asks of the storage, noting when it is to be synced
    keep_up(…)      syncs, checkpoints and retention, when they are due

Data is deleted only because the controller says so by name (`stop`), never because an image lacks a partition. A log
whose topic id is not that of the image belongs to a topic of the same name that was deleted: it is taken out of the way
first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Final

from zab.configuration.fields import LONG_MAX
from zab.kafka.primitives import Uuid
from zab.partition.controller.effects import LEADER_DURING_DELETION, StoppedReplica
from zab.partition.controller.znodes import uuid_bytes
from zab.partition.image.cluster_image import Topic
from zab.partition.image.partition_state import NO_EPOCH, PartitionState
from zab.partition.log.checkpoints import TopicPartition
from zab.partition.log.directory import LogDirectory
from zab.partition.log.file_effects import FileEffect, Token
from zab.partition.log.log import Log
from zab.partition.replica.replica import Replica
from zab.partition.requests.replicas import Replicas
from zab.partition.session_rule import SessionRule
from zab.partition.settings.broker_config import BrokerConfig
from zab.partition.settings.topic_settings import InvalidSettingError, TopicSettings

NEVER: Final = 1 << 62


class LocalReplicas:
    """See the docstring of the module. Only the broker calls it."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: Replicas,
        session: SessionRule,
        rng: Random,
        touched: Callable[[Replica], None],
        now: int,
    ) -> None:
        self.effects: list[FileEffect] = []
        """Changes of files besides those of the logs themselves; the broker empties it."""
        self.notes: list[str] = []
        """Sentences for the journal; the broker empties it."""
        self.gone: list[str] = []
        """Directories whose names may soon be those of other logs; the broker empties it."""
        self.failure: str | None = None
        """The log whose storage failed first, and why."""
        self.defaults = config.topics
        """What holds for topics that say nothing."""
        self._config = config
        self._replicas = replicas
        self._session = session
        self._rng = rng
        self._touched = touched
        self._broker_id = -1
        self._directory: LogDirectory | None = None
        self._found: dict[TopicPartition, tuple[Uuid, Log]] = {}
        """Logs that recovery found and that belong to no replica yet."""
        self._unknown: frozenset[TopicPartition] = frozenset()
        """Partitions with files that do not say which topic they are of: nobody touches them."""
        self._by_directory: dict[str, Replica] = {}
        self._last_token = 0
        """The highest token of a log that was deleted: its storage may still answer."""
        self._removals: list[tuple[int, FileEffect]] = []
        """When which directory is removed for good, the earliest first."""
        self._clean_at = NEVER
        """When the files of deleted segments are to be removed next."""
        self._flushes: list[tuple[int, int, Replica]] = []
        """A heap: when which log is to be synced because of `flush.ms`, and a number that tells them apart."""
        self._to_flush: set[Replica] = set()
        """The replicas in it."""
        self._flush_numbers = count()
        self._checkpoint_at = now + config.logs.checkpoint_ms
        self._marks_at = now + config.logs.high_watermark_checkpoint_ms
        self._retention_at = now + config.logs.retention_check_ms

    @property
    def is_open(self) -> bool:
        """Whether the logs are there."""
        return self._directory is not None

    @property
    def logs(self) -> dict[TopicPartition, Log]:
        """Every log that this broker has, also those that belong to no replica."""
        found = {where: log for where, (_, log) in self._found.items()}
        return found | {TopicPartition(*replica.key): replica.log for replica in self._replicas}

    def open(self, broker_id: int, directory: LogDirectory, logs: Mapping[TopicPartition, tuple[Uuid, Log]]) -> None:
        """The logs are recovered."""
        self._broker_id = broker_id
        self._directory = directory
        self._found = dict(logs)
        self._unknown = frozenset(directory.partitions) - frozenset(logs)

    # ------------------------------------------------------------------------------------------------ as the image says

    def follow(self, topics: Mapping[str, Topic], now: int, wall: int) -> None:
        """Take what the image says about these topics."""
        for topic in topics.values():
            settings = self._settings(topic)
            for index, state in topic.partitions.items():
                where = TopicPartition(topic.name, index)
                if where in self._unknown:
                    self.notes.append(f"{where} has files of nobody knows which topic -> it has no replica here")
                elif self._broker_id in state.replicas:
                    self._take(topic, index, state, settings, now, wall)

    def _settings(self, topic: Topic) -> TopicSettings:
        try:
            return self.defaults.with_changes(topic.changes)
        except InvalidSettingError as error:
            self.notes.append(f"topic {topic.name}: {error} -> it has the settings of the broker")
            return self.defaults

    def _take(
        self, topic: Topic, index: int, state: PartitionState, settings: TopicSettings, now: int, wall: int
    ) -> None:
        replica = self._replicas.get(topic.name, index)
        if replica is not None and replica.topic_id != topic.id:
            self._delete(replica, now)
            replica = None
        if replica is None:
            replica = self._made(topic, index, settings, now, wall)
        replica.log.settings = settings
        replica.take_state(state, now)
        self._session.apply(replica)
        self._touched(replica)

    def _made(self, topic: Topic, index: int, settings: TopicSettings, now: int, wall: int) -> Replica:
        assert self._directory is not None
        where = TopicPartition(topic.name, index)
        topic_id, log = self._found.pop(where, (topic.id, None))
        if log is not None and topic_id != topic.id:
            self.notes.append(f"{where} has the files of another topic of that name -> they are deleted")
            self._delete_files(where, now)
            log = None
        if log is None:
            log = self._directory.create(where, topic.id, settings, wall)
            log.begin_tokens_after(self._last_token)
        replica = Replica(
            self._broker_id, topic.name, topic.id, index, log, lag_max_ms=self._config.replication.lag_max_ms
        )
        self._replicas.add(replica)
        self._by_directory[log.directory] = replica
        return replica

    def stop(self, stopped: StoppedReplica, now: int) -> Replica | None:
        """A replica neither leads nor copies any longer; if its data is to be deleted, this broker has it no longer.
        Another topic of the name, and what the controller has said since, is left alone. The replica that stays."""
        where, topic_id = TopicPartition(*stopped.partition), Uuid(uuid_bytes(stopped.topic_id))
        replica = self._replicas.get(*stopped.partition)
        if replica is not None and replica.topic_id == topic_id:
            epoch = NO_EPOCH if replica.state is None else replica.state.leader_epoch
            if stopped.leader_epoch != LEADER_DURING_DELETION and stopped.leader_epoch < epoch:
                return replica
            if stopped.delete:
                self._delete(replica, now)
                return None
            replica.stop()
            self._touched(replica)
        elif replica is None and stopped.delete and where in self._found and self._found[where][0] == topic_id:
            del self._found[where]
            self._delete_files(where, now)
        return replica

    def _delete(self, replica: Replica, now: int) -> None:
        replica.abdicate()
        self._touched(replica)
        self._replicas.remove(*replica.key)
        del self._by_directory[replica.log.directory]
        self.effects += replica.log.take_effects()
        self._last_token = max(self._last_token, replica.log.last_token)
        self._delete_files(TopicPartition(*replica.key), now)

    def _delete_files(self, where: TopicPartition, now: int) -> None:
        assert self._directory is not None
        self.gone.append(str(where))
        at_once, later = self._directory.deletion(where, self._rng.randbytes(16))
        self.effects.append(at_once)
        self._removals.append((now + self._config.topics.file_delete_delay_ms, later))

    # ---------------------------------------------------------------------------------------------------------- storage

    def stored(self, token: Token, failure: str | None) -> None:
        """What a log asked for is done, or its storage failed."""
        replica = self._by_directory.get(token.directory)
        if replica is None:
            return
        if failure is None:
            replica.log.confirmed(token)
        else:
            replica.log.failed(failure)
            self.notes.append(f"{token.directory} is not used any longer: {failure}")
            self.failure = self.failure or f"the storage of {token.directory} failed: {failure}"
        self._touched(replica)

    def effects_of(self, replica: Replica, now: int) -> list[FileEffect]:
        """What the log of this replica asks of the storage; with `flush.ms`, note by when it is to be synced.

        What was asked for before goes first: the files of another topic of the name are out of the way."""
        log = replica.log
        effects, self.effects = [*self.effects, *log.take_effects()], []
        if log.settings.flush_ms < LONG_MAX and log.is_dirty and replica not in self._to_flush:
            self._to_flush.add(replica)
            heappush(self._flushes, (now + log.settings.flush_ms, next(self._flush_numbers), replica))
        return effects

    def _flush(self, now: int) -> None:
        """Sync the logs whose oldest batch that is not synced has waited for `flush.ms`."""
        while self._flushes and self._flushes[0][0] <= now:
            replica = heappop(self._flushes)[-1]
            self._to_flush.remove(replica)
            if replica.log.failure is None and self._replicas.get(*replica.key) is replica:
                replica.log.flush_all()
                self._touched(replica)

    def next_deadline(self) -> int:
        """When `keep_up` has something to do."""
        removal = self._removals[0][0] if self._removals else NEVER
        flush = self._flushes[0][0] if self._flushes else NEVER
        due = (self._checkpoint_at, self._marks_at, self._retention_at, self._clean_at, removal, flush)
        return min(due) if self.is_open else NEVER

    def keep_up(self, now: int, wall: int) -> None:
        """Do what is due."""
        if self._directory is None or now < self.next_deadline():
            return
        while self._removals and self._removals[0][0] <= now:
            self.effects.append(self._removals.pop(0)[1])
        self._flush(now)
        if now >= self._retention_at:
            self._retention_at = now + self._config.logs.retention_check_ms
            self._retain(now, wall)
        if now >= self._clean_at:
            self._clean_at = NEVER
            self._clean(wall)
        if now >= self._checkpoint_at:
            self._checkpoint_at = now + self._config.logs.checkpoint_ms
            self.effects.append(self._directory.save_recovery_points(self.logs))
            self.effects.append(self._directory.save_log_starts(self.logs))
            self._flush_closed()
        if now >= self._marks_at:
            self._marks_at = now + self._config.logs.high_watermark_checkpoint_ms
            self.effects.append(self._directory.save_high_watermarks(self.logs))

    def _flush_closed(self) -> None:
        """Sync the segments that are no longer written to: the next recovery points are above them."""
        for replica in self._replicas:
            if replica.log.failure is None:
                replica.log.flush()
                self._touched(replica)

    def save_cleaned_ends(self) -> None:
        """Logs were compacted: write down how far."""
        assert self._directory is not None
        self.effects.append(self._directory.save_cleaned_ends(self.logs))

    def _retain(self, now: int, wall: int) -> None:
        before_ms = wall - self._config.logs.producer_id_expiration_ms
        for replica in self._replicas:
            log = replica.log
            if log.failure is None:
                if log.apply_retention(wall):
                    self._clean_at = min(self._clean_at, now + log.settings.file_delete_delay_ms)
                log.producers.expire(before_ms)
                self._touched(replica)

    def _clean(self, wall: int) -> None:
        for replica in self._replicas:
            replica.log.remove_deleted(wall)
            self._touched(replica)

    # ---------------------------------------------------------------------------------------------------------- the end

    def close(self) -> list[FileEffect]:
        """Close the logs: what that writes."""
        effects: list[FileEffect] = []
        for log in self.logs.values():
            if log.failure is None:
                log.close()
                effects += log.take_effects()
        return effects

    def clean_shutdown(self, broker_epoch: int) -> list[FileEffect]:
        """What is written last, once everything else is confirmed; nothing if some log is not as it should be."""
        logs = self.logs
        if self._directory is None or any(log.failure is not None for log in logs.values()):
            return []
        return self._directory.clean_shutdown(logs, broker_epoch)
