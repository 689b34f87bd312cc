"""`zab changes --to-topic`: every change is a record, exactly once, whatever is killed when."""

from __future__ import annotations

import json
import signal
import subprocess
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
from confluent_kafka import Consumer, TopicPartition

from tests.cli.commands import Run, started
from tests.rigs.kafka_broker import KafkaBroker
from tests.rigs.processes import ended
from tests.rigs.waiting import PATIENCE_SECONDS, until
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.cli.brokers import change_feed
from zab.cli.znodes import publishing
from zab.client import CREATOR_ALL_ACL, Place, connect

pytestmark = [pytest.mark.process, pytest.mark.slow]

KILLS = 4


class Here:
    """A member, and a broker whose znodes are below /kafka."""

    def __init__(self, servers: ZooKeeperEnsemble, broker: KafkaBroker) -> None:
        self.servers = servers
        self.hosts = servers.hosts
        self.broker = broker


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    directory = tmp_path_factory.mktemp("feed")
    with zab_servers(1, directory=directory / "member") as servers:
        broker = KafkaBroker(directory / "broker", f"{servers.hosts}/kafka")
        with ended([broker]):
            broker.serve()
            yield Here(servers, broker)


@pytest.fixture
def run(here: Here, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("ZAB_BOOTSTRAP_SERVER", here.broker.address)
    monkeypatch.setenv("ZAB_HOSTS", here.hosts)
    return Run(capsys)


@pytest.fixture
def name() -> str:
    """The name of a topic, and of the znode below which changes are followed."""
    return f"feed-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(run: Run, name: str) -> str:
    assert run("topic", "create", name, "--partitions", "3", "--config", "retention.ms=-1") == 0, run.err
    return name


async def change(hosts: str, root: str, count: int, first: int = 0) -> None:
    """So many times three changes below the root, which is created the first time."""
    async with connect(hosts) as zk:
        await zk.ensure_path(root)
        for number in range(first, first + count):
            path = f"{root}/{number % 7}"
            async with zk.transaction() as parts:
                parts.create(f"{root}/n{number}", b"%d" % number)
                parts.set(root, b"\xff%d" % number)
            if await zk.exists(path) is None:
                await zk.create(path, None)
            else:
                await zk.delete(path)


def read(here: Here, topic: str) -> list[tuple[str, bytes | None, dict[str, str], int]]:
    """The committed records of all partitions, in the order of changes: key, value, headers, time."""
    consumer = Consumer(
        {
            "bootstrap.servers": here.broker.address,
            "group.id": f"read-{uuid.uuid4()}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        numbers = consumer.list_topics(topic, PATIENCE_SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
        found, at_end = [], set()
        while len(at_end) < len(numbers):
            message = consumer.poll(PATIENCE_SECONDS)
            assert message is not None
            if message.error() is not None:
                at_end.add(message.partition())
                continue
            headers = {key: value.decode() for key, value in message.headers()}
            found.append((message.key().decode(), message.value(), headers, message.timestamp()[1]))
    finally:
        consumer.close()
    return sorted(found, key=lambda each: (int(each[2]["zab.zxid"], 16), int(each[2]["zab.part"])))


def followed(run: Run, root: str, count: int) -> list[dict[str, object]]:
    """What `zab changes` says of the same."""
    assert run("changes", "--since", "0", "--prefix", root, "--count", count, "--json") == 0
    return [json.loads(line) for line in run.out.splitlines()]


def test_records_are_the_changes_with_keys_headers_and_times(run: Run, here: Here, topic: str) -> None:
    root = f"/{topic}"
    trio.run(change, here.hosts, root, 20)
    count = 1 + 20 * 3
    assert run("changes", "--to-topic", topic, "--since", "0", "--prefix", root, "--count", count) == 0, run.err
    assert f"publishing {root} to {topic} from 0x0 (feed zab-changes-{topic})" in run.err
    assert f"{count} changes in {topic}" in run.out
    records, changes = read(here, topic), followed(run, root, count)
    assert [json.loads(value or b"") for _, value, _, _ in records] == changes
    for (key, _, headers, time), each in zip(records, changes, strict=True):
        assert (key, headers["zab.zxid"], headers["zab.kind"]) == (each["path"], each["zxid"], each["kind"])
        assert round(datetime.fromisoformat(str(each["time"])).timestamp() * 1000) == time


def has_ended(feed: subprocess.Popen[str]) -> bool:
    """Never: a feed goes on. Fails with what it has said."""
    if feed.poll() is not None:
        assert feed.stderr is not None
        raise AssertionError(f"it has ended with {feed.returncode}: {feed.stderr.read()}")
    return False


@pytest.mark.parametrize(
    "killed",
    ["command", pytest.param("broker", marks=pytest.mark.longest), pytest.param("member", marks=pytest.mark.long)],
)
def test_whatever_is_killed_no_change_is_missing_and_none_is_there_twice(
    run: Run, here: Here, topic: str, killed: str
) -> None:
    """The command is killed each time, and where something else is killed, after that has come back."""
    root = f"/{topic}"
    words = ["changes", "--to-topic", topic, "--since", "0", "--prefix", root]
    total = 0
    for turn in range(KILLS if killed == "command" else 2):
        before = len(read(here, topic))
        with started(*words) as feed:
            trio.run(change, here.hosts, root, 30, 30 * turn)
            # Some are committed, others on their way.
            until(lambda before=before, feed=feed: has_ended(feed) or len(read(here, topic)) > before)
            if killed == "broker":
                here.broker.kill()
                here.broker.serve()
            elif killed == "member":
                here.servers.members[0].kill()
                here.servers.members[0].start()
                here.servers.wait()
                here.broker.serve_on()
            feed.kill()
            feed.wait(PATIENCE_SECONDS)
        total += 30 * 3
    total += 1
    left = total - len(read(here, topic))
    if left:
        assert run(*words, "--count", left) == 0, run.err
    records = read(here, topic)
    assert [json.loads(value or b"") for _, value, _, _ in records] == followed(run, root, total)


def test_a_feed_that_is_killed_before_its_first_change_goes_on_from_its_beginning(
    run: Run, here: Here, topic: str
) -> None:
    root = f"/{topic}"
    trio.run(change, here.hosts, root, 1)
    with started("changes", "--to-topic", topic, "--prefix", root) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("publishing ")
        process.kill()
        process.wait(PATIENCE_SECONDS)
    trio.run(change, here.hosts, root, 2, 1)
    assert run("changes", "--to-topic", topic, "--prefix", root, "--count", 6, "--timeout", 60) == 0, run.err
    assert [json.loads(value or b"") for _, value, _, _ in read(here, topic)] == followed(run, root, 10)[4:]


def test_bare_data_is_what_the_znodes_have(run: Run, here: Here, topic: str) -> None:
    root = f"/{topic}"

    async def act() -> None:
        async with connect(here.hosts, auth=[("digest", "a:b")]) as zk:
            await zk.create(root, b"one")
            await zk.set_acl(root, CREATOR_ALL_ACL)
            await zk.set(root, b"\x00two")
            await zk.create(f"{root}/x", None)
            await zk.delete(f"{root}/x")
            await zk.delete(root)

    trio.run(act)
    monkey = ["--auth", "digest:a:b", "changes", "--to-topic", topic, "--since", "0", "--prefix", root]
    assert run(*monkey, "--count", 6, "--values", "data") == 0, run.err
    assert [(key, value, headers["zab.kind"]) for key, value, headers, _ in read(here, topic)] == [
        (root, b"one", "CREATED"),
        (root, b"\x00two", "DATA_CHANGED"),
        (f"{root}/x", b"", "CREATED"),
        (f"{root}/x", None, "DELETED"),
        (root, None, "DELETED"),
    ]


def test_a_second_process_of_a_feed_ends_the_first(run: Run, here: Here, topic: str) -> None:
    root = f"/{topic}"
    words = ["changes", "--to-topic", topic, "--since", "0", "--prefix", root]
    with started(*words) as first:
        trio.run(change, here.hosts, root, 1)
        until(lambda: read(here, topic))
        with started(*words) as second:
            assert second.stderr is not None
            assert "publishing" in second.stderr.readline()
            trio.run(change, here.hosts, root, 1, 1)
            assert first.stderr is not None
            assert first.wait(PATIENCE_SECONDS) == 1
            assert "another process has this feed" in first.stderr.read()
            until(lambda: len(read(here, topic)) == 4 + 3)
            assert second.poll() is None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--to-topic", "nowhere-at-all"], 1, "zab topic create nowhere-at-all makes it"),
        (["--to-topic", "{topic}", "--json"], 2, "records have JSON without it"),
        (["--feed", "x"], 2, "it needs --to-topic"),
        (["--values", "data"], 2, "it needs --to-topic"),
        (["--to-topic", "{topic}", "--prefix", "/" + "x" * 1000], 2, "it has more than 1000 characters"),
    ],
)
def test_wrong_input_is_told(run: Run, topic: str, words: list[str], code: int, said: str) -> None:
    assert run("changes", *(word.format(topic=topic) for word in words)) == code
    assert said in run.err


def test_a_feed_without_a_place_in_a_topic_with_records_is_told_where_to_begin(
    run: Run, here: Here, topic: str, tmp_path: Path
) -> None:
    root = f"/{topic}"
    trio.run(change, here.hosts, root, 1)
    words = ["changes", "--to-topic", topic, "--prefix", root]
    assert run(*words, "--since", "0", "--count", 4) == 0, run.err
    assert run(*words, "--feed", "other") == 1
    assert f"the feed has no place, and {topic} has records: say with --since where it begins" in run.err
    assert run(*words[:3], "--prefix", "/zookeeper") == 1
    assert f"this feed follows {root}: name another one with --feed" in run.err
    own = f"zab-changes-{topic}"
    assert run("group", "reset", own, "--to", "beginning", "--execute") == 0, run.err
    assert run(*words) == 1
    assert "what is committed is no place in a feed" in run.err
    assert run("group", "delete", own) == 0
    assert run(*words, "--since", "0", "--count", 1) == 0
    assert len(read(here, topic)) == 5


def test_a_change_that_the_topic_does_not_take_is_named(run: Run, here: Here, topic: str) -> None:
    root = f"/{topic}"

    async def act() -> None:
        async with connect(here.hosts) as zk:
            await zk.create(root)
            await zk.create(f"{root}/large", b"\xff" * 900_000)

    trio.run(act)
    words = ["changes", "--to-topic", topic, "--since", "0", "--prefix", root]
    assert run(*words, "--count", 2) == 1
    assert f"MESSAGE_TOO_LARGE {root}/large (zxid 0x" in run.err
    before = len(read(here, topic))
    assert before < 2
    assert run("topic", "alter", topic, "--config", "max.message.bytes=2000000") == 0, run.err
    assert run(*words, "--count", 2 - before) == 0, run.err
    assert [key for key, *_ in read(here, topic)] == [root, f"{root}/large"]


def test_an_interrupt_ends_it(topic: str, run: Run) -> None:
    with started("changes", "--to-topic", topic) as feed:
        assert feed.stderr is not None
        assert "publishing / to" in feed.stderr.readline()
        feed.send_signal(signal.SIGINT)
        assert feed.wait(PATIENCE_SECONDS) == 130
        assert "Traceback" not in feed.stderr.read()


class Producer:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> object:
        return lambda *_: self.asked.append(name)


def test_a_place_is_committed_without_changes() -> None:
    wanted = change_feed.Publication(topic="t", feed="f", prefix="/", since=0, count=None, has_bare_data=False)
    producer = Producer()
    topic = change_feed._Topic(wanted, "/", None, None, producer)
    topic.commit([], Place(1, 0, "00"))
    assert producer.asked == ["begin_transaction", "flush", "send_offsets_to_transaction", "commit_transaction"]


def test_the_place_is_committed_though_nothing_changes_below_the_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(publishing, "time", SimpleNamespace(monotonic=lambda: now))
    timing, of_a_log = publishing.Timing(change_feed.KEEP_SECONDS), publishing.Timing(None)
    first, second = Place(1, 0, "00"), Place(2, 0, "00")
    timing.kept(first)
    of_a_log.kept(first)
    now = publishing.PLACE_SECONDS
    assert not timing.is_late(first)
    assert timing.is_late(second)
    assert of_a_log.is_late(second)
    now = change_feed.KEEP_SECONDS
    assert timing.is_late(first)
    assert not of_a_log.is_late(first)
