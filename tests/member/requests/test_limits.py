"""What all connections together may have of unfinished frames, and of answers, on whole members. The limits of one
connection, and on load, are among the tests of the processor, which they hold back."""

import pytest

from datatree.opcodes import OpCode
from tests.rigs.direct.members import Ensemble
from zab.member.requests.processor import ANSWERED_BYTES
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.wire.frames import LENGTH


def unfinished(size: int) -> bytes:
    """The length of a frame that is a megabyte, and so much of it."""
    return LENGTH.pack(1 << 20) + bytes(size)


def test_unfinished_frames_of_all_together_are_limited_and_whoever_has_most_is_closed() -> None:
    ensemble = Ensemble(1, jute__maxbuffer=1 << 20, totalInputLimitBytes=2 << 20)
    metrics = ensemble.servers[1].member.metrics
    most, *others = (ensemble.session() for _ in range(5))
    most.say(unfinished(700_000))
    ensemble.settle()
    for other in others:
        assert not most.is_closed
        other.say(unfinished(400_000))
        ensemble.settle()
    assert most.is_closed
    assert not any(other.is_closed for other in others)
    assert (metrics.connections_closed_for_input, metrics.connection_drop_count) == (1, 1)


def test_frames_that_were_finished_meanwhile_count_no_more() -> None:
    ensemble = Ensemble(1, jute__maxbuffer=1 << 20, totalInputLimitBytes=2 << 20)
    clients = [ensemble.session() for _ in range(8)]
    ensemble.do(clients[0], clients[0].create(b"/a"))
    for client in clients:
        whole = client.set(b"/a", bytes(700_000))
        client.say(whole[:-1])
        ensemble.settle()
        assert ensemble.do(client, whole[-1:])
    assert not any(client.is_closed for client in clients)


def test_who_ends_within_a_frame_counts_no_more_and_is_forgotten() -> None:
    ensemble = Ensemble(1, jute__maxbuffer=1 << 20, totalInputLimitBytes=2 << 20)
    for _ in range(8):
        client = ensemble.session()
        client.say(unfinished(700_000))
        ensemble.settle()
        assert not client.is_closed
        client.close()
        ensemble.settle()
    assert not ensemble.servers[1].member.limits.inputs.noted


def test_of_two_addresses_the_one_with_more_of_unfinished_frames_loses_its_largest() -> None:
    """A client with many connections ended another one's, whose only request was longer than each of its own."""
    ensemble = Ensemble(1, jute__maxbuffer=1 << 20, totalInputLimitBytes=2 << 20)
    crowd, innocent = [ensemble.session() for _ in range(5)], ensemble.session()
    innocent.connection.host = "10.0.0.1"
    innocent.say(unfinished(900_000))
    ensemble.settle()
    for number, client in enumerate(crowd):
        client.say(unfinished(300_000 + number))
        ensemble.settle()
    assert not innocent.is_closed
    assert [client.is_closed for client in crowd] == [False, False, False, True, True]


def test_a_sixteenth_is_made_free_so_that_not_every_turn_looks_at_everybody() -> None:
    ensemble = Ensemble(1, jute__maxbuffer=1 << 20, totalInputLimitBytes=2 << 20, maxClientCnxns=0)
    clients = [ensemble.session() for _ in range(106)]
    for client in clients:
        client.say(unfinished(20_000))
        ensemble.settle()
    closed = sum(client.is_closed for client in clients)
    assert ensemble.servers[1].member.limits.inputs.bytes <= (2 << 20)
    assert 5 <= closed <= 8


@pytest.mark.parametrize(("length", "count"), [(1, 1_600), (3_000, 100)], ids=["many", "long ones"])
def test_requests_that_wait_count_with_unfinished_frames(length: int, count: int) -> None:
    """Reads after a write that is not durable yet: each keeps what it says, and more than that if it is short."""
    ensemble = Ensemble(1, jute__maxbuffer=1 << 20, totalInputLimitBytes=2 << 20)
    server = ensemble.servers[1]
    clients = [ensemble.session() for _ in range(12)]
    server.durable_held = True
    for number, client in enumerate(clients):
        client.say(client.create(b"/%d" % number))
        ensemble.settle()
    for client in clients:
        client.say(b"".join(client.exists(b"/" + bytes(length)) for _ in range(count)))
        ensemble.settle()
    closed = [client for client in clients if client.is_closed]
    assert 3 <= len(closed) <= 8
    assert server.member.metrics.connections_closed_for_input == len(closed)
    ensemble.release(server)
    server.durable_held = False
    ensemble.settle()
    assert {len(client.replies()) for client in clients if not client.is_closed} == {count + 1}
    others = [ensemble.session() for _ in range(3)]
    for other in others:
        other.say(unfinished(600_000))
        ensemble.settle()
    assert not any(other.is_closed for other in others), "what was answered counts no more"


