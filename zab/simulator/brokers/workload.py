"""What clients do besides writing and reading partitions: consumer groups, transactions, and topics with keys.

A seed decides which of these a run has; a scope may name one (`FOCUSES`). Each has topics of its own, which the
administrator does not delete, and which sync what they acknowledge: so everything that was promised has to be there.

    groups          topic g, a producer, and groups that read it
    transactions    topic x, transactional producers, consumers that read committed; often also a group that reads g and
                    writes its results to x
    compaction      topic k, which is compacted; producers that write keys again and again, and consumers of them

Not here: what has to be true (`committed_offsets`, `transactions`, `keys`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Final, TypeVar

import attrs

from zab.simulator.brokers.administrator import TopicPlan
from zab.simulator.brokers.assigned_member import AssignedClient
from zab.simulator.brokers.client import Client, Surroundings
from zab.simulator.brokers.committed_offsets import GroupJudge
from zab.simulator.brokers.committed_reader import CommittedReader
from zab.simulator.brokers.group_client import GroupClient
from zab.simulator.brokers.group_member import AssignedStyle, Style
from zab.simulator.brokers.judge import Key
from zab.simulator.brokers.key_clients import KeyProducer, KeyReader
from zab.simulator.brokers.keys import KeyJudge
from zab.simulator.brokers.producer import ALL, IN_FLIGHT_MAX, Producer
from zab.simulator.brokers.scripted_client import ScriptedClient
from zab.simulator.brokers.transactional_producer import Style as TransactionStyle
from zab.simulator.brokers.transactional_producer import TransactionalProducer
from zab.simulator.brokers.transactions import TransactionJudge
from zab.simulator.brokers.transformer import TransformerClient
from zab.simulator.world.schedule import MS
from zab.simulator.world.verdict import SafetyError

GROUPS: Final = "groups"
TRANSACTIONS: Final = "transactions"
COMPACTION: Final = "compaction"
FOCUSES: Final = (GROUPS, TRANSACTIONS, COMPACTION)
ASSIGNED_SHARE: Final = 0.5
"""How many groups have KIP-848's protocol."""
SHARE: Final = 0.25
"""How many runs have each of them."""
GROUP_TOPIC, TRANSACTION_TOPIC, KEY_TOPIC = "g", "x", "k"
TRANSFORMERS: Final = "transformers"
"""The group of the transformers, and what their transactional ids begin with."""
FOR_EVER: Final = 1 << 60

C = TypeVar("C", bound=ScriptedClient)

Numbers = Iterator[tuple[Surroundings, int, Random, frozenset[int] | None]]
"""What each client is made of."""


@attrs.frozen(kw_only=True)
class Workload:
    """What a seed decides. Times that end in `_us` are microseconds of virtual time."""

    topics: tuple[TopicPlan, ...] = ()
    lines: Mapping[str, object] = attrs.Factory(dict)
    """Settings of every broker."""
    members: tuple[Style, ...] = ()
    producers: tuple[TransactionStyle, ...] = ()
    transformers: tuple[tuple[Style, TransactionStyle], ...] = ()
    key_producers: int = 0
    gap_us: int = 0
    """The average time between two requests of a client."""

    def uses(self, topic: str) -> bool:
        """Whether the run has this topic."""
        return any(each.name == topic for each in self.topics)


def draw(rng: Random, protocols: Random, brokers: int, focus: str = "") -> Workload:
    """The workload of a seed for so many brokers; with a focus it has this and nothing else. `protocols` decides which
    groups have KIP-848's, and what becomes of them; all else of a seed is as it was before there were any."""
    drawn = [each for each in FOCUSES if rng.random() < SHARE]
    has = [focus] if focus else drawn
    members = _members(rng) if GROUPS in has else ()
    members, settings = _assigned(protocols, members)
    producers = _producers(rng) if TRANSACTIONS in has else ()
    transformers = _transformers(rng) if TRANSACTIONS in has and rng.random() < 0.6 else ()
    topics = list[TopicPlan]()
    if members or transformers:
        topics.append(_topic(rng, GROUP_TOPIC, GROUPS, brokers))
    if producers:
        topics.append(_topic(rng, TRANSACTION_TOPIC, TRANSACTIONS, brokers))
    if COMPACTION in has:
        topics.append(_compacted(_topic(rng, KEY_TOPIC, COMPACTION, brokers), rng))
    return Workload(
        topics=tuple(topics),
        lines=_lines(rng) | settings,
        members=members,
        producers=producers,
        transformers=transformers,
        key_producers=rng.randint(1, 2) * (COMPACTION in has),
        gap_us=rng.choice((30, 100)) * MS,
    )


