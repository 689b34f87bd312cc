"""`zab produce` and `zab consume` against a real broker: every byte comes back, and what is wrong is said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.cli.commands import Run, at_terminal, started
from tests.cli.json_page import check, check_values
from tests.rigs.kafka_broker import KafkaBroker
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.cli.brokers import produce

pytestmark = pytest.mark.slow

HOSTILE = b"text\n\xff\xfe\x00\n\n\x1b[2J\r\n" + b"y" * 70_000 + b"\nlast, without an end"
VALUES = [b"text", b"\xff\xfe\x00", b"", b"\x1b[2J\r", b"y" * 70_000, b"last, without an end"]


@pytest.fixture
def topic(zab: Run) -> str:
    """A topic of one partition, which keeps records of all times."""
    name = f"records-{uuid.uuid4()}"
    assert zab("topic", "create", name, "-p", "1", "-c", "retention.ms=-1") == 0, zab.err
    return name


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lines"
    path.write_bytes(HOSTILE)
    return path


def zab_process(broker: KafkaBroker, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """`zab WORDS` with these bytes as its input."""
    return subprocess.run(
        [sys.executable, "-m", "zab.cli.main", *words, "--bootstrap-server", broker.address],
        input=given,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def values(zab: Run, topic: str) -> list[str]:
    assert zab("consume", topic, "--json") == 0, zab.err
    return [json.loads(line)["value"] for line in zab.out.splitlines()]


@pytest.mark.parametrize("codec", [each.value for each in produce.Codec])
def test_all_bytes_come_back(zab: Run, running_broker: KafkaBroker, topic: str, file: Path, codec: str) -> None:
    assert zab("produce", topic, file, "--compression", codec) == 0, zab.err
    assert zab.out == f"{len(VALUES)} records in {topic}\n"
    done = zab_process(running_broker, "consume", topic)
    assert done.stdout == b"".join(value + b"\n" for value in VALUES)
    assert done.stderr == b"zab: 6 records consumed\n"


def test_lines_of_standard_input_have_keys_and_headers(zab: Run, running_broker: KafkaBroker, topic: str) -> None:
    words = ("produce", topic, "-k", "::", "-H", "h=v", "-H", "empty=", "--acks", "1", "--json")
    done = zab_process(running_broker, *words, given=b"k::v::w\n::nothing\n")
    found = json.loads(done.stdout)
    check("produce", found)
    assert found["partitions"] == [{"partition": 0, "count": 2, "first_offset": 0, "last_offset": 1}]
    assert zab("consume", topic, "--json") == 0
    lines = [json.loads(line) for line in zab.out.splitlines()]
    for line in lines:
        check("consume", line)
        check_values(line["headers"][0])
    assert [(line["key"], line["value"]) for line in lines] == [("k", "v::w"), ("", "nothing")]
    assert lines[0]["headers"] == [
        {"name": "h", "value": "v", "encoding": "utf-8"},
        {"name": "empty", "value": "", "encoding": "utf-8"},
    ]
    assert zab("consume", topic, "--offsets", "--headers", "--keys") == 0
    assert zab.out == "0:0\th=v,empty=\tk\tv::w\n0:1\th=v,empty=\t\tnothing\n"
    assert zab("consume", topic, "--times", "--count", "1") == 0
    assert zab.out == f"{lines[0]['time']}\tv::w\n"


def test_what_one_prints_the_other_reads(zab: Run, topic: str, file: Path, tmp_path: Path) -> None:
    assert zab("produce", topic, file, "-H", "h=v") == 0
    tombstone = tmp_path / "tombstone"
    tombstone.write_text('{"key": "gone", "value": null, "time": "2026-03-01T12:00:00Z"}\n')
    assert zab("produce", topic, tombstone, "--json-lines") == 0, zab.err
    assert zab("consume", topic, "--json") == 0
    before = [json.loads(line) for line in zab.out.splitlines()]
    (tmp_path / "copy").write_text(zab.out)
    other = f"copy-{uuid.uuid4()}"
    assert zab("topic", "create", other, "-p", "2", "-c", "retention.ms=-1") == 0
    assert zab("produce", other, tmp_path / "copy", "--json-lines", "--keep-partitions") == 0, zab.err
    assert zab("consume", other, "--json", "-p", "0") == 0
    assert [json.loads(line) for line in zab.out.splitlines()] == [{**line, "topic": other} for line in before]
    assert (before[-1]["time"], before[-1]["value"]) == ("2026-03-01T12:00:00.000Z", None)


@pytest.mark.parametrize(
    ("words", "text", "reason", "count"),
    [
        (["-k", ":"], b"a:b\nc\nd:e\n", "line 2: ':' (--key-separator) is not in it", 1),
        (["--json-lines"], b'{"value": "a"}\nnonsense\n', "line 2: it is no JSON: Expecting value at column 1", 1),
        (
            ["--json-lines", "--keep-partitions"],
            b'{"value":"","partition":8}',
            "line 1: the topic has no partition 8",
            0,
        ),
        (["--json-lines"], b'{"value": null}\n', "line 1: a tombstone has a key", 0),
        ([], b"ok\n" + b"x" * (1 << 20) + b"x\n", "line 2: it has more than 1048576 bytes (max.request.size", 1),
        ([], b"ok\n" + b"x" * (1 << 20), "line 2: the record is larger than max.request.size", 1),
    ],
)
def test_a_line_that_cannot_be_sent_is_named_and_those_before_it_are_appended(
    zab: Run, topic: str, tmp_path: Path, words: list[str], text: bytes, reason: str, count: int
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(text)
    assert zab("produce", topic, path, *words) == 1
    said = f"zab: not finished: {count} record acknowledged\n" if count else ""
    assert zab.err.startswith(f"{said}zab: {reason}"), zab.err
    assert len(values(zab, topic)) == count


def test_a_line_that_the_broker_refuses_is_named(zab: Run, topic: str, tmp_path: Path) -> None:
    assert zab("topic", "alter", topic, "-c", "max.message.bytes=1000") == 0
    path = tmp_path / "lines"
    path.write_bytes(b"x" * 2000)
    assert zab("produce", topic, path) == 1
    assert zab.err == f"zab: line 1: MESSAGE_TOO_LARGE {topic}: it is larger than max.message.bytes of the topic\n"


def test_many_wait_for_no_more_than_the_limits(
    zab: Run, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0
    send = produce._Sender.send

    def watched(self: produce._Sender, *arguments: object) -> None:
        nonlocal most
        send(self, *arguments)  # type: ignore[arg-type]
        most = max(most, len(self._under_way))

    monkeypatch.setattr(produce._Sender, "send", watched)
    monkeypatch.setattr(produce, "UNDER_WAY_COUNT_MAX", 7)
    path = tmp_path / "lines"
    path.write_text("".join(f"{number}\n" for number in range(50)))
    assert zab("produce", topic, path) == 0
    assert most <= 7
    assert values(zab, topic) == [str(number) for number in range(50)]


def test_topics_and_partitions_that_do_not_exist(zab: Run, topic: str, file: Path) -> None:
    name = f"none-{uuid.uuid4()}"
    for words in (["produce", name, str(file)], ["consume", name], ["consume", name, "-g", "g"]):
        assert zab(*words) == 1
        assert zab.err == (
            f"zab: UNKNOWN_TOPIC_OR_PARTITION {name}: there is no such topic; zab topic create {name} makes it\n"
        )
    assert zab("topic", "describe", name) == 1, "nobody made it"
    for words in (["produce", topic, str(file), "-p", "3"], ["consume", topic, "-p", "3"]):
        assert zab(*words) == 1
        assert zab.err == f"zab: UNKNOWN_TOPIC_OR_PARTITION {topic}-3: the topic has 1 partition\n"
    assert zab("produce", name, file, "--create") == 0, zab.err
    assert len(values(zab, name)) == len(VALUES)
    assert zab("produce", topic, "/none/at/all") == 2
    assert "No such file" in zab.err


def test_nobody_says_offsets_without_acknowledgements(zab: Run, topic: str, file: Path) -> None:
    assert zab("produce", topic, file, "--acks", "0", "--json") == 0, zab.err
    assert json.loads(zab.out)["partitions"] == [
        {"partition": 0, "count": 6, "first_offset": None, "last_offset": None}
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["produce", "t", "--json-lines", "-k", ":"],
        ["produce", "t", "-k", ""],
        ["produce", "t", "--keep-partitions"],
        ["produce", "t", "--json-lines", "--keep-partitions", "-p", "1"],
        ["produce", "t", "-H", "nothing"],
        ["consume", "t", "--from", "soon"],
        ["consume", "t", "-g", "g", "-p", "0"],
        ["consume", "t", "-g", "g", "--from", "7"],
        ["consume", "t", "-n", "0"],
    ],
)
def test_wrong_usage(zab: Run, words: list[str]) -> None:
    assert zab(*words) == 2


def test_where_to_begin(zab: Run, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    times = ("2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z", "2026-03-01T14:00:00Z")
    path.write_text("".join(f'{{"value": "{at}", "time": "{time}"}}\n' for at, time in enumerate(times)))
    assert zab("produce", topic, path, "--json-lines") == 0, zab.err
    for position, expected in {
        "beginning": "0\n1\n2\n",
        "end": "",
        "1": "1\n2\n",
        "2026-03-01T12:30": "1\n2\n",
        "now": "",
        "18000 days ago": "0\n1\n2\n",
    }.items():
        assert zab("consume", topic, "--from", position) == 0
        assert zab.out == expected, position
    assert zab("consume", topic, "--from", "99") == 0
    assert zab.err == f"zab: {topic}-0 has no offset 99; it begins at 3\nzab: 0 records consumed\n"


def test_a_group_goes_on_where_it_was(zab: Run, topic: str, tmp_path: Path) -> None:
    group = f"g-{uuid.uuid4()}"
    path = tmp_path / "lines"
    path.write_text("a\nb\nc\n")
    assert zab("produce", topic, path) == 0
    assert zab("consume", topic, "-g", group, "-n", "2") == 0, zab.err
    assert zab.out == "a\nb\n"
    assert zab("consume", topic, "-g", group) == 0
    assert zab.out == "c\n"
    assert zab("consume", topic, "-g", group) == 0
    assert zab.out == ""
    assert zab("consume", topic, "-g", f"{group}-new", "--from", "end") == 0
    assert zab.out == ""


def test_following_ends_with_a_count_and_the_code_of_an_interrupt(
    zab: Run, running_broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    path.write_text("first\n")
    words = ("consume", topic, "--follow", "--bootstrap-server", running_broker.address, "--json")
    with started(*words) as process:
        assert process.stdout is not None
        for expected in ("first", "second"):
            path.write_text(f"{expected}\n")
            assert zab("produce", topic, path) == 0
            assert json.loads(process.stdout.readline())["value"] == expected
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, said) == (130, "zab: 2 records consumed\n")
    assert zab("consume", topic, "-f", "--from", "end", "--timeout", "0.5") == 124
    assert zab.err == "zab: 0 records consumed\nzab: not done within 0.5 s (--timeout)\n"


def test_an_output_that_takes_no_more_ends_the_command(
    running_broker: KafkaBroker, zab: Run, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    path.write_text("x" * 1000 + "\n")
    for _ in range(3):
        path.write_text(path.read_text() * 8)
    assert zab("produce", topic, path) == 0
    command = [sys.executable, "-m", "zab.cli.main", "consume", topic, "--follow"]
    with subprocess.Popen(
        [*command, "--bootstrap-server", running_broker.address], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            os.read(process.stdout.fileno(), 10)
            process.stdout.close()
            said = process.stderr.read()
            assert process.wait(PATIENCE_SECONDS) == 1
        finally:
            process.kill()
    assert b"Traceback" not in said


def test_a_terminal_is_not_commanded(running_broker: KafkaBroker, zab: Run, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"\x1b[2J\xff\n")
    assert zab("produce", topic, path, "-H", "h=\x1b[2J") == 0
    words = ("consume", topic, "--headers", "--bootstrap-server", running_broker.address)
    code, written = at_terminal(*words)
    assert code == 0
    assert b"\x1b[2J" not in written
    assert b"\\xff" in written
