"""Election links on real sockets of the loopback interface."""

import contextlib
import socket

import cbor2
import pytest
import trio
import trio.testing

from tests.host.loop.far_server import SECRET
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.server.transfers import greeting
from zab.host.loop.conversation import introduce, meet, reason_of
from zab.host.loop.dial import Address
from zab.host.loop.listener import open_listener
from zab.member.membership import election_connections
from zab.member.membership.greeting import AT_ELECTION_PORT, Purpose
from zab.protocol.effects import SendNotification
from zab.protocol.events import ElectionLinkDown, ElectionLinkUp, NotificationReceived
from zab.protocol.features import ALL, LIVES
from zab.protocol.message import CONFIG_BYTES_MAX, Ack, Notification, encode
from zab.protocol.states import NOTHING
from zab.server import election_links as module
from zab.server.election_links import ElectionLinks
from zab.testing.kit.ports import free_ports
from zab.wire.frames import frame
from zab.wire.handshake import Party, Secret
from zab.wire.records import MessageError


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


def heard(sid, *said, is_proven=True):
    """What a member hears of one that has proven who it is, as all here do by their secret."""
    return NotificationReceived(sid, *said, is_proven=is_proven)


class Member:
    def __init__(self, sid, listening, addresses):
        self.events = Events()
        self.listening = listening
        others = {other: address for other, address in addresses.items() if other != sid}
        self.links = ElectionLinks(greeting(sid), others, self.events.post)


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


async def dial(address, sid=2, me=None, other=1, purpose=Purpose.ELECTION, life=None):
    """A conversation of this server with a member, which is server `other`. `life`: the greeting of a process; without
    it each is another one."""
    stream = await trio.open_tcp_stream(address.host, address.port)
    try:
        with trio.fail_after(PATIENCE_SECONDS):
            return await introduce(stream, (life or greeting(sid, me)).dialling_for(purpose, other))
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise


async def is_dialled(listener, sid=2, me=None, life=None):
    """The conversation that somebody begins with this server."""
    with trio.fail_after(PATIENCE_SECONDS):
        stream = await listener.accept()
    try:
        with trio.fail_after(PATIENCE_SECONDS):
            return await meet(stream, (life or greeting(sid, me)).listening_for(AT_ELECTION_PORT, None))
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise


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
        members[1].links.send(SendNotification(2, vote(7)))
        await members[2].events.wait_for(heard(1, vote(7)))


async def test_notification_to_nobody_is_dropped():
    async with running(1, 2) as (members, _):
        members[1].links.send(SendNotification(9, vote(7)))
        members[1].links.send(SendNotification(2, vote(8)))
        await members[2].events.wait_for(heard(1, vote(8)))


async def test_only_the_newest_unsent_notification_is_sent():
    async with running(1, 2) as (members, _):
        for round_number in range(1, 50):
            members[1].links.send(SendNotification(2, vote(round_number)))
        await members[2].events.wait_for(heard(1, vote(49)))
        received = [event for event in members[2].events.seen if isinstance(event, NotificationReceived)]
        assert received == [heard(1, vote(49))]


async def test_server_that_refuses_is_down_once_and_up_when_it_comes():
    async with running(1, absent=(2,)) as (members, addresses):
        events = members[1].events
        await events.wait_for(ElectionLinkDown(2))
        await trio.sleep(0.2)
        assert events.seen == [ElectionLinkDown(2)]
        members[1].links.send(SendNotification(2, vote(3)))
        late = Member(2, open_listener(addresses[2].host, addresses[2].port), addresses)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(late.links.run, late.listening)
            await events.wait_for(up(2))
            await late.events.wait_for(heard(1, vote(3)))
            nursery.cancel_scope.cancel()