def _topic(rng: Random, name: str, use: str, brokers: int) -> TopicPlan:
    replicas = min(3, brokers)
    settings = {
        "retention.ms": "-1",
        "flush.mode": "batch",
        "segment.bytes": str(rng.choice((8_000, 30_000, 1 << 30))),
        "index.interval.bytes": str(rng.choice((0, 500, 4096))),
        "min.insync.replicas": str(min(replicas, rng.choice((1, 2)))),
    }
    return TopicPlan(name, rng.randint(1, 3), replicas, settings, use=use)


def _compacted(topic: TopicPlan, rng: Random) -> TopicPlan:
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": str(rng.choice((1_500, 4_000))),
        "min.cleanable.dirty.ratio": rng.choice(("0.01", "0.3")),
        "delete.retention.ms": str(rng.choice((0, FOR_EVER))),
        "file.delete.delay.ms": str(rng.choice((0, 1_000))),
    }
    return attrs.evolve(topic, settings={**topic.settings, **settings})


def _lines(rng: Random) -> dict[str, object]:
    return {
        "offsets.topic.num.partitions": rng.choice((1, 2)),
        "offsets.topic.segment.bytes": rng.choice((4_000, 100 << 20)),
        "transaction.state.log.num.partitions": rng.choice((1, 2)),
        "transaction.state.log.segment.bytes": rng.choice((4_000, 100 << 20)),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": rng.choice((500, 2_000)),
        # By the wall clock, which may jump by years.
        "transactional.id.expiration.ms": FOR_EVER,
        "offsets.retention.minutes": (1 << 31) - 1,
        "group.min.session.timeout.ms": 1_000,
        "group.initial.rebalance.delay.ms": rng.choice((0, 500, 3_000)),
        "log.cleaner.backoff.ms": rng.choice((500, 3_000)),
    }


def _members(rng: Random) -> tuple[Style, ...]:
    found = list[Style]()
    for number in range(rng.randint(1, 2)):
        is_cooperative = rng.random() < 0.5
        count = rng.randint(1, 4)
        found += [_member(rng, f"group{number}", member, is_cooperative=is_cooperative) for member in range(count)]
    return tuple(found)


def _member(rng: Random, group: str, number: int, *, is_cooperative: bool) -> Style:
    return Style(
        group=group,
        topics=(GROUP_TOPIC,),
        instance_id=f"i{number}" if rng.random() < 0.4 else None,
        is_cooperative=is_cooperative,
        join_version=rng.choice((5, 9)),
        session_timeout_ms=rng.choice((1_500, 4_000)),
        rebalance_timeout_ms=rng.choice((3_000, 6_000)),
        poll_gap_us=rng.choice((20, 100, 300)) * MS,
    )


def _assigned(rng: Random, members: tuple[Style, ...]) -> tuple[tuple[Style, ...], dict[str, object]]:
    """The members, those of some groups with KIP-848's protocol; and the settings that these need."""
    groups = {each: rng.random() < ASSIGNED_SHARE for each in sorted({each.group for each in members})}
    if not any(groups.values()):
        return members, {}
    session_ms, heartbeat_ms = rng.choice((1_500, 4_000)), rng.choice((200, 500))
    settings: dict[str, object] = {
        "group.consumer.session.timeout.ms": session_ms,
        "group.consumer.heartbeat.interval.ms": heartbeat_ms,
    }
    return tuple(
        _with_assignor(rng, each, session_ms, heartbeat_ms) if groups[each.group] else each for each in members
    ), settings


