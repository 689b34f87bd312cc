"""The way of a request: order, syncs, watches and limits, on whole members."""

from collections.abc import Iterator
from random import Random

import pytest

from datatree.errors import ErrorCode
from datatree.log.batch import Batch
from datatree.opcodes import OpCode
from datatree.requests import OPEN_ACL, Create, Multi, PathOnly, PathVersion, SetData
from datatree.znode import STAT_LAYOUT, stat_of
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble
from zab.member.requests.under_way import Write
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import frame_limits
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.quorum.ids import ServerId


def data_of(body: object) -> bytes | None:
    assert isinstance(body, tuple)
    data: bytes | None = body[0]
    return data


@pytest.fixture(params=["leader", "follower"])
def served(request: pytest.FixtureRequest) -> tuple[Ensemble, Client]:
    """A client of an ensemble of three, on the leader and on a follower."""
    ensemble = Ensemble(3)
    return ensemble, ensemble.session(getattr(ensemble, request.param))


def test_a1_reads_between_pipelined_writes_see_exactly_the_writes_before_them(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    requests = [client.create(b"/a", b"0")]
    for number in range(1, 6):
        requests += [client.set(b"/a", b"%d" % number), client.get(b"/a"), client.get(b"/a")]
    replies = ensemble.do(client, *requests)
    assert [error for _, error, _ in replies] == [0] * 16
    assert [xid for xid, _, _ in replies] == list(range(1, 17))
    got = [data_of(body) for xid, _, body in replies if client.opcodes[xid] == OpCode.GET_DATA]
    assert got == [b"%d" % number for number in range(1, 6) for _ in range(2)]


def test_a1_event_of_a_write_precedes_its_reply_and_follows_the_reply_that_registered_the_watch(
    served: tuple[Ensemble, Client],
) -> None:
    ensemble, client = served
    ensemble.do(client, client.create(b"/a"))
    client.take_received()
    client.say(
        client.get(b"/a", watch=True) + client.set(b"/a", b"1") + client.get(b"/a", watch=True) + client.delete(b"/a")
    )
    ensemble.settle()
    kinds = [item[:2] if item[0] == "reply" else (item[0], item[2]) for item in client.take_received()]
    assert kinds == [("reply", 2), ("event", 3), ("reply", 3), ("reply", 4), ("event", 2), ("reply", 5)]


def test_zxid_of_a_reply_moves_with_each_transaction_of_a_batch(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    client.take_received()
    client.say(client.create(b"/a") + client.get(b"/a") + client.set(b"/a", b"1") + client.get(b"/a"))
    ensemble.settle()
    zxids = [item[2] for item in client.take_received()]
    assert zxids == [zxids[0], zxids[0], zxids[0] + 1, zxids[0] + 1]


def test_all_writes_of_a_turn_are_one_batch_and_one_message() -> None:
    ensemble = Ensemble(3)
    clients = [ensemble.session(ensemble.follower) for _ in range(3)]
    ensemble.sent.clear()
    for client in clients:
        client.say(b"".join(client.create(b"/%d-%d" % (client.connection.id, n)) for n in range(10)))
    ensemble.settle()
    assert sum(isinstance(message, mmsg.Request) for _, message in ensemble.sent) == 1
    proposals = [message for _, message in ensemble.sent if isinstance(message, msg.Proposal)]
    assert [len(message.batches) for message in proposals] == [1] * len(proposals)
    assert all(len(client.take_received()) == 10 for client in clients)


def test_learner_forwards_a_large_turn_in_messages_of_bounded_size() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.follower)
    ensemble.sent.clear()
    replies = ensemble.do(client, *[client.create(b"/%d" % number, bytes(60_000)) for number in range(10)])
    assert [(xid, error) for xid, error, _ in replies] == [(xid, 0) for xid in range(1, 11)]
    requests = [message.rows for _, message in ensemble.sent if isinstance(message, mmsg.Request)]
    assert [[len(writes) for _, writes in rows] for rows in requests] == [[4], [4], [2]]


def test_forwarded_writes_keep_their_order_and_each_its_identities() -> None:
    ensemble = Ensemble(3)
    ensemble.settle()
    sender, receiver = ensemble.follower.member.processor, ensemble.leader.member.processor
    local, known = (b"ip", b"127.0.0.1"), (b"digest", b"ann:secret")
    identities = [(local,), (local,), (local, known), (local,), (), (known,), (known,)]
    writes: list[Write] = [
        ((-7 - number % 2, number, int(OpCode.SET_DATA), b"body%d" % number, proven), None, ServerId(1), 0)
        for number, proven in enumerate(identities)
    ]
    sender.intake.arrived.extend(writes)
    (message,) = sender.forwarded.take(sender.intake)
    assert [len(rows) for _, rows in message.rows] == [2, 1, 1, 1, 2]
    assert receiver.submit_forwarded(msg.decode(msg.encode(message)), owner=ServerId(2))
    assert not sender.intake
    assert [asked for asked, _, _, _ in receiver.intake] == [asked for asked, _, _, _ in writes]


SHORT: list[tuple[tuple[bytes, bytes], ...]] = [
    (),
    ((b"ip", b"::1"),),
    ((b"ip", b"127.0.0.1"),),
    tuple((b"digest", b"%d" % number) for number in range(64)),
]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.long
def test_whatever_a_member_forwards_the_leader_reads(seed: int) -> None:
    """Short writes of many connections, whose identities differ from one to the next, are many items in few bytes."""
    ensemble = Ensemble(3)
    sender, receiver = ensemble.follower.member.processor, ensemble.leader.member.processor
    rng = Random(seed)
    known = rng.sample(SHORT, rng.randint(2, len(SHORT)))
    bodies = [b"", b"body", bytes(100)][: rng.randint(1, 3)]
    writes: list[Write] = [
        ((-7, number, int(OpCode.DELETE), rng.choice(bodies), known[number % len(known)]), None, ServerId(1), 0)
        for number in range(16_000)
    ]
    sender.intake.arrived.extend(writes)
    while sender.intake:
        sender.forwarded.bytes = 0
        for message in sender.forwarded.take(sender.intake):
            assert receiver.submit_forwarded(msg.decode(msg.encode(message)), owner=2)
    assert [asked for asked, _, _, _ in receiver.intake] == [asked for asked, _, _, _ in writes]


def known_as(client: Client) -> None:
    """All the identities that a connection may have, as long as they may be."""
    while client.connection.identify((b"digest", b"%d:" % len(client.connection.identities) + bytes([120]) * 4_000)):
        pass


def test_identities_count_towards_the_size_of_a_message() -> None:
    ensemble = Ensemble(3, maxClientCnxns=0)
    clients = [ensemble.session(ensemble.follower) for _ in range(80)]
    for client in clients:
        client.connection.identify((b"digest", b"%d:x" % client.connection.id))
        known_as(client)
        client.say(client.create(b"/%d" % client.connection.id))
    ensemble.sent.clear()
    ensemble.settle()
    assert [error for client in clients for _, error, _ in client.replies() if error] == []
    sizes = [len(msg.encode(message)) for _, message in ensemble.sent if isinstance(message, mmsg.Request)]
    assert len(sizes) == 3
    assert max(sizes) < 280_000


@pytest.mark.parametrize("entries", [1, 100, 140, 1_000])
def test_auth_in_a_multi_grows_to_what_members_can_send_or_is_refused(entries: int) -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.follower)
    known_as(client)
    acl = ((31, b"auth", b""),)
    parts = tuple((int(OpCode.CREATE), Create(b"/%d" % number, b"", acl, 0)) for number in range(entries))
    ((_, _, results),) = ensemble.do(client, client.request(OpCode.MULTI, Multi(parts).encode()))
    assert (ErrorCode.INVALIDACL in [result.error for result in results]) == (entries > 100)
    assert ensemble.do(client, client.create(b"/after"))[0][1] == 0
    # A single list, too.
    many = tuple((31, b"auth", b"%d" % number) for number in range(entries))
    assert ensemble.do(client, client.create(b"/list", acl=many))[0][1] == (
        ErrorCode.INVALIDACL if entries > 100 else 0
    )