async def test_server_that_dials_us_is_dialled_at_once(monkeypatch):
    monkeypatch.setattr(election_connections, "REDIAL_SPREAD", (180_000, 180_000))
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
                count = sum(map(up(2), members[1].events.seen))
                talk = await is_dialled(listener)
                assert talk.agreed.sid == 1
                async with talk.stream:
                    with trio.fail_after(PATIENCE_SECONDS):
                        while sum(map(up(2), members[1].events.seen)) == count:
                            await members[1].events.changed.wait()
            assert ElectionLinkDown(2) not in members[1].events.seen[1:]


async def test_connection_that_closes_and_stays_closed_is_down():
    async with running(1, absent=(2,)) as (members, addresses):
        with open_listener("127.0.0.1", addresses[2].port) as listening:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
            talk = await is_dialled(listener)
            async with talk.stream:
                await members[1].events.wait_for(up(2))
        with trio.fail_after(PATIENCE_SECONDS):
            while members[1].events.seen[-1] != ElectionLinkDown(2):
                await members[1].events.changed.wait()


@pytest.mark.parametrize(
    ("sid", "me", "reason"),
    [
        (3, None, "server 2 is dialled, and this is server 3"),
        (2, Party(2, 3, 3, secrets=(Secret(bytes(32)),)), "has none of the secrets of server 2"),
    ],
    ids=["another server", "another ensemble"],
)
async def test_wrong_server_at_the_address_is_down(sid, me, reason):
    async with running(1, absent=(2,)) as (members, addresses):
        with open_listener("127.0.0.1", addresses[2].port) as listening:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
            with pytest.raises(MessageError, match=reason):
                await is_dialled(listener, sid, me)
            await members[1].events.wait_for(ElectionLinkDown(2))


async def test_who_is_not_known_hears_it_as_long_as_it_is_so():
    async with running(1, absent=(2,)) as (members, addresses):
        events = members[1].events
        await events.wait_for(ElectionLinkDown(2))
        with open_listener("127.0.0.1", addresses[2].port) as listening:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
            for _ in range(2):
                stream = await listener.accept()
                with pytest.raises(MessageError, match="not in the configuration"):
                    await meet(stream, greeting(2, others=(3,)).listening_for(AT_ELECTION_PORT, None))
                await stream.aclose()
            await events.wait_for(ElectionLinkDown(2, knows_us=False))
            with pytest.raises(MessageError, match="has none of the secrets"):
                await is_dialled(listener, 2, Party(2, 3, 3, secrets=(Secret(bytes(32)),)))
        with trio.fail_after(PATIENCE_SECONDS):
            while events.seen[-1] != ElectionLinkDown(2):
                await events.changed.wait()
        assert events.seen == [ElectionLinkDown(2), ElectionLinkDown(2, knows_us=False), ElectionLinkDown(2)]


@pytest.mark.parametrize(
    "garbage",
    [b"\xff", b"\x81\x00", cbor2.dumps([1 << 20_000]), encode(Ack(1, 1)), b""],
    ids=["no CBOR", "too few fields", "type of thousands of digits", "other message", "nothing"],
)
async def test_malformed_message_never_ends_the_receiver(garbage):
    """ZOOKEEPER-3769."""
    async with running(1, absent=(2,)) as (members, addresses):
        talk = await dial(addresses[1])
        async with talk.stream:
            await talk.send(garbage)
            await talk.send(encode(vote(5)))
            await members[1].events.wait_for(heard(2, vote(5)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sid": 9}, "server 9 is not in the configuration of server 1"),
        ({"sid": 1}, "has the same id"),
        ({"other": 2}, "server 2 is dialled"),
        ({"purpose": Purpose.QUORUM}, "not available here"),
        ({"me": Party(2, 1, 2, secrets=(SECRET,))}, "speaks versions 1 to 2"),
        ({"me": Party(2, 3, 3, secrets=(Secret(bytes(32)),))}, "has none of the secrets"),
        ({"me": Party(2, 3, 3, is_open=True)}, "has none of the secrets"),
    ],
)
async def test_who_is_refused_hears_why_and_nobody_else_notices(changes, reason):
    async with running(1, 2, absent=(3,)) as (members, addresses):
        with pytest.raises(MessageError, match=reason):
            await dial(addresses[1], **changes)
        members[2].links.send(SendNotification(1, vote(6)))
        await members[1].events.wait_for(heard(2, vote(6)))


