"""Election links on real sockets of the loopback interface."""

import contextlib
import itertools
import math
import socket

import cbor2
import pytest
import trio

from tests.rigs.ports import free_ports
from zab.events import ElectionLinkDown, ElectionLinkUp, NotificationReceived
from zab.host.listener import open_listener
from zab.message import PROTOCOL_VERSION, Ack, Hello, Notification, decode, encode
from zab.server import election_links as module
from zab.server.election_links import Address, ElectionLinks
from zab.states import NOTHING
from zab.wire.frames import frame

PATIENCE_SECONDS = 30


def frame_of(message):
    return frame(encode(message))


def vote(round_number):
    return Notification(0, 1, 0, 0, round_number, b"", False, NOTHING, False, False, False)


class Events:
    """What a server posted; `wait_for` is bounded by the test's patience."""

    def __init__(self):
        self.seen = []
        self.changed = trio.Event()

    def post(self, event):
        self.seen.append(event)
        self.changed.set()
        self.changed = trio.Event()

    async def wait_for(self, *events):
        with trio.fail_after(PATIENCE_SECONDS):
            while not all(self.has(event) for event in events):
                await self.changed.wait()

    def has(self, wanted):
        return any(wanted(event) if callable(wanted) else event == wanted for event in self.seen)


def up(sid):
    return lambda event: isinstance(event, ElectionLinkUp) and event.sid == sid


class Member:
    def __init__(self, sid, listening, addresses):
        self.events = Events()
        self.listening = listening
        others = {other: address for other, address in addresses.items() if other != sid}
        self.links = ElectionLinks(sid, others, self.events.post)


@contextlib.asynccontextmanager
async def running(*sids, absent=()):
    """Members with these ids, and the addresses of those that are absent."""
    # Not ports that the kernel gives to others while nobody listens there.
    ports = dict(zip((*sids, *absent), free_ports(len(sids) + len(absent)), strict=True))
    addresses = {sid: Address("127.0.0.1", port) for sid, port in ports.items()}
    members = {sid: Member(sid, open_listener("127.0.0.1", ports[sid]), addresses) for sid in sids}
    async with trio.open_nursery() as nursery:
        for member in members.values():
            nursery.start_soon(member.links.run, member.listening)
        yield members, addresses
        nursery.cancel_scope.cancel()


async def receive(stream):
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        piece = await stream.receive_some(65536)
        assert piece, "closed"
        data += piece
    return decode(data[4:])


async def test_every_pair_is_connected_both_ways_with_a_round_trip():
    started = trio.current_time()
    async with running(1, 2, 3) as (members, _):
        for sid, member in members.items():
            await member.events.wait_for(*(up(other) for other in members if other != sid))
            took_ms = (trio.current_time() - started) * 1000
            assert all(1 <= event.round_trip_ms <= took_ms + 1 for event in member.events.seen)


async def test_notification_arrives_with_its_sender():
    async with running(1, 2) as (members, _):
        await members[1].events.wait_for(up(2))
        members[1].links.send(2, vote(7))
        await members[2].events.wait_for(NotificationReceived(1, vote(7)))


async def test_notification_to_nobody_is_dropped():
    async with running(1, 2) as (members, _):
        members[1].links.send(9, vote(7))
        members[1].links.send(2, vote(8))
        await members[2].events.wait_for(NotificationReceived(1, vote(8)))


async def test_only_the_newest_unsent_notification_is_sent():
    async with running(1, 2) as (members, _):
        for round_number in range(1, 50):
            members[1].links.send(2, vote(round_number))
        await members[2].events.wait_for(NotificationReceived(1, vote(49)))
        received = [event for event in members[2].events.seen if isinstance(event, NotificationReceived)]
        assert received == [NotificationReceived(1, vote(49))]


async def test_server_that_refuses_is_down_once_and_up_when_it_comes():
    async with running(1, absent=(2,)) as (members, addresses):
        events = members[1].events
        await events.wait_for(ElectionLinkDown(2))
        await trio.sleep(0.2)
        assert events.seen == [ElectionLinkDown(2)]
        members[1].links.send(2, vote(3))
        late = Member(2, open_listener(addresses[2].host, addresses[2].port), addresses)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(late.links.run, late.listening)
            await events.wait_for(up(2))
            await late.events.wait_for(NotificationReceived(1, vote(3)))
            nursery.cancel_scope.cancel()