def _with_assignor(rng: Random, style: Style, session_ms: int, heartbeat_ms: int) -> Style:
    version = rng.choice((0, 1, 1))
    assigned = AssignedStyle(
        version=version,
        heartbeat_ms=heartbeat_ms,
        regex=rng.choice((None, None, f"{GROUP_TOPIC}|later", "[a-j]+")) if version else None,
        assignor=rng.choice((None, None, "uniform", "range")),
    )
    return attrs.evolve(style, session_timeout_ms=session_ms, assigned=assigned)


def _producers(rng: Random) -> tuple[TransactionStyle, ...]:
    return tuple(_of_transactions(rng, f"id{number}") for number in range(rng.randint(1, 3)))


def _of_transactions(rng: Random, transactional_id: str) -> TransactionStyle:
    return TransactionStyle(
        transactional_id=transactional_id,
        topic=TRANSACTION_TOPIC,
        timeout_ms=rng.choice((2_000, 5_000)),
        gap_us=rng.choice((20, 200)) * MS,
        commit_share=rng.choice((0.5, 0.8)),
    )


def _transformers(rng: Random) -> tuple[tuple[Style, TransactionStyle], ...]:
    return tuple(
        (_member(rng, TRANSFORMERS, number, is_cooperative=False), _of_transactions(rng, f"{TRANSFORMERS}.{number}"))
        for number in range(rng.randint(1, 3))
    )