@pytest.mark.parametrize(
    "first",
    [frame(encode(vote(1))), frame(cbor2.dumps([1 << 20_000])), b"\xff\xff\xff\xff"],
    ids=["no handshake", "type of thousands of digits", "no frame"],
)
async def test_no_handshake_ends_that_connection_and_no_other(first):
    async with running(1, 2, absent=(3,)) as (members, addresses):
        async with await trio.open_tcp_stream(addresses[1].host, addresses[1].port) as stream:
            await stream.send_all(first)
            with trio.fail_after(PATIENCE_SECONDS):
                while await stream.receive_some(100):
                    pass
        members[2].links.send(SendNotification(1, vote(6)))
        await members[1].events.wait_for(heard(2, vote(6)))


async def test_frames_that_are_no_notification_are_reported_once_a_connection(caplog):
    async with running(1, absent=(2,)) as (members, addresses):
        talk = await dial(addresses[1])
        async with talk.stream:
            for _ in range(500):
                await talk.send(b"\xff")
            await talk.send(encode(vote(5)))
            await members[1].events.wait_for(heard(2, vote(5)))
    assert sum("not a notification" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize("end", [b"\x7f\xff\xff\xff", frame(encode(vote(6)))], ids=["no length", "no seal"])
async def test_what_no_member_sends_ends_the_connection_after_the_votes_before_it(end):
    async with running(1, absent=(2,)) as (members, addresses):
        talk = await dial(addresses[1])
        async with talk.stream:
            await talk.send(encode(vote(5)))
            await talk.stream.send_all(end)
            await members[1].events.wait_for(heard(2, vote(5)))
            with trio.fail_after(PATIENCE_SECONDS):
                while await talk.stream.receive_some(100):
                    pass
        assert not members[1].events.has(heard(2, vote(6)))


async def test_newer_inbound_connection_of_a_server_replaces_the_older_one():
    async with running(1, absent=(2,)) as (members, addresses):
        older, newer = [await dial(addresses[1]) for _ in range(2)]
        async with older.stream, newer.stream:
            with trio.fail_after(PATIENCE_SECONDS):
                assert await older.stream.receive_some(1) == b""
            await newer.send(encode(vote(5)))
            await members[1].events.wait_for(heard(2, vote(5)))


async def end_of(talk):
    with trio.fail_after(PATIENCE_SECONDS):
        while await talk.stream.receive_some(100):
            pass


async def test_of_two_processes_with_one_id_the_one_at_its_address_is_heard():
    async with running(1, 2) as (members, addresses), trio.open_nursery() as nursery:
        await members[1].events.wait_for(up(2))
        double = Member(2, None, {1: addresses[1]})
        double.links.send(SendNotification(1, vote(666)))
        nursery.start_soon(double.links.run)
        await double.events.wait_for(ElectionLinkDown(1, is_taken=True))
        members[2].links.send(SendNotification(1, vote(7)))
        await members[1].events.wait_for(heard(2, vote(7)))
        # It was told, and comes in no more.
        ups = sum(map(up(1), double.events.seen))
        with pytest.raises(MessageError, match=r"server 2 is another process, at .*: check the dialler's myid"):
            await dial(addresses[1], life=double.links._greeting)
        assert sum(map(up(1), double.events.seen)) == ups <= 3
        nursery.cancel_scope.cancel()


async def test_a_server_in_another_life_is_heard_before_the_end_of_the_one_before_is_noticed():
    async with running(1) as (members, addresses):
        listener = open_listener("127.0.0.1", 0)
        async with trio.SocketListener(trio.socket.from_stdlib_socket(listener)) as at_its_address:
            before, after = greeting(2), greeting(2)
            members[1].links.meet({2: Address(*listener.getsockname())})
            half_open = await is_dialled(at_its_address, life=before)
            await members[1].events.wait_for(up(2))
            asked = await dial(addresses[1], life=after)
            await end_of(asked)
            again = await is_dialled(at_its_address, life=after)
            with trio.fail_after(PATIENCE_SECONDS):
                while sum(map(up(2), members[1].events.seen)) < 2:
                    await members[1].events.changed.wait()
            newest = await dial(addresses[1], life=after)
            await newest.send(encode(vote(5)))
            await members[1].events.wait_for(heard(2, vote(5)))
            with pytest.raises(EOFError):
                await half_open.receive()
            for talk in (half_open, asked, again, newest):
                await trio.aclose_forcefully(talk.stream)


async def test_who_came_while_nobody_was_at_the_address_goes_when_somebody_is():
    async with running(1) as (members, addresses):
        [port] = free_ports(1)
        members[1].links.meet({2: Address("127.0.0.1", port)})
        double, real = greeting(2), greeting(2)
        early = await dial(addresses[1], life=double)
        await early.send(encode(vote(5)))
        await members[1].events.wait_for(heard(2, vote(5)))
        async with trio.SocketListener(
            trio.socket.from_stdlib_socket(open_listener("127.0.0.1", port))
        ) as at_its_address:
            late = await is_dialled(at_its_address, life=real)
            await end_of(early)
            with pytest.raises(MessageError, match="check the dialler's myid"):
                await dial(addresses[1], life=double)
            await trio.aclose_forcefully(late.stream)
        # Nobody is at the address again, and the newest counts.
        with trio.fail_after(PATIENCE_SECONDS):
            while True:
                with contextlib.suppress(MessageError):
                    taken = await dial(addresses[1], life=double)
                    break
                await trio.sleep(0.01)
        await taken.send(encode(vote(6)))
        await members[1].events.wait_for(heard(2, vote(6)))
        for talk in (early, taken):
            await trio.aclose_forcefully(talk.stream)


async def test_a_version_whose_lives_have_no_names_is_heard():
    older = Party(2, 3, 3, ALL & ~LIVES, secrets=(SECRET,))
    async with running(1, 2) as (members, addresses):
        await members[1].events.wait_for(up(2))
        talk = await dial(addresses[1], me=older)
        async with talk.stream:
            await talk.send(encode(vote(5)))
            await members[1].events.wait_for(heard(2, vote(5)))


async def test_connection_without_proof_replaces_none():
    async with running(1, absent=(2,)) as (members, addresses):
        talk = await dial(addresses[1])
        async with talk.stream:
            with pytest.raises(MessageError, match="has none of the secrets"):
                await dial(addresses[1], me=Party(2, 3, 3, is_open=True))
            await talk.send(encode(vote(5)))
            await members[1].events.wait_for(heard(2, vote(5)))


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
        voter = await dial(addresses[1])
        await stack.enter_async_context(voter.stream)
        with trio.fail_after(PATIENCE_SECONDS):
            assert await silent[2].receive_some(1) == b""
        await voter.send(encode(vote(5)))
        await members[1].events.wait_for(heard(2, vote(5)))


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


async def test_who_belongs_to_the_ensemble_may_change():
    async with running(1, 2, 3) as (members, addresses):
        others = {2: addresses[2]}
        await members[1].events.wait_for(up(2), up(3))
        members[1].links.meet(others)
        members[1].links.send(SendNotification(3, vote(1)))
        members[1].links.send(SendNotification(2, vote(2)))
        await members[2].events.wait_for(heard(1, vote(2)))
        members[1].events.seen.clear()
        members[1].links.meet({2: addresses[2], 3: addresses[3]})
        await members[1].events.wait_for(up(3))
        assert not members[1].events.has(up(2)), "that connection was left alone"
        members[1].links.send(SendNotification(3, vote(3)))
        await members[3].events.wait_for(heard(1, vote(3)))
        assert not members[3].events.has(heard(1, vote(1)))


async def test_a_server_that_has_left_the_ensemble_is_answered_on_its_own_connection():
    """It does not know that it has left before somebody tells it, and goes on with a leader after the next election."""
    async with running(1, 2, 3) as (members, addresses):
        await members[1].events.wait_for(up(3))
        members[3].links.send(SendNotification(1, vote(1)))
        await members[1].events.wait_for(heard(3, vote(1)))
        members[1].links.meet({2: addresses[2]})
        with trio.fail_after(PATIENCE_SECONDS):
            while not members[3].events.has(heard(1, vote(3))):
                members[1].links.send(SendNotification(3, vote(3)))
                await trio.sleep(0.01)


async def test_a_server_that_has_moved_is_dialled_where_it_is():
    async with running(1, 2, 3) as (members, addresses):
        await members[1].events.wait_for(up(2), up(3))
        members[1].events.seen.clear()
        members[1].links.meet({2: addresses[2], 3: Address("localhost", addresses[3].port)})
        await members[1].events.wait_for(up(3))
        assert not members[1].events.has(up(2))


async def test_votes_carry_configurations():
    async with running(1, 2) as (members, _):
        members[1].links.send(SendNotification(2, vote(1), b"in force", b"outstanding"))
        await members[2].events.wait_for(heard(1, vote(1), b"in force", b"outstanding"))
        members[1].links.send(SendNotification(2, vote(2), b"x" * CONFIG_BYTES_MAX, b"y" * CONFIG_BYTES_MAX))
        await members[2].events.wait_for(lambda event: getattr(event, "in_force", b"")[:1] == b"x")
        members[1].links.send(SendNotification(2, vote(3)))
        await members[2].events.wait_for(heard(1, vote(3)))


async def test_what_is_said_without_proof_is_marked_so():
    """Where no secret is required, and none was shown."""
    address = Address("127.0.0.1", free_ports(1)[0])
    member = Member(1, open_listener("127.0.0.1", address.port), {})
    member.links = ElectionLinks(greeting(1, Party(1, 3, 3, is_open=True)), {}, member.events.post)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(member.links.run, member.listening)
        talk = await dial(address, 2, Party(2, 3, 3, is_open=True))
        async with talk.stream:
            await talk.send(encode(vote(4)))
            await member.events.wait_for(heard(2, vote(4), is_proven=False))
        nursery.cancel_scope.cancel()


async def test_a_server_of_no_configuration_is_answered_on_its_own_connection():
    port, other_port = free_ports(2)
    host = Member(1, open_listener("127.0.0.1", port), {})
    host.links = ElectionLinks(greeting(1, others=(7, 8)), {}, host.events.post)
    unlisted = Member(7, open_listener("127.0.0.1", other_port), {1: Address("127.0.0.1", port)})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.links.run, host.listening)
        nursery.start_soon(unlisted.links.run, unlisted.listening)
        unlisted.links.send(SendNotification(1, vote(1)))
        await host.events.wait_for(heard(7, vote(1)))
        host.links.send(SendNotification(7, vote(2), b"config"))
        await unlisted.events.wait_for(heard(1, vote(2), b"config"))
        nursery.cancel_scope.cancel()