@pytest.mark.parametrize("limit", [1_048_575, 10 << 20])
def test_the_largest_write_fits_into_a_frame_between_members(limit: int) -> None:
    ensemble = Ensemble(3, jute__maxbuffer=limit, outputLimitBytes=16 << 20)
    client = ensemble.session(ensemble.follower)
    known_as(client)
    ensemble.sent.clear()
    data = bytes(limit - 100)
    assert ensemble.do(client, client.create(b"/large", data, acl=((31, b"auth", b""),)))[0][1] == 0
    assert data_of(ensemble.do(client, client.get(b"/large"))[0][2]) == data
    assert max(len(msg.encode(message)) for _, message in ensemble.sent) <= frame_limits.FRAME_BYTES_MAX


def test_batches_end_at_their_limits_and_a_larger_write_goes_alone() -> None:
    ensemble = Ensemble(1, maxBatchBytes=10_000, maxBatchCount=5)
    client = ensemble.session()
    first = ensemble.servers[1].member.tree.applied
    counts: list[int] = []
    server = ensemble.servers[1]
    deliver = server.member.processor.deliver

    def counting(batch: Batch) -> Iterator[None]:
        counts.append(batch.count)
        return deliver(batch)

    server.member.processor.deliver = counting  # type: ignore[method-assign]
    small = [client.create(b"/s%d" % n) for n in range(12)]
    large = [client.create(b"/l%d" % n, bytes(8_000)) for n in range(2)]
    huge = client.create(b"/h", bytes(30_000))
    replies = ensemble.do(client, *small, *large, huge)
    assert [error for _, error, _ in replies] == [0] * 15
    assert counts == [5, 5, 3, 1, 1]
    assert server.member.tree.applied == first + 15