class Work:
    """The clients of a workload, and their judges."""

    def __init__(self, workload: Workload, cluster: Surroundings) -> None:
        self.workload = workload
        self.cluster = cluster
        self.groups = GroupJudge(cluster.judge)
        self.transactions = TransactionJudge(cluster.judge)
        retention = [topic.settings.get("delete.retention.ms") for topic in workload.topics if topic.name == KEY_TOPIC]
        self.keys = KeyJudge(cluster.judge, keeps_tombstones=retention == [str(FOR_EVER)])
        self._clients: list[ScriptedClient] = []
        self._last_reader: CommittedReader | None = None
        """The one that reads at the end; it is not started before."""
        self._writing_ended_at: int | None = None

    # --------------------------------------------------------------------------------------------------------- clients

    def clients(self, numbers: Numbers) -> Sequence[Client]:
        """All of them."""
        work = self.workload
        producers = [self._producer(topic, *next(numbers)) for topic in work.topics if topic.use == GROUPS]
        for style in work.members:
            each = next(numbers)
            kind = GroupClient if style.assigned is None else AssignedClient
            self._clients.append(kind(*each, judge=self.groups, style=style, delay_us=_delay_us(each[2])))
        for transactions in work.producers:
            self._clients.append(TransactionalProducer(*next(numbers), judge=self.transactions, style=transactions))
        for style, transactions in work.transformers:
            each = next(numbers)
            self._clients.append(
                TransformerClient(
                    *each,
                    transaction_judge=self.transactions,
                    transactions=transactions,
                    judge=self.groups,
                    style=style,
                    delay_us=_delay_us(each[2]),
                )
            )
        if work.uses(TRANSACTION_TOPIC):
            topic, judge = TRANSACTION_TOPIC, self.transactions
            self._clients.append(CommittedReader(*next(numbers), judge=judge, topic=topic, gap_us=work.gap_us))
            self._last_reader = CommittedReader(*next(numbers), judge=judge, topic=topic, gap_us=5 * MS, once=True)
        for _ in range(work.key_producers):
            each = next(numbers)
            count = each[2].randint(1, 8)
            self._clients.append(
                KeyProducer(*each, judge=self.keys, topic=KEY_TOPIC, keys_count=count, gap_us=work.gap_us)
            )
        if work.uses(KEY_TOPIC):
            self._clients.append(KeyReader(*next(numbers), judge=self.keys, topic=KEY_TOPIC, gap_us=3 * work.gap_us))
        return [*producers, *self._clients]

    def _producer(
        self, topic: TopicPlan, cluster: Surroundings, number: int, rng: Random, kept: frozenset[int] | None
    ) -> Producer:
        """Writes what groups read."""
        return Producer(
            *(cluster, number, rng, kept),
            topic=topic.name,
            is_idempotent=True,
            acks=ALL,
            is_promised=True,
            in_flight_max=1 if topic.rolls else IN_FLIGHT_MAX,
            gap_us=rng.choice((50, 200)) * MS,
        )

    def keep(self, clients: Collection[Client]) -> None:
        """Only these take part."""
        self._clients = [client for client in self._clients if client in clients]

    # --------------------------------------------------------------------------------------------------------- the end

    def calm_down(self) -> None:
        """The faults are over: from now on clients work towards an end."""
        for client in self._clients:
            client.calm_down()

    def left(self, keys: Mapping[Key, tuple[str, int]]) -> Mapping[str, int]:
        """What is still to be done, by what it is. `keys`: the partitions that there are, with their names."""
        found = self._lags(keys)
        found |= {f"{each.name} runs": each.running_count for each in self._of(TransactionalProducer)}
        found |= {f"{each.name} writes": int(not each.is_done) for each in self._of(KeyProducer)}
        found = {what: count for what, count in found.items() if count}
        if found:
            return found
        if self._writing_ended_at is None:
            self._writing_ended_at = self.cluster.schedule.now
            if self._last_reader is not None:
                self._last_reader.calm_down()
                self._last_reader.start()
        return {
            what: count
            for what, count in {"partitions with transactions": self._unread(keys), "keys": self._unseen(keys)}.items()
            if count
        }

    def _of(self, kind: type[C]) -> list[C]:
        return [client for client in self._clients if isinstance(client, kind)]

    def _lags(self, keys: Mapping[Key, tuple[str, int]]) -> dict[str, int]:
        """How many records each group has not consumed."""
        of_groups = {key: where for key, where in keys.items() if where[0] == GROUP_TOPIC}
        groups = sorted({client.style.group for client in self._of(GroupClient)})
        found = {f"{group} has not consumed": self.groups.lag(group, of_groups) for group in groups}
        assigned = sorted({client.style.group for client in self._of(AssignedClient)})
        owned = self.groups.ownership.unowned
        return found | {f"{group} has without one owner": owned(group, of_groups.values()) for group in assigned}

    def _unread(self, keys: Mapping[Key, tuple[str, int]]) -> int:
        """The partitions with transactions that are not read to their end."""
        if self._last_reader is None:
            return 0
        wanted = {index for name, index in keys.values() if name == TRANSACTION_TOPIC}
        readings = self._last_reader.readings
        return sum(index not in readings or not readings[index].is_at_end for index in wanted)

    def _unseen(self, keys: Mapping[Key, tuple[str, int]]) -> int:
        """The partitions with keys that nobody has read well since the last write."""
        assert self._writing_ended_at is not None
        wanted = [index for name, index in keys.values() if name == KEY_TOPIC]
        return sum(
            reader.good_at.get(index, -1) < self._writing_ended_at for reader in self._of(KeyReader) for index in wanted
        )

    def finish(self, keys: Mapping[Key, tuple[str, int]]) -> None:
        """Nothing is left to be done: judge the whole."""
        for client in self._clients:
            client.is_stopped = True
        if self._last_reader is None:
            return
        self._last_reader.is_stopped = True
        for reading in self._last_reader.readings.values():
            self.transactions.whole(reading.key, reading.found)
        self.transactions.at_the_end()
        if self._of(TransformerClient):
            sources = {
                (*where, offset)
                for key, where in keys.items()
                if where[0] == GROUP_TOPIC
                for offset in self.cluster.judge.of(key).promised
            }
            count = self.transactions.unread(TRANSFORMERS, sources)
            if count:
                raise SafetyError("exactly once", f"{count} of {len(sources)} records have no result")


def _delay_us(rng: Random) -> int:
    return int(rng.random() ** 2 * 8_000 * MS)
