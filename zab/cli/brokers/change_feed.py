"""`zab changes --to-topic TOPIC`: every change of the tree becomes a record, exactly once, also across `kill -9`.

A transaction of Kafka's protocol has the records of some changes, and the place in the feed after them, which is
committed like the offset of a group of consumers: both are there, or neither. So a command that begins again goes on
after the last change whose record is committed. Idempotence alone would not do: a producer that begins again is a new
one to the brokers, and sends again what it does not know to be there.

    key         the path, so that all changes of a znode are in one partition, in order
    value       the object that `zab changes --json` prints; or (`--values data`) the data, and nothing for a delete
    headers     zab.kind, zab.zxid, zab.part, zab.session, zab.version
    timestamp   when the leader made the change

The place is the metadata of the offset that the group named by the feed (`--feed`) has in partition 0 of the topic; the
offset is the end of what the feed has written there. The name of the feed is also the transactional id: of two
processes with one name, the second ends the transaction of the first, which is then refused (INVALID_PRODUCER_EPOCH).

Readers need `isolation.level=read_committed`: otherwise they also see what was aborted.

While nothing changes below the prefix, a place that has not moved is committed every KEEP_SECONDS, since brokers forget
offsets after `offsets.retention.minutes`.

Not here: the feed itself (`zab.client.core.changes`), what is kept when (`zab.cli.znodes.publishing`), errors of
brokers (`clients.py`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import trio
import typer
from attrs import define, field, frozen

from zab.cli.brokers.clients import Brokers, carry_out
from zab.cli.brokers.refusals import RefusedError, refused_by
from zab.cli.brokers.topic_describe import offsets_of
from zab.cli.json_form import hexadecimal, json_line
from zab.cli.znodes.caller import Caller, perform
from zab.cli.znodes.json_values import change_fields
from zab.cli.znodes.publishing import Timing, Wanted, below_of, publish
from zab.client import Change, ChangeKind, Client, Place
from zab.client.places import place_fields, place_of
from zab.kafka.errors import ErrorCode

__all__ = ["Publication"]

REQUEST_BYTES_MAX: Final = 16 << 20
"""The largest record; brokers and topics have limits of their own (`max.message.bytes`)."""
KEEP_SECONDS: Final = 3600.0


@frozen(kw_only=True)
class Publication:
    """What is published where. since: where a feed begins that has no place yet; None: now."""

    topic: str
    feed: str
    prefix: str
    since: int | None
    count: int | None
    has_bare_data: bool

    def publish(self, context: typer.Context) -> None:
        """Until Ctrl-C, or for so many changes. Ends the command with the exit code of an error."""
        _publish(context, self)


def _publish(context: typer.Context, wanted: Publication) -> None:
    below = below_of(context, wanted.prefix, "--to-topic")

    def work(brokers: Brokers) -> None:
        settings = {
            "transactional_id": wanted.feed,
            "max_request_size": REQUEST_BYTES_MAX,
            **brokers.producer_settings,
        }
        with brokers.admin() as admin:
            brokers.described(admin, wanted.topic)
            with brokers.producer(**settings) as producer:
                topic = _Topic(wanted, below, brokers, admin, producer)
                perform(context, partial(_follow, topic))

    carry_out(context, work)


async def _follow(topic: _Topic, zk: Client, _caller: Caller) -> None:
    of = topic.wanted
    to = Wanted(to=of.topic, feed=f"feed {of.feed}", prefix=of.prefix, since=of.since, count=of.count)
    await publish(topic, to, zk)


async def _in_thread(act: Any) -> Any:
    """Ctrl-C ends the command at once: what is open is aborted by the next one of this feed, or by its timeout."""
    return await trio.to_thread.run_sync(act, abandon_on_cancel=True)


@define(eq=False)
class _Topic:
    """The topic, and the place that is committed."""

    wanted: Publication
    below: str
    """The prefix with the chroot."""
    _brokers: Brokers
    _admin: Any
    _producer: Any
    _end: int = 0
    """The end of partition 0, as far as this feed has written."""
    timing: Timing = field(factory=lambda: Timing(KEEP_SECONDS))

    async def begin(self) -> Place | None:
        place: Place | None = await _in_thread(self.committed)
        return place

    async def keep(self, changes: Sequence[Change], place: Place) -> None:
        await _in_thread(partial(self.commit, changes, place))

    def committed(self) -> Place | None:
        """Blocks. Ends what another process of this feed has left open; where the feed is. None: it is new. Raises
        RefusedError, KafkaError."""
        self._brokers.patiently(self._producer.init_transactions)
        topic, feed = self.wanted.topic, self.wanted.feed
        offsets = self._brokers.patiently(lambda: self._admin.list_group_offsets(feed))[feed]
        kept = [found for where, found in offsets.items() if (where.topic, where.partition) == (topic, 0)]
        if kept and kept[0].offset >= 0:
            self._end = kept[0].offset
            return self._read(kept[0].metadata)
        if self.wanted.since is None and self._has_records():
            raise RefusedError(
                feed,
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"the feed has no place, and {topic} has records: say with --since where it begins; 0 is all",
            )
        return None

    def _has_records(self) -> bool:
        topic = self.wanted.topic
        described = self._brokers.described(self._admin, topic)
        places = {(topic, each["partition_index"]) for each in described["partitions"]}
        return any(offsets_of(self._admin, places, "LATEST").values())

    def _read(self, text: str) -> Place:
        """The place in the metadata. Raises RefusedError."""
        feed = self.wanted.feed
        again = f"zab group delete {feed} forgets it, and --since says where it begins then"
        try:
            found = json.loads(text)
            place, below = place_of(found), found["prefix"]
        except (ValueError, KeyError, TypeError):
            detail = f"what is committed is no place in a feed: {text[:80]!r}; {again}"
            raise RefusedError(feed, ErrorCode.INVALID_REQUEST, detail) from None
        if below != self.below:
            detail = f"this feed follows {below}: name another one with --feed, or {again}"
            raise RefusedError(feed, ErrorCode.INVALID_REQUEST, detail)
        return place

    def commit(self, changes: Sequence[Change], place: Place) -> None:
        """Blocks. One transaction. Raises RefusedError, KafkaError: then it is not committed, or not known to be."""
        from kafka.errors import KafkaError

        try:
            self._producer.begin_transaction()
            try:
                self._send(changes)
                self._keep(place)
            except (KafkaError, RefusedError):
                with contextlib.suppress(KafkaError):
                    self._producer.abort_transaction()
                raise
            self._producer.commit_transaction()
        except (KafkaError, RefusedError) as error:
            refused = error if isinstance(error, RefusedError) else refused_by(error)
            if refused is not None and refused.code in _FENCED:
                raise RefusedError(self.wanted.feed, refused.code, "another process has this feed now") from None
            raise

    def _send(self, changes: Sequence[Change]) -> None:
        from kafka.errors import KafkaError, MessageSizeTooLargeError

        under_way = []
        for change in changes:
            if self.wanted.has_bare_data and change.kind not in _WITH_STATE:
                continue
            try:
                under_way.append((change, self._producer.send(self.wanted.topic, **self._record(change))))
            except MessageSizeTooLargeError:
                raise RefusedError(_named(change), ErrorCode.MESSAGE_TOO_LARGE) from None
        self._producer.flush()
        for change, future in under_way:
            try:
                found = future.get()
            except KafkaError as error:
                refused = refused_by(error, _named(change))
                raise (error if refused is None else refused) from None
            if found.partition == 0:
                self._end = max(self._end, found.offset + 1)

    def _record(self, change: Change) -> dict[str, Any]:
        if self.wanted.has_bare_data:
            value = None if change.kind is ChangeKind.DELETED else change.data or b""
        else:
            value = json_line(change_fields(change)).encode("utf-8", "surrogateescape")
        return {"key": change.path.encode(), "value": value, "headers": _headers(change), "timestamp_ms": change.time}

    def _keep(self, place: Place) -> None:
        from kafka import TopicPartition
        from kafka.structs import OffsetAndMetadata

        text = json.dumps({**place_fields(place), "prefix": self.below})
        where = TopicPartition(self.wanted.topic, 0)
        self._producer.send_offsets_to_transaction({where: OffsetAndMetadata(self._end, text, -1)}, self.wanted.feed)


_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_WITH_STATE: Final = frozenset({ChangeKind.CREATED, ChangeKind.DATA_CHANGED, ChangeKind.DELETED})
"""An ACL_CHANGED has no data: as a record with bare data it would empty the znode for its readers."""


def _headers(change: Change) -> list[tuple[str, bytes]]:
    said = {
        "zab.kind": change.kind.name,
        "zab.zxid": hexadecimal(change.zxid),
        "zab.part": str(change.part),
        "zab.session": hexadecimal(change.session),
        "zab.version": str(change.version),
    }
    return [(name, value.encode()) for name, value in said.items()]


def _named(change: Change) -> str:
    return f"{change.path} (zxid {change.zxid:#x})"
