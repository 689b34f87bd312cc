"""The kernel serves a process that is no member: the echo service, by itself and on real sockets and files."""

import shutil
import threading
from contextlib import asynccontextmanager
from struct import unpack

import pytest
import trio

from tests.host.echo.echo import (
    CLOSED_AT_ONCE,
    CLOSED_WHEN_SENT,
    ENTRY_BYTES_MAX,
    IDLE_MS,
    LOG_FILE,
    UNSENT_BYTES_MAX,
    WAITING_MAX,
    Append,
    Closed,
    Connected,
    Connection,
    Durable,
    Echo,
    EchoLog,
    Halt,
    HaltedError,
    Received,
    StorageFailed,
)
from tests.host.echo.service import serve
from zab.host.loop.listener import open_listener
from zab.host.storage.disk import RealDisk
from zab.wire.frames import FrameReader, frame

PATIENCE_SECONDS = 60


def answers_in(payloads):
    return [(unpack(">Q", payload[:8])[0], payload[8:]) for payload in payloads]


def replies(connection):
    return answers_in(FrameReader(1 << 24).feed(b"".join(connection.take_output())))


def connected(echo, count=1):
    connections = [Connection("127.0.0.1", port) for port in range(count)]
    assert echo.step(0, map(Connected, connections)) == []
    return connections


# ------------------------------------------------------------------------------------------------------------- the step


def test_nothing_is_answered_before_it_is_durable():
    echo = Echo(7)
    [connection] = connected(echo)
    assert echo.step(1, [Received(connection, frame(b"a") + frame(b"b"))]) == [Append((b"a", b"b"))]
    assert (connection.out, list(echo.dirty)) == ([], [])
    echo.step(2, [Durable(8)])
    assert replies(connection) == [(8, b"a")]
    assert list(echo.dirty) == [connection]
    echo.step(3, [Durable(9)])
    assert replies(connection) == [(9, b"b")]


def test_a_turn_is_one_append_and_each_gets_its_own_answers():
    echo = Echo(0)
    one, other = connected(echo, 2)
    [append] = echo.step(1, [Received(one, frame(b"1")), Received(other, frame(b"2")), Received(one, frame(b"3"))])
    assert append == Append((b"1", b"2", b"3"))
    echo.step(2, [Durable(3)])
    assert (replies(one), replies(other)) == ([(1, b"1"), (3, b"3")], [(2, b"2")])


def test_a_connection_that_closed_keeps_its_place_in_the_log():
    echo = Echo(0)
    one, other = connected(echo, 2)
    echo.step(1, [Received(one, frame(b"1")), Received(other, frame(b"2")), Closed(one)])
    echo.step(2, [Received(one, frame(b"late")), Durable(2)])
    assert replies(other) == [(2, b"2")]


def test_a_bad_length_closes_after_the_answers_to_what_came_before():
    echo = Echo(0)
    [connection] = connected(echo)
    assert echo.step(1, [Received(connection, frame(b"x") + b"\xff" * 4)]) == [Append((b"x",))]
    assert connection.closing == CLOSED_WHEN_SENT


def test_a_connection_with_too_much_on_its_way_is_paused_until_some_is_durable():
    echo = Echo(0)
    [connection] = connected(echo)
    echo.step(1, [Received(connection, frame(b"x") * (WAITING_MAX + 2))])
    assert connection.paused
    echo.step(2, [Durable(1)])
    assert connection.paused
    echo.step(3, [Durable(2)])
    assert not connection.paused
    assert list(echo.dirty) == [connection]


def test_who_does_not_take_answers_is_closed():
    echo = Echo(0)
    [connection] = connected(echo)
    echo.step(1, [Received(connection, frame(bytes(ENTRY_BYTES_MAX)))])
    connection.unsent_bytes = UNSENT_BYTES_MAX
    echo.step(2, [Durable(1)])
    assert connection.closing == CLOSED_AT_ONCE


def test_who_is_silent_is_closed_in_time():
    echo = Echo(0)
    one, other = connected(echo, 2)
    echo.step(5, [Received(one, b"\0")])
    assert echo.next_deadline() == IDLE_MS
    echo.step(IDLE_MS, [])
    assert (one.closing, other.closing) == (0, CLOSED_AT_ONCE)
    assert echo.next_deadline() == IDLE_MS + 5
    echo.step(IDLE_MS + 5, [])
    assert one.closing == CLOSED_AT_ONCE
    assert echo.next_deadline() is None


def test_a_log_that_cannot_be_written_is_the_end():
    echo = Echo(0)
    [connection] = connected(echo)
    assert echo.step(1, [Received(connection, frame(b"x")), StorageFailed("full")]) == [Halt("full")]


# -------------------------------------------------------------------------------------------------------------- the log