async def test_so_many_servers_of_no_configuration_are_enough(monkeypatch):
    monkeypatch.setattr(election_connections, "UNLISTED_MAX", 1)
    host = Member(1, open_listener("127.0.0.1", port := free_ports(1)[0]), {})
    host.links = ElectionLinks(greeting(1, others=(7, 8)), {}, host.events.post)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.links.run, host.listening)
        first = await dial(Address("127.0.0.1", port), sid=7)
        async with first.stream:
            await first.send(encode(vote(1)))
            await host.events.wait_for(heard(7, vote(1)))
            second = await dial(Address("127.0.0.1", port), sid=8)
            async with second.stream:
                with trio.fail_after(PATIENCE_SECONDS), pytest.raises((EOFError, trio.BrokenResourceError)):
                    await second.receive()
            await first.send(encode(vote(2)))
            await host.events.wait_for(heard(7, vote(2)))
        nursery.cancel_scope.cancel()


async def test_who_hangs_up_was_not_refused_and_who_proves_nothing_was():
    async with running(1, absent=(2,)) as (members, addresses):
        refused = []
        members[1].links._greeting.refused = lambda *what: refused.append(what)
        stream = await trio.open_tcp_stream(addresses[1].host, addresses[1].port)
        await stream.aclose()
        with pytest.raises(MessageError):
            await dial(addresses[1], me=Party(2, 3, 3, secrets=(Secret(bytes(32)),)))
    assert len(refused) == 1
    assert "has none of the secrets" in refused[0][1]


