"""What a broker takes beside load: its start, its memory, and the time without a leader after the end of one.

Whoever waits writes raw produce requests to the brokers that are left, one after the other, as a client does that has
lost its leader, and as fast as it can, so that no client's back-off counts.
"""

from __future__ import annotations

import socket
import statistics
import struct
import time
from contextlib import suppress

from bench.brokers.cells import fill
from bench.brokers.sides import Side
from bench.process_tree import resident_mib, user_and_system_seconds
from zab.partition.records.builder import encode_batch
from zab.partition.records.record import Record

TOPIC = "moments"
IDLE_PARTITIONS = 1_000
RECOVERED_BYTES = 1 << 30
_PATIENCE_SECONDS = 60.0
_ANSWER_SECONDS = 1.0
_RETRY_SECONDS = 0.005
_IDLE_SECONDS = 10.0
_PRODUCE, _VERSION, _ALL, _TIMEOUT_MS = 0, 7, -1, 1_000


def memory_mib(side: Side) -> float:
    """The median of the resident memory of the brokers."""
    return statistics.median(resident_mib(broker.pid) for broker in side.brokers)


def idle_percent(side: Side) -> float:
    """The median of what a broker takes of a processor while nobody asks for anything. Each has a replica of 1,000
    partitions."""
    if "idle" not in side.topics():
        side.create_topic("idle", IDLE_PARTITIONS, len(side.brokers), {})
    before = [sum(user_and_system_seconds(broker.pid)) for broker in side.brokers]
    time.sleep(_IDLE_SECONDS)
    after = [sum(user_and_system_seconds(broker.pid)) for broker in side.brokers]
    return 100 * statistics.median(now - then for now, then in zip(after, before, strict=True)) / _IDLE_SECONDS


def recovery_seconds(side: Side) -> float:
    """From the start of a broker that was killed, with a gigabyte in its logs that it has not synced, until it
    acknowledges a write."""
    fill("unsynced", side, RECOVERED_BYTES)
    return start_seconds(side, is_killed=True)


def start_seconds(side: Side, *, is_killed: bool) -> float:
    """From the start of one broker, ended before as said, until it acknowledges a write to what it leads."""
    _make_topic(side)
    [broker] = side.brokers
    if is_killed:
        broker.kill()
    else:
        broker.stop()
    started = time.monotonic()
    broker.start()
    moment = first_write([broker.address], 0)
    broker.serve_on()
    return moment - started


def failover_seconds(side: Side, *, is_killed: bool) -> float:
    """From the end of a partition's leader, by `kill -9` or SIGTERM, until another broker acknowledges a write with
    acks=all. Afterwards the broker is started again, and is in sync."""
    _make_topic(side)
    leader = side.leaders(TOPIC)[0]
    [broker] = [each for each in side.brokers if each.address == leader]
    others = [each.address for each in side.brokers if each is not broker]
    ended = time.monotonic()
    if is_killed:
        broker.kill()
    else:
        broker.ask_to_end()
    seconds = first_write(others, 0) - ended
    broker.stop()
    broker.start()
    broker.serve_on()
    side.wait_in_sync(TOPIC, len(side.brokers))
    return seconds


def _make_topic(side: Side) -> None:
    """Unless it is there."""
    if TOPIC not in side.topics():
        replicas = len(side.brokers)
        side.create_topic(TOPIC, 1, replicas, {"min.insync.replicas": str(min(2, replicas))})


def first_write(addresses: list[str], partition: int) -> float:
    """When a write was acknowledged by some of them. Raises TimeoutError."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for address in addresses:
            with suppress(OSError):
                if is_written(address, partition):
                    return time.monotonic()
        time.sleep(_RETRY_SECONDS)
    raise TimeoutError(f"no write was acknowledged within {_PATIENCE_SECONDS} s")


def is_written(address: str, partition: int) -> bool:
    """Whether one record was acknowledged. Raises OSError."""
    host, _, port = address.rpartition(":")
    batch = encode_batch([Record(0, int(time.time() * 1000), None, b"x")])
    topic = struct.pack(">h", len(TOPIC)) + TOPIC.encode()
    body = struct.pack(">hhihhhii", _PRODUCE, _VERSION, 1, -1, -1, _ALL, _TIMEOUT_MS, 1) + topic
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    with socket.create_connection((host, int(port)), _ANSWER_SECONDS) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        connection.sendall(struct.pack(">i", len(body)) + body)
        answer = connection.recv(4096)
    # Its length, the correlation id, one topic with its name, one partition and its number; then the error.
    error = answer[8 + 4 + len(topic) + 8 :][:2]
    return error == b"\0\0"