def test_a2_refused_write_is_a_transaction_of_its_own(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    before = ensemble.leader.member.tree.applied
    replies = ensemble.do(client, client.delete(b"/missing"), client.create(b"/a"), client.create(b"/a"))
    assert [error for _, error, _ in replies] == [ErrorCode.NONODE, 0, ErrorCode.NODEEXISTS]
    assert ensemble.leader.member.tree.applied == before + 3


def test_undecodable_write_is_marshallingerror_and_the_connection_goes_on(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    replies = ensemble.do(client, client.request(OpCode.CREATE, b"\x00\x00\x00\x09/a"), client.create(b"/a"))
    assert replies == [(1, ErrorCode.MARSHALLINGERROR, None), (2, 0, b"/a")]


def test_every_kind_of_write_gets_its_kind_of_reply(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    plain = Create(b"/a", b"x", OPEN_ACL, 0)
    parts = (
        (1, Create(b"/m", b"", OPEN_ACL, 0)),
        (13, PathVersion(b"/m", 0)),
        (5, SetData(b"/m", b"1", 0)),
        (2, PathVersion(b"/m", -1)),
    )
    refused = ((1, Create(b"/n", b"", OPEN_ACL, 0)), (2, PathVersion(b"/missing", -1)), (2, PathVersion(b"/n", -1)))
    replies = ensemble.do(
        client,
        client.request(OpCode.CREATE2, plain.encode()),
        client.request(OpCode.CREATE_CONTAINER, Create(b"/c", b"", OPEN_ACL, 4).encode()),
        client.request(OpCode.CREATE_TTL, Create(b"/t", b"", OPEN_ACL, 5, 1000).encode()),
        client.request(OpCode.MULTI, Multi(parts).encode()),
        client.request(OpCode.MULTI, Multi(refused).encode()),
        client.delete(b"/a"),
    )
    assert [error for _, error, _ in replies] == [0, 0, ErrorCode.UNIMPLEMENTED, 0, 0, 0]
    path, stat = replies[0][2]
    assert path == b"/a"
    assert STAT_LAYOUT.unpack(stat)[8] == 1
    assert replies[1][2][0] == b"/c"
    assert [(part.opcode, part.error) for part in replies[3][2]] == [(1, 0), (13, 0), (5, 0), (2, 0)]
    assert [(part.opcode, part.error) for part in replies[4][2]] == [(-1, 0), (-1, -101), (-1, -2)]


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_create_if_not_exists_answers_with_the_path_of_what_is_there(role: str) -> None:
    ensemble = Ensemble(3, createIfNotExistsEnabled="true")
    client, watcher = ensemble.session(getattr(ensemble, role)), ensemble.session()
    ensemble.do(watcher, watcher.add_watch(b"/", 1))
    asked = Create(b"/a", b"x", OPEN_ACL, 0)
    parts = Multi(((502, asked), (502, Create(b"/a/b", b"", OPEN_ACL, 1)), (502, Create(b"/a/b", b"", OPEN_ACL, 0))))
    replies = ensemble.do(
        client,
        client.request(OpCode.CREATE_IF_NOT_EXISTS, asked.encode()),
        client.get(b"/a"),
        client.set(b"/a", b"y"),
        client.request(OpCode.CREATE_IF_NOT_EXISTS, asked.encode()),
        client.get(b"/a"),
        client.request(OpCode.MULTI, parts.encode()),
        client.request(OpCode.CREATE_IF_NOT_EXISTS, Create(b"/missing/a", b"", OPEN_ACL, 0).encode()),
        client.get(b"/a/b"),
    )
    assert [(xid, error) for xid, error, _ in replies] == [*((xid, 0) for xid in range(1, 7)), (7, -101), (8, 0)]
    assert [body for xid, _, body in replies if xid in (1, 4)] == [b"/a", b"/a"]
    assert [data_of(replies[index][2]) for index in (1, 4)] == [b"x", b"y"]
    assert [(part.opcode, part.error, part.value) for part in replies[5][2]] == [
        (1, 0, b"/a"),
        (1, 0, b"/a/b"),
        (1, 0, b"/a/b"),
    ]
    ensemble.settle()
    assert watcher.events() == [(1, b"/a"), (3, b"/a"), (1, b"/a/b")]


def test_create_if_not_exists_is_an_unknown_operation_where_it_is_off() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    body = Create(b"/a", b"", OPEN_ACL, 0).encode()
    replies = ensemble.do(client, client.request(OpCode.CREATE_IF_NOT_EXISTS, body), client.create(b"/a"))
    assert replies == [(1, ErrorCode.UNIMPLEMENTED, None)]
    assert client.is_closed
    assert ensemble.leader.value(b"/a") is None


def test_create_if_not_exists_is_refused_where_it_is_off_on_the_leader_alone() -> None:
    ensemble = Ensemble(3)
    follower = ensemble.follower
    follower.member.processor._writes |= {OpCode.CREATE_IF_NOT_EXISTS}
    client = ensemble.session(follower)
    body = Create(b"/a", b"", OPEN_ACL, 0).encode()
    replies = ensemble.do(client, client.request(OpCode.CREATE_IF_NOT_EXISTS, body), client.create(b"/b"))
    assert replies == [(1, ErrorCode.UNIMPLEMENTED, None), (2, 0, b"/b")]


def test_watchers_on_every_member_are_told_and_others_are_not() -> None:
    ensemble = Ensemble(3)
    writer = ensemble.session()
    ensemble.do(writer, writer.create(b"/a"))
    watchers = [ensemble.session(server) for server in ensemble.servers.values()]
    for watcher in watchers:
        ensemble.do(
            watcher, watcher.sync(), watcher.get(b"/a", True), watcher.children(b"/", True), watcher.exists(b"/b", True)
        )
    ensemble.do(writer, writer.set(b"/a", b"1"), writer.create(b"/b"), writer.set(b"/a", b"2"))
    assert [watcher.events() for watcher in watchers] == [[(3, b"/a"), (1, b"/b"), (4, b"/")]] * 3


def test_events_of_an_unreadable_znode_are_not_told() -> None:
    ensemble = Ensemble(1)
    owner, stranger = ensemble.session(), ensemble.session()
    secret = ((31, b"ip", b"10.1.1.1"), (2, b"world", b"anyone"))
    ensemble.do(stranger, stranger.add_watch(b"/", 1))
    ensemble.do(owner, owner.create(b"/secret", b"", acl=secret), owner.set(b"/secret", b"1"), owner.create(b"/open"))
    assert stranger.events() == [(1, b"/open")]


def test_sync_waits_for_a_quorum_and_holds_back_what_follows_it() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.leader)
    others = [server.sid for server in ensemble.others(ensemble.leader)]
    ensemble.cut = set(others)
    assert ensemble.do(client, client.get(b"/"), client.sync(b"/x"), client.get(b"/")) == [
        (1, 0, (b"", client_stat(client)))
    ]
    ensemble.cut = set()
    ensemble.settle()
    assert [(xid, error) for xid, error, _ in client.replies()] == [(2, 0), (3, 0)]


def client_stat(client: Client) -> bytes:
    znode = client.server.member.tree.get(b"/")
    assert znode is not None
    return stat_of(znode)


def test_sync_on_a_follower_shows_everything_written_before_it() -> None:
    ensemble = Ensemble(3)
    writer, reader = ensemble.session(ensemble.leader), ensemble.session(ensemble.follower)
    follower = ensemble.follower
    ensemble.do(writer, writer.create(b"/a"))
    follower.durable_held = True
    ensemble.do(writer, writer.set(b"/a", b"new"))
    assert [data_of(body) for _, _, body in ensemble.do(reader, reader.get(b"/a"))] == [b""]
    assert ensemble.do(reader, reader.sync(), reader.get(b"/a")) == []
    ensemble.release(follower)
    ensemble.settle()
    assert [data_of(body) for xid, _, body in reader.replies() if xid == 3] == [b"new"]


def test_sync_before_a_write_is_done_when_the_write_is_committed_first() -> None:
    ensemble = Ensemble(3)
    leader = ensemble.leader
    client = ensemble.session(leader)
    ensemble.do(client, client.create(b"/a", b"0"))
    confirmed = leader.member.peer.step

    def without_confirmations(now: int, event: ev.Event) -> list[fx.Effect]:
        if isinstance(event, ev.MessageReceived) and isinstance(event.message, msg.Confirmed):
            return []
        return confirmed(now, event)

    leader.member.peer.step = without_confirmations  # type: ignore[method-assign]
    replies = ensemble.do(client, client.sync(), client.get(b"/a"), client.set(b"/a", b"1"), client.get(b"/a"))
    assert [xid for xid, _, _ in replies] == [2, 3, 4, 5]
    assert [data_of(replies[1][2]), data_of(replies[3][2])] == [b"0", b"1"]


def test_malformed_sync_is_refused_in_its_place() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    replies = ensemble.do(
        client, client.create(b"/a"), client.request(OpCode.SYNC, b"\x00\x00\x00\x09/"), client.get(b"/a")
    )
    assert [(xid, error) for xid, error, _ in replies] == [(1, 0), (2, ErrorCode.MARSHALLINGERROR), (3, 0)]


def test_close_session_is_answered_and_ends_the_connection_and_its_ephemerals(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    other = ensemble.session()
    ensemble.do(client, client.create(b"/e", b"", 1))
    ensemble.do(other, other.sync(), other.exists(b"/e", True))
    replies = ensemble.do(client, client.request(OpCode.CLOSE_SESSION), client.get(b"/"))
    assert replies == [(2, 0, None)]
    assert client.is_closed
    assert other.events() == [(2, b"/e")]
    assert all(client.connection.session not in server.member.tree.sessions for server in ensemble.servers.values())


def test_unknown_operation_is_refused_in_its_place_and_ends_the_connection(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    client.take_received()
    client.say(client.create(b"/a") + client.request(99) + client.get(b"/a"))
    ensemble.settle()
    assert [item[1:4] for item in client.take_received()][1:] == [(2, -1, ErrorCode.UNIMPLEMENTED)]
    assert client.is_closed


def test_nothing_is_answered_behind_an_operation_that_ends_the_connection() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    assert ensemble.do(client, client.request(99), client.get(b"/")) == [(1, ErrorCode.UNIMPLEMENTED, None)]


@pytest.mark.parametrize("opcode", [0, OpCode.CHECK, OpCode.DELETE_CONTAINER, OpCode.CREATE_SESSION, OpCode.ERROR])
def test_operations_that_clients_may_not_send_end_the_connection(opcode: int) -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    replies = ensemble.do(client, client.request(opcode, PathVersion(b"/zookeeper", -1).encode()))
    assert replies == [(1, ErrorCode.UNIMPLEMENTED, None)]
    assert client.is_closed


def test_ping_and_auth_overtake_what_waits() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    ensemble.servers[1].durable_held = True
    replies = ensemble.do(client, client.create(b"/a"), client.request(OpCode.PING, b"", -2))
    assert replies == [(-2, 0, None)]
    ensemble.release(ensemble.servers[1])
    ensemble.settle()
    assert client.replies() == [(1, 0, b"/a")]


def test_frame_without_a_header_ends_the_connection() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    assert ensemble.do(client, b"\x00\x00\x00\x04abcd") == []
    assert client.is_closed


def test_output_limit_stops_answering_until_there_is_room() -> None:
    ensemble = Ensemble(1, outputLimitBytes=1 << 20, jute__maxbuffer=1 << 20)
    server = ensemble.servers[1]
    client = ensemble.session()
    ensemble.do(client, client.create(b"/a", bytes(1 << 19)))
    server.keep_output = True
    client.say(b"".join(client.get(b"/a") for _ in range(10)))
    ensemble.settle()
    unsent = client.connection.unsent_bytes
    assert 1 << 20 < unsent < 2 << 20
    assert client.connection.paused
    server.keep_output = False
    client.connection.unsent_bytes = 0
    ensemble.settle()
    assert not client.connection.paused
    assert [xid for xid, _, _ in client.replies()] == list(range(4, 12))


def test_reads_without_room_are_answered_before_the_write_behind_them() -> None:
    ensemble = Ensemble(1, outputLimitBytes=1 << 20, jute__maxbuffer=1 << 20)
    client = ensemble.session()
    ensemble.do(client, client.create(b"/a", b"0" * (1 << 19)))
    requests = [
        client.set(b"/x", b""),
        *[client.get(b"/a") for _ in range(3)],
        client.set(b"/a", b"1"),
        client.get(b"/a"),
    ]
    replies = ensemble.do(client, *requests)
    assert [xid for xid, _, _ in replies] == list(range(2, 8))
    assert [data_of(body) for _, _, body in replies if isinstance(body, tuple)] == [b"0" * (1 << 19)] * 3 + [b"1"]


def test_reads_far_beyond_the_output_limit_before_a_write_end_the_connection() -> None:
    ensemble = Ensemble(1, outputLimitBytes=1 << 20, jute__maxbuffer=1 << 20)
    client = ensemble.session()
    ensemble.do(client, client.create(b"/a", b"0" * (1 << 19)))
    reads = [client.get(b"/a") for _ in range(8)]
    ensemble.do(client, client.set(b"/x", b""), *reads, client.set(b"/a", b"1"))
    assert client.is_closed
    assert client.connection.out_bytes < 3 << 20
    assert ensemble.servers[1].value(b"/a") == b"1"


def test_client_that_never_reads_is_closed() -> None:
    ensemble = Ensemble(1, outputLimitBytes=1 << 20, jute__maxbuffer=1 << 20)
    client, other = ensemble.session(), ensemble.session()
    ensemble.servers[1].keep_output = True
    ensemble.do(client, client.add_watch(b"/", 1))
    path = b"/" + b"p" * 100_000
    ensemble.do(other, other.create(path))
    for number in range(40):
        if client.is_closed:
            break
        ensemble.do(other, other.set(path, b"%d" % number))
    assert client.is_closed
    assert not other.is_closed


def test_output_of_all_together_is_limited_and_whoever_has_most_is_closed() -> None:
    """Each of them stays within its own limit."""
    ensemble = Ensemble(1, outputLimitBytes=1 << 20, jute__maxbuffer=1 << 20, totalOutputLimitBytes=3 << 20)
    server = ensemble.servers[1]
    writer, *readers = (ensemble.session() for _ in range(8))
    ensemble.do(writer, writer.create(b"/a", bytes(1 << 18)))
    server.keep_output = True
    most = readers[0]
    for reader in (most, *readers):
        reader.say(b"".join(reader.get(b"/a") for _ in range(2)))
        ensemble.settle()
    assert sum(reader.connection.unsent_bytes for reader in readers if not reader.is_closed) <= 3 << 20
    assert most.is_closed
    assert not writer.is_closed
    assert 0 < sum(reader.is_closed for reader in readers) < 4


def test_output_that_was_sent_meanwhile_counts_no_more() -> None:
    ensemble = Ensemble(1, outputLimitBytes=1 << 20, jute__maxbuffer=1 << 20, totalOutputLimitBytes=3 << 20)
    server = ensemble.servers[1]
    readers = [ensemble.session() for _ in range(6)]
    ensemble.do(readers[0], readers[0].create(b"/a", bytes(1 << 18)))
    for reader in readers:
        server.keep_output = True
        reader.say(b"".join(reader.get(b"/a") for _ in range(3)))
        ensemble.settle()
        server.keep_output = False
        reader.connection.unsent_bytes = 0
    assert not any(reader.is_closed for reader in readers)


def test_load_limit_pauses_whoever_waits_and_sends_more() -> None:
    ensemble = Ensemble(1, globalOutstandingLimit=10)
    server = ensemble.servers[1]
    busy, quiet = ensemble.session(), ensemble.session()
    server.durable_held = True
    ensemble.do(busy, *[busy.create(b"/a%d" % n) for n in range(20)])
    assert not busy.connection.paused
    ensemble.do(busy, busy.get(b"/"))
    assert busy.connection.paused
    assert len(ensemble.do(quiet, quiet.get(b"/"))) == 1
    assert not quiet.connection.paused
    ensemble.release(server)
    ensemble.settle()
    assert not busy.connection.paused
    assert len(busy.replies()) == 21
    assert server.member.processor.waiting.outstanding_count == 0


def test_learners_share_the_load_limit() -> None:
    """With three members, each follower has one half of it."""
    ensemble = Ensemble(3, globalOutstandingLimit=20)
    busy = ensemble.session(ensemble.follower)
    ensemble.leader.durable_held = True
    for other in ensemble.others(ensemble.leader):
        other.durable_held = True
    for count, is_paused in ((8, False), (4, True)):
        ensemble.do(busy, *[busy.create(b"/a", b"", 2) for _ in range(count)])
        ensemble.do(busy, busy.get(b"/"))
        assert busy.connection.paused is is_paused


def test_writes_wait_while_the_leader_may_not_propose() -> None:
    ensemble = Ensemble(1, maxBatchesInFlight=1)
    server = ensemble.servers[1]
    client = ensemble.session()
    server.durable_held = True
    ensemble.do(client, client.create(b"/a"))
    ensemble.do(client, client.create(b"/b"))
    assert len(server.member.processor.intake) == 1
    ensemble.do(client, client.create(b"/c"))
    assert client.connection.paused
    ensemble.release(server)
    ensemble.settle()
    assert [xid for xid, _, _ in client.replies()] == [1, 2, 3]
    assert not client.connection.paused
    assert server.member.processor.proposing.prepare is not None
    assert len(server.member.processor.proposing.prepare.outstanding) == 0


def test_disconnected_client_leaves_nothing_behind_but_its_writes() -> None:
    ensemble = Ensemble(1)
    server = ensemble.servers[1]
    client = ensemble.session()
    server.durable_held = True
    ensemble.do(client, client.get(b"/", True), client.create(b"/a"), client.get(b"/a"), client.sync())
    client.close()
    ensemble.settle()
    member = server.member
    assert (member.processor.waiting.outstanding_count, member.state.watches.total_count, len(member.clients.all)) == (
        0,
        0,
        0,
    )
    ensemble.release(server)
    ensemble.settle()
    assert member.tree.get(b"/a") is not None


def test_reads_agree_with_the_history_under_random_load() -> None:
    """A dumb twin: every value is unique, so a reply's zxid says which value a read had to see."""
    for seed in range(8):
        _run_random_load(Random(seed))


def _run_random_load(random: Random) -> None:
    ensemble = Ensemble(3)
    setup = ensemble.session()
    paths = [b"/a", b"/b", b"/c"]
    ensemble.do(setup, *[setup.create(path, b"first") for path in paths])
    clients = [ensemble.session(ensemble.servers[random.randint(1, 3)]) for _ in range(5)]
    for client in clients:
        ensemble.do(client, client.sync())
    asked: dict[tuple[Client, int], tuple[bytes, bytes]] = {}
    for turn in range(30):
        for client in random.sample(clients, random.randint(1, 5)):
            requests = []
            for _ in range(random.randint(1, 6)):
                path = random.choice(paths)
                value = b"%d.%d" % (turn, len(asked))
                kind = random.choice(["get", "get", "set", "sync"])
                requests.append(
                    {"get": client.get, "sync": client.sync}.get(kind, lambda p, v=value, c=client: c.set(p, v))(path)
                )
                asked[client, client.last_xid] = (path, value)
            client.say(b"".join(requests))
        for server in random.sample(list(ensemble.servers.values()), 2):
            if server.answers:
                ensemble.step(server)
    ensemble.settle()
    history: dict[bytes, list[tuple[int, bytes]]] = {path: [(0, b"first")] for path in paths}
    for client in clients:
        for _, xid, zxid, error, _ in client.received:
            assert not error
            if client.opcodes[xid] == OpCode.SET_DATA:
                path, value = asked[client, xid]
                history[path].append((zxid, value))
    for client in clients:
        assert [item[1] for item in client.received] == sorted(item[1] for item in client.received)
        latest = 0
        for _, xid, zxid, _, body in client.received:
            assert zxid >= latest
            latest = zxid
            if client.opcodes[xid] == OpCode.GET_DATA:
                path, _ = asked[client, xid]
                due = max((when, value) for when, value in history[path] if when <= zxid)[1]
                assert data_of(body) == due


def test_sync_request_of_a_path_is_echoed() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    assert ensemble.do(client, client.request(OpCode.SYNC, PathOnly(b"/any").encode())) == [(1, 0, b"/any")]