async def test_server_that_dials_us_is_dialled_at_once(monkeypatch):
    monkeypatch.setattr(module, "REDIAL_SECONDS_MIN", 3600)
    monkeypatch.setattr(module, "REDIAL_SECONDS_MAX", 3600)
    async with running(1, absent=(2,)) as (members, addresses):
        await members[1].events.wait_for(ElectionLinkDown(2))
        late = Member(2, open_listener(addresses[2].host, addresses[2].port), addresses)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(late.links.run, late.listening)
            await members[1].events.wait_for(up(2))
            nursery.cancel_scope.cancel()


async def test_connection_that_closes_and_opens_again_is_never_down():
    async with running(1, absent=(2,)) as (members, addresses):
        with open_listener("127.0.0.1", addresses[2].port) as listening:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
            for _ in range(3):
                async with await listener.accept() as stream:
                    assert await receive(stream) == Hello(PROTOCOL_VERSION, 1)
                    count = len(members[1].events.seen)
                    await stream.send_all(frame_of(Hello(PROTOCOL_VERSION, 2)))
                    with trio.fail_after(PATIENCE_SECONDS):
                        while len(members[1].events.seen) == count:
                            await members[1].events.changed.wait()
            opened = [event for event in members[1].events.seen if isinstance(event, ElectionLinkUp)]
            assert len(opened) == 3
            assert ElectionLinkDown(2) not in members[1].events.seen[1:]


async def test_connection_that_closes_and_stays_closed_is_down():
    async with running(1, absent=(2,)) as (members, addresses):
        with open_listener("127.0.0.1", addresses[2].port) as listening:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
            async with await listener.accept() as stream:
                await stream.send_all(frame_of(Hello(PROTOCOL_VERSION, 2)))
                await members[1].events.wait_for(up(2))
        with trio.fail_after(PATIENCE_SECONDS):
            while members[1].events.seen[-1] != ElectionLinkDown(2):
                await members[1].events.changed.wait()


async def test_wrong_server_at_the_address_is_down():
    async with running(1, absent=(2,)) as (members, addresses):
        with open_listener("127.0.0.1", addresses[2].port) as listening:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
            async with await listener.accept() as stream:
                await stream.send_all(frame_of(Hello(PROTOCOL_VERSION, 3)))
                await members[1].events.wait_for(ElectionLinkDown(2))


async def test_redialling_waits_longer_each_time_up_to_a_second(autojump_clock, monkeypatch):
    """No socket is touched here: the dial itself is replaced."""
    dialled_at = []

    async def refused(host, port):
        dialled_at.append(trio.current_time())
        raise ConnectionRefusedError

    monkeypatch.setattr(trio, "open_tcp_stream", refused)
    monkeypatch.setattr(module.random, "uniform", lambda low, high: 1.0)
    links = ElectionLinks(1, {2: Address("nowhere", 1)}, lambda event: None)
    with trio.move_on_after(4.3):
        await links._keep_open(2)
    waits = [later - earlier for earlier, later in itertools.pairwise(dialled_at)]
    expected = [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0]
    assert len(waits) == len(expected)
    assert all(math.isclose(wait, value, abs_tol=1e-6) for wait, value in zip(waits, expected, strict=True))


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0\0\0\x01\xff",
        b"\0\0\0\x02\x81\x00",
        frame(cbor2.dumps([1 << 20_000])),
        frame_of(Ack(1, 1)),
        frame_of(Hello(PROTOCOL_VERSION, 2)),
    ],
    ids=["no CBOR", "too few fields", "type of thousands of digits", "other message", "second greeting"],
)
async def test_malformed_message_never_ends_the_receiver(garbage):
    """ZOOKEEPER-3769."""
    async with running(1, absent=(2,)) as (members, addresses):
        stream = await trio.open_tcp_stream(addresses[1].host, addresses[1].port)
        await stream.send_all(frame_of(Hello(PROTOCOL_VERSION, 2)))
        assert await receive(stream) == Hello(PROTOCOL_VERSION, 1)
        await stream.send_all(garbage + frame_of(vote(5)))
        await members[1].events.wait_for(NotificationReceived(2, vote(5)))
        await stream.aclose()