@pytest.mark.parametrize("tail", [b"", b"\0", bytes(3000), b"\0\0\0\x09\0\0\0\0entry", frame(b"\0\0\0\0other")])
def test_what_follows_the_last_entry_that_checks_is_dropped(tmp_path, tail):
    disk = RealDisk(str(tmp_path))
    log = EchoLog(disk)
    assert log.perform([Append((b"1", b"")), Append((b"3",))]) == [Durable(3)]
    log.close()
    with (tmp_path / LOG_FILE).open("ab") as file:
        file.write(tail)
    log = EchoLog(disk)
    assert log.entries == [b"1", b"", b"3"]
    assert log.perform([Append((b"4",))]) == [Durable(4)]
    log.close()
    assert EchoLog(disk).entries == [b"1", b"", b"3", b"4"]
    disk.close()


# ----------------------------------------------------------------------------------------------------------- all of it


class Client:
    def __init__(self, stream):
        self.stream = stream
        self.frames = FrameReader(1 << 24)
        self.payloads = []

    async def say(self, *entries):
        await self.stream.send_all(b"".join(map(frame, entries)))

    async def hear(self, count):
        with trio.fail_after(PATIENCE_SECONDS):
            while len(self.payloads) < count:
                data = await self.stream.receive_some()
                assert data, "closed"
                self.payloads += self.frames.feed(bytes(data))
        heard, self.payloads = self.payloads[:count], self.payloads[count:]
        return answers_in(heard)


@asynccontextmanager
async def serving(directory, **options):
    """The service: its log, and what opens a client."""
    listening = open_listener("127.0.0.1", 0)
    address = listening.getsockname()[:2]
    streams = []

    async def run(task_status):
        await serve(str(directory), listening, task_status=task_status, **options)

    async def connect():
        streams.append(await trio.open_tcp_stream(*address))
        return Client(streams[-1])

    try:
        async with trio.open_nursery() as nursery:
            yield await nursery.start(run), connect
            nursery.cancel_scope.cancel()
    finally:
        for stream in streams:
            stream.socket.close()


async def test_entries_are_echoed_with_their_numbers_and_a_restart_goes_on(tmp_path):
    async with serving(tmp_path) as (log, connect):
        assert log.entries == []
        client = await connect()
        await client.say(b"one", b"", b"three" * 100_000)
        assert await client.hear(3) == [(1, b"one"), (2, b""), (3, b"three" * 100_000)]
    async with serving(tmp_path) as (log, connect):
        assert log.entries == [b"one", b"", b"three" * 100_000]
        client = await connect()
        await client.say(b"four")
        assert await client.hear(1) == [(4, b"four")]


async def test_many_clients_share_one_log(tmp_path):
    heard = []

    async def use(connect, name):
        client = await connect()
        entries = [b"%d of %d" % (number, name) for number in range(50)]
        for entry in entries:
            await client.say(entry)
        answers = await client.hear(50)
        assert [entry for _, entry in answers] == entries
        heard.extend(answers)

    async with serving(tmp_path) as (_, connect), trio.open_nursery() as nursery:
        for name in range(10):
            nursery.start_soon(use, connect, name)
    assert sorted(number for number, _ in heard) == list(range(1, 501))
    async with serving(tmp_path) as (log, _):
        assert [entry for _, entry in sorted(heard)] == log.entries


async def test_what_was_answered_is_in_a_copy_of_the_files_at_that_moment(tmp_path):
    """As after a kill: nothing is written down later that an answer promised."""
    running, copy = tmp_path / "running", tmp_path / "copy"
    async with serving(running) as (_, connect):
        client = await connect()
        for number in range(1, 21):
            await client.say(b"%d" % number)
            assert await client.hear(1) == [(number, b"%d" % number)]
        shutil.copytree(running, copy)
    async with serving(copy) as (log, _):
        assert log.entries == [b"%d" % number for number in range(1, 21)]


class HeldLog(EchoLog):
    """Its disk hangs until the test lets it go on, and may fail then."""

    def __init__(self, disk):
        super().__init__(disk)
        self.may_go = threading.Event()
        self.error = None

    def perform(self, effects):
        assert self.may_go.wait(PATIENCE_SECONDS)
        if self.error is not None:
            raise self.error
        return super().perform(effects)


async def test_a_disk_that_hangs_holds_the_answers_and_nothing_else(tmp_path):
    async with serving(tmp_path, log_of=HeldLog) as (log, connect):
        client, bad = await connect(), await connect()
        await client.say(b"waits")
        with trio.move_on_after(0.1) as scope:
            await client.hear(1)
        assert scope.cancelled_caught
        await bad.stream.send_all(b"\xff" * 4)
        with trio.fail_after(PATIENCE_SECONDS):
            assert await bad.stream.receive_some() == b""
        log.may_go.set()
        assert await client.hear(1) == [(1, b"waits")]


async def test_a_disk_that_fails_ends_the_service_without_an_answer(tmp_path):
    with pytest.RaisesGroup(pytest.RaisesExc(HaltedError, match="No space")):
        async with serving(tmp_path, log_of=HeldLog) as (log, connect):
            client = await connect()
            await client.say(b"lost")
            log.error = OSError(28, "No space left on device")
            log.may_go.set()
            with trio.fail_after(PATIENCE_SECONDS):
                assert await client.stream.receive_some() == b""