def test_requests_that_were_answered_meanwhile_end_nobody() -> None:
    """One that always waits for an answer is counted again only when all together seem to be too much."""
    ensemble = Ensemble(1, jute__maxbuffer=1 << 20, totalInputLimitBytes=2 << 20)
    server, client = ensemble.servers[1], ensemble.session()
    for number in range(20):
        server.durable_held = True
        client.say(client.create(b"/%d" % number) + client.exists(b"/" + bytes(300_000)))
        ensemble.settle()
        ensemble.release(server)
        server.durable_held = False
        ensemble.settle()
        assert not client.is_closed
    assert len(client.replies()) == 40


def test_answers_before_writes_of_one_batch_come_over_several_turns_and_within_the_limit_of_all() -> None:
    """Reads between two writes cannot wait for anybody who is slow. With one batch for the second writes of many, each
    had twice outputLimitBytes of answers in a single turn."""
    ensemble = Ensemble(1, outputLimitBytes=8 << 20, jute__maxbuffer=1 << 20, totalOutputLimitBytes=16 << 20)
    server = ensemble.servers[1]
    clients = [ensemble.session() for _ in range(10)]
    ensemble.do(clients[0], clients[0].create(b"/big", bytes(900_000)))
    server.keep_output = server.durable_held = True
    for number, client in enumerate(clients):
        path = b"/%d" % number
        client.say(client.create(path) + b"".join(client.get(b"/big") for _ in range(7)) + client.set(path, b"x"))
    ensemble.settle()
    ensemble.release(server)
    most, had = 0, 0
    while server.member.processor.waiting.outstanding_count or server.answers:
        ensemble.step(server)
        has = sum(client.connection.unsent_bytes for client in clients if not client.is_closed)
        most, had = max(most, has - had), has
        assert has <= 16 << 20
    assert most <= ANSWERED_BYTES + (1 << 20)
    closed = [client for client in clients if client.is_closed]
    assert 0 < len(closed) < 10
    assert server.member.metrics.connections_closed_for_output == len(closed)
    for number in range(10):
        znode = server.member.tree.get(b"/%d" % number)
        assert znode is not None
        assert server.member.tree.data_of(b"/%d" % number, znode) == b"x"


# ------------------------------------------------------------------------------------------ writes on their way


def on_their_way(ensemble: Ensemble) -> int:
    """Bytes of writes that nobody has taken in yet."""
    return sum(
        len(row)
        for waiting in ensemble.on_wire.values()
        for _, message in waiting
        if isinstance(message, mmsg.Request)
        for _, rows in message.rows
        for row in rows
    )