def test_a_time_that_is_over_is_said_in_words():
    assert reason_of(trio.TooSlowError()) == "it does not answer in time"
    assert reason_of(EOFError()) == "it closed the connection"
    assert reason_of(OSError("unreachable")) == "unreachable"


class Reach:
    """In place of `ElectionLinks._reach`: each dial ends when the test says so, as it says."""

    def __init__(self):
        self.begun = 0
        self.changed = trio.Event()
        self.ends = trio.Event()
        self.result = None

    async def __call__(self, sid, address):
        self.begun += 1
        self.changed.set()
        self.changed = trio.Event()
        await self.ends.wait()
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    async def until_begun(self, count):
        with trio.fail_after(PATIENCE_SECONDS):
            while self.begun < count:
                await self.changed.wait()


class Talk:
    """As much of a conversation as a dial that is abandoned sees."""

    def __init__(self):
        self.stream, self.other = trio.testing.memory_stream_pair()


@pytest.mark.parametrize("is_reached", [False, True], ids=["failed", "reached"])
async def test_a_dial_that_ends_when_it_is_abandoned_counts_for_nothing(is_reached):
    """Its task runs after that: it is too late to cancel it. The address of its server is another one now."""
    member = Member(1, None, {2: Address("127.0.0.1", 1)})
    reach, talk = Reach(), Talk()
    reach.result = (talk, 1) if is_reached else ConnectionRefusedError("nobody listens")
    member.links._reach = reach
    async with trio.open_nursery() as nursery:
        nursery.start_soon(member.links.run)
        await reach.until_begun(1)
        ended, reach.ends = reach.ends, trio.Event()
        ended.set()
        member.links.meet({2: Address("127.0.0.1", 2)})
        await reach.until_begun(2)
        await trio.testing.wait_all_tasks_blocked()
        assert member.events.seen == []
        if is_reached:
            assert await talk.other.receive_some() == b""
        nursery.cancel_scope.cancel()


async def test_a_wait_that_ends_when_it_is_abandoned_dials_nobody(monkeypatch):
    ended = trio.Event()
    monkeypatch.setattr(module.trio, "sleep", lambda _seconds: ended.wait())
    member = Member(1, None, {2: Address("127.0.0.1", 1)})
    reach = Reach()
    reach.result = ConnectionRefusedError("nobody listens")
    member.links._reach = reach
    reach.ends.set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(member.links.run)
        await member.events.wait_for(lambda event: isinstance(event, ElectionLinkDown))
        reach.ends = trio.Event()
        ended.set()
        member.links.meet({2: Address("127.0.0.1", 2)})
        await reach.until_begun(2)
        await trio.testing.wait_all_tasks_blocked()
        assert reach.begun == 2
        nursery.cancel_scope.cancel()