@pytest.mark.parametrize(
    "first",
    [
        frame_of(Hello(PROTOCOL_VERSION, 9)),
        frame_of(Hello(PROTOCOL_VERSION, 1)),
        frame_of(Hello(PROTOCOL_VERSION - 1, 2)),
        frame_of(vote(1)),
        frame(cbor2.dumps([1 << 20_000])),
        b"\xff\xff\xff\xff",
    ],
    ids=["unknown server", "ourselves", "other version", "no greeting", "type of thousands of digits", "no frame"],
)
async def test_wrong_greeting_ends_that_connection_and_no_other(first):
    async with running(1, 2, absent=(3,)) as (members, addresses):
        async with await trio.open_tcp_stream(addresses[1].host, addresses[1].port) as stream:
            await stream.send_all(first)
            with trio.fail_after(PATIENCE_SECONDS):
                assert await stream.receive_some(100) == b""
        members[2].links.send(1, vote(6))
        await members[1].events.wait_for(NotificationReceived(2, vote(6)))


async def test_frames_that_are_no_notification_are_reported_once_a_connection(caplog):
    async with (
        running(1, absent=(2,)) as (members, addresses),
        await trio.open_tcp_stream(addresses[1].host, addresses[1].port) as stream,
    ):
        await stream.send_all(frame_of(Hello(PROTOCOL_VERSION, 2)) + frame(b"\xff") * 500 + frame_of(vote(5)))
        await members[1].events.wait_for(NotificationReceived(2, vote(5)))
    assert sum("no notification" in record.getMessage() for record in caplog.records) == 1


async def test_a_length_that_no_frame_has_ends_the_connection_after_the_votes_before_it():
    async with (
        running(1, absent=(2,)) as (members, addresses),
        await trio.open_tcp_stream(addresses[1].host, addresses[1].port) as stream,
    ):
        await stream.send_all(frame_of(Hello(PROTOCOL_VERSION, 2)) + frame_of(vote(5)) + b"\x7f\xff\xff\xff")
        await members[1].events.wait_for(NotificationReceived(2, vote(5)))
        with trio.fail_after(PATIENCE_SECONDS):
            while await stream.receive_some(100):
                pass


async def test_newer_inbound_connection_of_a_server_replaces_the_older_one():
    async with running(1, absent=(2,)) as (members, addresses):
        streams = []
        for _ in range(2):
            stream = await trio.open_tcp_stream(addresses[1].host, addresses[1].port)
            await stream.send_all(frame_of(Hello(PROTOCOL_VERSION, 2)))
            assert await receive(stream) == Hello(PROTOCOL_VERSION, 1)
            streams.append(stream)
        with trio.fail_after(PATIENCE_SECONDS):
            assert await streams[0].receive_some(1) == b""
        await streams[1].send_all(frame_of(vote(5)))
        await members[1].events.wait_for(NotificationReceived(2, vote(5)))
        for stream in streams:
            await stream.aclose()


async def test_strangers_are_limited_and_keep_nobody_out(monkeypatch):
    monkeypatch.setattr(module, "STRANGERS_MAX", 2)
    monkeypatch.setattr(module, "GREETING_SECONDS", 3600.0)
    async with running(1, absent=(2,)) as (members, addresses), contextlib.AsyncExitStack() as stack:

        async def connected():
            return await stack.enter_async_context(await trio.open_tcp_stream(addresses[1].host, addresses[1].port))

        silent = [await connected() for _ in range(4)]
        with trio.fail_after(PATIENCE_SECONDS):
            for stream in silent[:2]:
                assert await stream.receive_some(1) == b""
        voter = await connected()
        await voter.send_all(frame_of(Hello(PROTOCOL_VERSION, 2)))
        with trio.fail_after(PATIENCE_SECONDS):
            assert await receive(voter) == Hello(PROTOCOL_VERSION, 1)
            assert await silent[2].receive_some(1) == b""
        await voter.send_all(frame_of(vote(5)))
        await members[1].events.wait_for(NotificationReceived(2, vote(5)))


def test_silence_of_a_partition_is_noticed():
    """A partition closes nothing; the kernel is told to give up on bytes that nobody acknowledges."""
    if not hasattr(socket, "TCP_USER_TIMEOUT"):
        pytest.skip("this platform has no TCP_USER_TIMEOUT")

    async def main():
        listening = open_listener("127.0.0.1", 0)
        with listening:
            async with await trio.open_tcp_stream("127.0.0.1", listening.getsockname()[1]) as stream:
                module._give_up_on_silence(stream)
                assert stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == module.SILENCE_MS
                assert stream.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1

    trio.run(main)