@pytest.mark.parametrize("stays", [True, False], ids=["they stay", "they go"])
def test_a_follower_forwards_so_much_and_the_rest_when_that_has_come_back(
    monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    """The leader always reads its links (H1), so it is the learners that bound what it has to keep, and what waits on
    the link, which is broken when that is too much."""
    monkeypatch.setattr("zab.member.requests.forwarding.FORWARDED_BYTES_MAX", 100_000)
    ensemble = Ensemble(3)
    follower = ensemble.follower
    clients = [ensemble.session(ensemble.follower) for _ in range(20)]
    ensemble.late.add(ensemble.leader.sid)
    for number, client in enumerate(clients):
        client.say(client.create(b"/%02d" % number, bytes(20_000)))
        if not stays:
            ensemble.settle()
            client.close()
    ensemble.settle()
    assert 100_000 <= on_their_way(ensemble) <= 121_000
    assert len(follower.member.processor.intake) >= 14
    ensemble.late.clear()
    ensemble.settle()
    assert all(follower.member.tree.get(b"/%02d" % number) is not None for number in range(20))
    if stays:
        assert [client.replies()[-1][1] for client in clients] == [0] * 20
    assert not follower.member.processor.forwarded.writes
    assert follower.member.processor.forwarded.bytes == 0


def test_identities_count_in_what_is_on_its_way_until_their_writes_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write of 30 bytes takes along all that its client has proven to be."""
    monkeypatch.setattr("zab.member.requests.forwarding.FORWARDED_BYTES_MAX", 100_000)
    ensemble = Ensemble(3)
    follower = ensemble.follower
    clients = [ensemble.session(ensemble.follower) for _ in range(40)]
    for client in clients:
        assert client.connection.identify((b"digest", b"%d:" % client.connection.id + b"x" * 4_000))
    ensemble.late.add(ensemble.leader.sid)
    for number, client in enumerate(clients):
        client.say(client.create(b"/%02d" % number) + client.create(b"/%02d/x" % number))
    ensemble.settle()
    sent = [
        message for waiting in ensemble.on_wire.values() for _, message in waiting if isinstance(message, mmsg.Request)
    ]
    assert 95_000 <= sum(len(msg.encode(message)) for message in sent) <= 105_000
    ensemble.late.clear()
    ensemble.settle()
    assert [[error for _, error, _ in client.replies()[-2:]] for client in clients] == [[0, 0]] * 40
    assert not follower.member.processor.forwarded.writes
    assert follower.member.processor.forwarded.bytes == 0


def test_while_writes_are_left_nobody_sends_more_of_them_and_others_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third write is left, so the fourth is the last that its client can send."""
    monkeypatch.setattr("zab.member.requests.forwarding.FORWARDED_BYTES_MAX", 10_000)
    ensemble = Ensemble(3, jute__maxbuffer=1 << 20)
    writers = [ensemble.session(ensemble.follower) for _ in range(4)]
    slow, reader = ensemble.session(ensemble.follower), ensemble.session(ensemble.follower)
    ensemble.late.add(ensemble.leader.sid)
    for number, writer in enumerate(writers):
        writer.say(writer.create(b"/%02d" % number, bytes(9_000)))
        ensemble.settle()
    slow.say(unfinished(10)[:12])
    ensemble.settle()
    assert [writer.connection.paused for writer in writers] == [False, False, False, True]
    assert slow.connection.paused
    assert ensemble.do(reader, reader.get(b"/"))
    assert not reader.connection.paused
    ensemble.late.clear()
    ensemble.settle()
    assert not any(each.connection.paused for each in (*writers, slow))
    assert [writer.replies()[-1][1] for writer in writers] == [0] * 4


def test_session_of_whoever_is_not_read_from_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pings are not heard while others have too much on its way."""
    monkeypatch.setattr("zab.member.requests.forwarding.FORWARDED_BYTES_MAX", 10_000)
    ensemble = Ensemble(3)
    writers = [ensemble.session(ensemble.follower, timeout_ms=2_000) for _ in range(4)]
    for server in ensemble.servers.values():
        server.durable_held = server is not ensemble.leader
    for number, writer in enumerate(writers):
        writer.say(writer.create(b"/%02d" % number, bytes(9_000)))
        ensemble.settle()
    held = writers[-1]
    assert held.connection.paused
    for _ in range(4):
        for writer in writers:
            if not writer.connection.paused:
                writer.say(writer.request(OpCode.PING, xid=-2))
        ensemble.advance(1_000)
    for server in ensemble.servers.values():
        ensemble.release(server)
    ensemble.settle()
    assert not any(writer.is_closed for writer in writers)
    assert {writer.connection.session for writer in writers} <= set(ensemble.leader.member.tree.sessions)
    assert [writer.replies()[-1][1] for writer in writers] == [0] * 4


def test_session_of_whoever_reads_nothing_ends() -> None:
    """It is not read from because of what it does itself."""
    ensemble = Ensemble(1, outputLimitBytes=1 << 20, jute__maxbuffer=1 << 20)
    server = ensemble.servers[1]
    client, mute = ensemble.session(), ensemble.session(timeout_ms=2_000)
    ensemble.do(client, client.create(b"/big", bytes(900_000)))
    server.keep_output = True
    mute.say(b"".join(mute.get(b"/big") for _ in range(3)))
    ensemble.settle()
    assert mute.connection.paused
    ensemble.advance(5_000)
    assert mute.connection.session not in server.member.tree.sessions
