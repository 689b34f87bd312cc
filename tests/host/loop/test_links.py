"""Quorum links on real sockets: handshake, frames, order, limits. One turn is one call of `turn`."""

import socket
import time

import pytest

from tests.host.loop.before_a_turn import next_timer, tell_what_is_ready
from tests.host.loop.far_server import SECRET
from tests.host.loop.link_server import Server, socket_pair
from tests.host.loop.service import running
from tests.rigs.waiting import until
from zab.host.loop import links as links_module
from zab.host.loop.conversation import Greeted
from zab.host.loop.link import SHAKE_BYTES
from zab.host.loop.links import GREETING_MS
from zab.member.membership.greeting import AT_QUORUM_PORT, Purpose, party
from zab.member.storage.snapshot_request import REQUESTS, SnapshotRequest
from zab.member.wire_protocols import cut
from zab.protocol.events import DialFailed, MessageReceived, QuorumLinkDown, QuorumLinkUp
from zab.protocol.frame_limits import DATA_FRAME_BYTES_MAX, FRAME_BYTES_MAX
from zab.protocol.member_message import WRITE_HEAD, Request
from zab.protocol.message import (
    Ack,
    Commit,
    Confirm,
    Confirmed,
    Ping,
    Proposal,
    Refused,
    SessionKeys,
    UpToDate,
    decode,
    encode,
)
from zab.wire.frames import LENGTH, frame
from zab.wire.handshake import NONCE_BYTES, Listening, Secret
from zab.wire.records import MessageError
from zab.wire.seal import SEAL_BYTES
from zab.wire.secret_messages import ENCRYPTED


@pytest.fixture
def server():
    with running(Server()) as server:
        yield server


# ----------------------------------------------------------------------------------------------------------- handshakes


def greeted_by(server, theirs):
    """(the other end, what it has said to a handshake that was made elsewhere)."""
    other = server._other(theirs, 2)
    handshake = server.links._greeting.dialling(2, is_certified=False)
    listening = Listening(other._me, [1], AT_QUORUM_PORT, bytes(NONCE_BYTES))
    proof, agreed = handshake.welcomed(listening.welcome(handshake.hello()))
    other._listening = listening
    return other, Greeted(None, handshake, proof, agreed, 0.0)


def test_connection_that_was_greeted_is_up_at_once_and_says_its_proof(server):
    ours, theirs = socket_pair()
    other, greeted = greeted_by(server, theirs)
    server.links.adopt(ours, 2, None, greeted)
    [up] = server.turn()
    assert up == QuorumLinkUp(up.link, 2, False)
    other.take_proof()
    other.say(Ack(1, 2))
    assert server.turns() == [MessageReceived(up.link, Ack(1, 2))]


def test_connection_that_was_greeted_is_refused_where_the_secret_went_meanwhile(server):
    ours, theirs = socket_pair()
    _, greeted = greeted_by(server, theirs)
    server.party = party(1, [Secret(bytes(32))], is_open=False)
    server.links.adopt(ours, 2, None, greeted)
    assert server.turns() == [DialFailed(2)]


def test_inbound_link_is_up_once_the_dialler_has_proven_itself(server):
    other = server.dialled_by(2)
    other.begin()
    assert server.turns(0) == []
    other.prove()
    assert server.turns() == [QuorumLinkUp(1, 2, True)]
    assert other.agreed.sid == 1
    assert other.agreed.is_proven


def test_outbound_link_is_up_once_the_dialled_server_has_proven_itself(server):
    other = server.dials(3)
    other.answer()
    assert server.turns() == [QuorumLinkUp(1, 3, False)]
    other.take_proof()
    assert (other.agreed.sid, other.agreed.purpose) == (1, Purpose.QUORUM)


@pytest.mark.parametrize("open_side", [{}, {"secrets": (), "is_open": True}], ids=["with a secret", "in clear"])
def test_no_message_overtakes_the_proof(server, open_side):
    """In clear, an urgent message of the turn in which the link came up went first: the listener refused the link."""
    server.party = party(1, [SECRET], is_open=True)
    other = server.dials(3, **open_side)
    other.answer()
    inputs = []
    while not inputs:
        tell_what_is_ready(server.loop)
        server.links.receive(inputs)
    [up] = inputs
    server.links.send((up.link,), Ack(1, 1))
    server.turns(0)
    other.take_proof()
    assert other.hear() == Ack(1, 1)


@pytest.mark.parametrize("is_dialled", [True, False])
def test_open_server_speaks_in_clear_with_who_has_no_secret(server, is_dialled):
    """Until every member of an ensemble that runs has one."""
    server.party = party(1, [SECRET], is_open=True)
    if is_dialled:
        other, link = server.linked(2, secrets=(), is_open=True)
    else:
        other = server.dials(2, secrets=(), is_open=True)
        other.answer()
        [up] = server.turns()
        other.take_proof()
        link = up.link
    assert not other.agreed.is_proven
    other.say(Ack(1, 2))
    assert server.turns() == [MessageReceived(link, Ack(1, 2))]
    server.links.send((link,), Commit(3))
    server.turns(0)
    assert other.raw(len(framed(Commit(3)))) == framed(Commit(3))


def framed(message):
    return frame(encode(message))


def test_link_numbers_are_never_used_again(server):
    numbers = []
    for _ in range(3):
        other, link = server.linked()
        numbers.append(link)
        other.socket.close()
        server.turns()
    assert numbers == [1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "to", "purpose", "reason"),
    [
        ({"least_version": 4, "version": 4}, 1, Purpose.QUORUM, "speaks versions 4 to 4"),
        ({"as_sid": 1}, 1, Purpose.QUORUM, "has the same id"),
        ({"as_sid": 9}, 1, Purpose.QUORUM, "server 9 is not in the configuration"),
        ({}, 2, Purpose.QUORUM, "is dialled, and this is server 1"),
        ({}, 1, Purpose.ELECTION, "not available here"),
        ({"secrets": (Secret(bytes(32)),)}, 1, Purpose.QUORUM, "has none of the secrets"),
        ({"secrets": ()}, 1, Purpose.QUORUM, "has none of the secrets"),
    ],
)
def test_who_is_refused_hears_why_and_nobody_else_notices(server, changes, to, purpose, reason):
    known, link = server.linked(3)
    other = server.dialled_by(2, **changes)
    other.begin(to, purpose)
    assert server.turns(0) == []
    with pytest.raises(MessageError, match=reason):
        other.prove()
    assert other.rest() == b""
    known.say(Ack(1, 2))
    assert server.turns() == [MessageReceived(link, Ack(1, 2))]


def test_no_handshake_at_all_is_no_handshake(server):
    other = server.dialled_by(2)
    other.socket.sendall(framed(Commit(1)))
    assert server.turns(0) == []
    with pytest.raises(MessageError, match="refuses"):
        other.begin_and_prove()
    assert other.rest() == b""


def test_wrong_proof_replaces_nothing(server):
    """Not even the link of the one whom it pretends to be."""
    known, link = server.linked(2)
    other = server.dialled_by(2)
    other.begin()
    server.turns(0)
    other.prove(change=b"\1")
    assert server.turns(0) == []
    assert b"the proof of server 2 is wrong" in other.rest()
    known.say(Ack(1, 2))
    assert server.turns() == [MessageReceived(link, Ack(1, 2))]


def test_secret_that_is_added_while_the_server_runs_counts_from_then_on(server):
    new = Secret(bytes(32))
    server.party = party(1, [SECRET, new], is_open=False)
    other, _ = server.linked(2, secrets=(new,))
    assert other.agreed.is_proven


def test_another_server_than_the_one_dialled_is_a_failed_dial(server):
    other = server.dials(3, as_sid=2)
    with pytest.raises(MessageError, match="this is server 2"):
        other.answer()
    assert server.turns() == [DialFailed(3)]


def test_dialled_server_without_proof_is_a_failed_dial(server):
    other = server.dials(3, secrets=(), is_open=True)
    other.answer()
    assert server.turns() == [DialFailed(3)]


def test_dialled_server_that_closes_before_its_greeting_is_a_failed_dial(server):
    server.dials(3).socket.close()
    assert server.turns() == [DialFailed(3)]


def test_dial_that_failed_elsewhere_is_reported(server):
    server.links.dial_failed(3)
    assert server.links.has_news
    assert server.turns() == [DialFailed(3)]


@pytest.mark.parametrize("has_begun", [False, True])
def test_connection_that_does_not_prove_itself_is_closed_in_time(server, monkeypatch, has_begun):
    other = server.dialled_by(2)
    if has_begun:
        other.begin()
    server.turns(0)
    deadline = next_timer(server.loop)
    monkeypatch.setattr(links_module, "now_ms", lambda: deadline - 1)
    assert server.turns(0) == []
    monkeypatch.setattr(links_module, "now_ms", lambda: deadline)
    assert server.turns(0) == []
    assert bool(other.rest()) == has_begun
    assert next_timer(server.loop) is None
    assert GREETING_MS == 5_000


def test_each_stranger_is_lost_at_its_own_deadline(server, monkeypatch):
    clock = [links_module.now_ms()]
    monkeypatch.setattr(links_module, "now_ms", lambda: clock[0])
    for sid in (2, 3):
        server.dialled_by(sid)
        server.turns(0)
        clock[0] += 100
    counts = []
    for _ in range(2):
        clock[0] = next_timer(server.loop)
        server.turns(0)
        counts.append(len(server.links._links))
    assert counts == [1, 0]
    assert next_timer(server.loop) is None


def test_strangers_are_limited(server, monkeypatch):
    """The one that came first is closed; established ones are not touched."""
    monkeypatch.setattr(server.links._strangers, "count_max", 3)
    known, link = server.linked()
    strangers = [server.dialled_by(2) for _ in range(4)]
    server.turns(0)
    assert [other.is_open() for other in strangers] == [False, True, True, True]
    strangers[1].begin()
    server.turns(0)
    strangers[1].prove()
    assert [type(event) for event in server.turns()] == [QuorumLinkUp]
    known.say(Ack(1, 2))
    assert server.turns() == [MessageReceived(link, Ack(1, 2))]


REQUEST = REQUESTS.encode(SnapshotRequest(bytes(16), 77, bytes(range(16)), 5))


def test_who_comes_for_a_snapshot_is_handed_over_with_what_it_said(server):
    other = server.dialled_by(2)
    other.begin(1, Purpose.SNAPSHOT)
    server.turns(0)
    other.prove(then=(REQUEST,))
    assert server.turns(0) == []
    [(handed, _side, agreed, received)] = server.handed_over
    assert (agreed.sid, agreed.purpose) == (2, Purpose.SNAPSHOT)
    sealed = received[4:]
    handed.close()
    assert agreed.receiving.take(sealed) == REQUEST
    assert not len(server.links._deadlines)


def test_request_for_a_snapshot_is_no_message_of_a_link(server):
    other, link = server.linked()
    other.say_payload(REQUEST)
    assert server.turns() == [QuorumLinkDown(link)]


def test_message_right_after_the_proof_is_received(server):
    """What comes with the proof is more than a stranger may say in one frame."""
    message = Proposal([bytes(4_000)])
    other = server.dialled_by(2)
    other.begin()
    server.turns(0)
    other.prove(then=(encode(message), encode(Commit(1))))
    assert server.turns(3) == [QuorumLinkUp(1, 2, True), MessageReceived(1, message), MessageReceived(1, Commit(1))]


def test_once_there_is_an_input_nothing_more_is_offered_at_once(server):
    """Neither on its link, nor on another one that is read after it."""
    other, link = server.linked()
    offered = []

    def take(number, payload):
        offered.append((number, payload))
        return payload == encode(Commit(1))

    server.take_at_once = take
    other.say(Commit(1), Commit(2), Commit(1))
    assert server.turns(2) == [MessageReceived(link, Commit(2)), MessageReceived(link, Commit(1))]
    assert offered == [(link, encode(Commit(1))), (link, encode(Commit(2)))]


@pytest.mark.parametrize("has_begun", [False, True])
def test_frame_above_the_limit_of_strangers_is_refused_by_its_length_alone(server, has_begun):
    other = server.dialled_by(2)
    if has_begun:
        other.begin()
        server.turns(0)
    other.socket.sendall((4097).to_bytes(4, "big"))
    assert server.turns(0) == []
    assert bool(other.rest()) == has_begun


# ------------------------------------------------------------------------------------------------------------ receiving


def test_messages_arrive_in_order_however_they_are_cut(server):
    other, link = server.linked()
    messages = [Ack(1, 2), Commit(3), Request([[[], [WRITE_HEAD.pack(1, 2, 3) + b"body"]]]), Confirm(4)]
    stream = b"".join(map(other.sealed, messages))
    events = []
    for index in range(len(stream)):
        other.socket.sendall(stream[index : index + 1])
        time.sleep(0.0002)
        events += server.turn()
    events += server.turns(len(messages) - len(events))
    assert events == [MessageReceived(link, message) for message in messages]


def test_all_links_are_read_in_one_turn_up_to_half_a_mebibyte_each(server):
    first, first_link = server.linked(2)
    second, second_link = server.linked(3)
    message = Proposal([bytes(100)])
    first.say(*[message] * 2000)
    second.say(Ack(1, 2))
    time.sleep(0.05)
    events = server.turn()
    assert events.count(MessageReceived(first_link, message)) == 2000
    assert MessageReceived(second_link, Ack(1, 2)) in events
    first.say(*[message] * 6000)
    second.say(Ack(1, 3))
    time.sleep(0.05)
    events = server.turn()
    count = events.count(MessageReceived(first_link, message))
    assert 0 < count <= (512 << 10) // 100
    assert MessageReceived(second_link, Ack(1, 3)) in events
    assert server.turns(6000 - count).count(MessageReceived(first_link, message)) == 6000 - count


def test_messages_before_the_end_are_delivered_and_nothing_after_it(server):
    other, link = server.linked()
    other.say(Ack(1, 2), Ack(1, 3))
    other.socket.close()
    assert server.turns(3) == [
        MessageReceived(link, Ack(1, 2)),
        MessageReceived(link, Ack(1, 3)),
        QuorumLinkDown(link),
    ]


KEYS = SessionKeys([[bytes(8), bytes(range(32))]])
GARBAGE = {
    "no length": b"\0\0\0\0",
    "negative length": b"\xff\xff\xff\xff",
    "too long": (FRAME_BYTES_MAX + SEAL_BYTES + 1).to_bytes(4, "big"),
    "no seal": framed(Ack(1, 2)),
    "shorter than a seal": b"\0\0\0\x01\xff",
}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_bytes_that_are_no_message_break_that_link_and_no_other(server, garbage):
    good, good_link = server.linked(3)
    bad, bad_link = server.linked(2)
    bad.say(Ack(1, 1))
    bad.socket.sendall(GARBAGE[garbage])
    good.say(Ack(1, 2))
    events = server.turns(3)
    assert sorted(events, key=repr) == sorted(
        [MessageReceived(bad_link, Ack(1, 1)), QuorumLinkDown(bad_link), MessageReceived(good_link, Ack(1, 2))],
        key=repr,
    )
    assert bad.rest() == b""


@pytest.mark.parametrize("payload", [b"\xff", b"\x81\x19"], ids=["no CBOR", "cut CBOR"])
def test_sealed_bytes_that_are_no_message_break_the_link(server, payload):
    other, link = server.linked()
    other.say_payload(payload)
    assert server.turns() == [QuorumLinkDown(link)]


def test_frame_that_is_said_again_breaks_the_link(server):
    """So does one that is left out, or comes before its time: each is sealed with its number."""
    other, link = server.linked()
    once = other.sealed(Ack(1, 2))
    other.socket.sendall(once + once)
    assert server.turns(2) == [MessageReceived(link, Ack(1, 2)), QuorumLinkDown(link)]


@pytest.mark.parametrize("is_open", [False, True])
def test_secret_that_is_sent_in_clear_breaks_the_link(server, is_open):
    if is_open:
        server.party = party(1, [], is_open=True)
        other, link = server.linked(secrets=(), is_open=True)
    else:
        other, link = server.linked()
    other.say(KEYS)
    assert server.turns() == [QuorumLinkDown(link)]


def test_what_is_no_secret_may_not_be_encrypted(server):
    other, link = server.linked()
    other.say_payload(ENCRYPTED + other.agreed.encrypting.encrypt(encode(Commit(1))))
    assert server.turns() == [QuorumLinkDown(link)]


@pytest.mark.parametrize("is_open", [False, True])
def test_secret_that_cannot_be_decrypted_breaks_the_link(server, is_open):
    if is_open:
        server.party = party(1, [], is_open=True)
        other, link = server.linked(secrets=(), is_open=True)
    else:
        other, link = server.linked()
    other.say_payload(ENCRYPTED + bytes(100))
    assert server.turns() == [QuorumLinkDown(link)]


def test_secret_arrives_and_only_its_receiver_can_read_it(server):
    other, link = server.linked()
    server.links.send((link,), KEYS)
    server.turns(0)
    payload = other.payload()
    assert bytes(range(32)) not in payload
    assert payload.startswith(ENCRYPTED)
    encrypted = other.agreed.receiving.take(payload)[len(ENCRYPTED) :]
    assert decode(other.agreed.decrypting.decrypt(encrypted)) == KEYS
    other.say_payload(ENCRYPTED + other.agreed.encrypting.encrypt(encode(KEYS)))
    assert server.turns() == [MessageReceived(link, KEYS)]


def test_secret_is_left_out_where_the_other_end_has_proven_nothing(server):
    proven, link = server.linked(3)
    server.party = party(1, [], is_open=True)
    unproven, open_link = server.linked(2, secrets=(), is_open=True)
    server.links.send((open_link, link), KEYS)
    server.links.send((open_link, link), Commit(1))
    server.turns(0)
    assert unproven.hear() == Commit(1)
    assert proven.payload().startswith(ENCRYPTED)


# -------------------------------------------------------------------------------------------------------------- sending


def test_one_message_goes_to_several_links_and_gone_ones_are_skipped(server):
    first, first_link = server.linked(2)
    second, second_link = server.linked(3)
    server.links.send((first_link, 99, second_link), Commit(7))
    server.turns(0)
    assert first.hear() == Commit(7)
    assert second.hear() == Commit(7)


def test_everything_of_a_turn_is_one_send(server, monkeypatch):
    _, link = server.linked()
    for zxid in range(10):
        server.links.send((link,), Commit(zxid))
    found = server.links._links[link]
    sizes = []

    class Counting:
        def send(self, data):
            sizes.append(len(data))
            return len(data)

    monkeypatch.setattr(found, "send", Counting().send)
    server.links.flush()
    assert sizes == [(len(framed(Commit(0))) + SEAL_BYTES) * 10]


def test_acknowledgements_pings_and_confirmations_overtake_data_and_keep_their_order(server):
    """H2: after 100 KB of forwarded requests an acknowledgement would come too late."""
    other, link = server.linked()
    ping = Ping(1, 1, 1, [], False)
    sent = [Request([[[], [bytes(100_000)]]]), Ack(1, 5), ping, Commit(5), Confirm(1), Confirmed(1), Ack(1, 6)]
    for message in sent:
        server.links.send((link,), message)
    server.turns(0)
    arrived = [other.hear() for _ in sent]
    assert arrived == [Ack(1, 5), ping, Confirm(1), Confirmed(1), Ack(1, 6), sent[0], Commit(5)]


def test_urgent_message_waits_for_no_more_than_what_is_joined_already(server):
    other, link = server.linked()
    for _ in range(64):
        server.links.send((link,), Proposal([bytes(DATA_FRAME_BYTES_MAX - 100)]))
    server.turns(0)
    assert server.links.unsent_bytes(link) > 1 << 20, "the socket took all: nothing is tested"
    server.links.send((link,), Ack(1, 1))
    before = 0
    while not isinstance(other.hear(), Ack):
        before += 1
        server.turn()
    assert before < 60


def test_large_proposals_are_cut_between_batches():
    batches = [bytes([number]) * 100_000 for number in range(6)]
    pieces = cut(Proposal(batches))
    assert [batch for piece in pieces for batch in piece.batches] == batches
    assert [len(piece.batches) for piece in pieces] == [2, 2, 2]
    assert cut(Proposal([bytes(DATA_FRAME_BYTES_MAX + 1)])) == [Proposal([bytes(DATA_FRAME_BYTES_MAX + 1)])]


def test_write_interest_only_while_something_is_unsent(server):
    other, link = server.linked()
    found = server.links._links[link]
    assert found.interest == links_module.READ
    for _ in range(40):
        server.links.send((link,), Proposal([bytes(200_000)]))
    server.turns(0)
    assert found.interest == links_module.READ | links_module.WRITE
    received = 0
    while received < 40:
        other.hear()
        received += 1
        server.turn()
    server.turns(0)
    assert found.interest == links_module.READ
    assert server.links.unsent_bytes(link) == 0


def test_link_whose_other_side_does_not_read_is_broken_at_the_limit(server, monkeypatch):
    monkeypatch.setattr(links_module, "UNSENT_BYTES_MAX", 1 << 20)
    _, link = server.linked()
    for _ in range(100):
        server.links.send((link,), Proposal([bytes(200_000)]))
    assert server.turns() == [QuorumLinkDown(link)]
    server.links.send((link,), Commit(1))
    assert server.turns(0) == []


def test_send_on_a_reset_link_is_reported_once(server):
    other, link = server.linked()
    other.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    other.socket.close()
    server.links.send((link,), Commit(1))
    server.links.flush()
    events = server.turns()
    assert events == [QuorumLinkDown(link)]


# -------------------------------------------------------------------------------------------------------------- closing


def test_closing_link_sends_what_was_queued_and_reports_nothing(server):
    other, link = server.linked()
    server.links.send((link,), Refused("not leading"))
    server.links.close(link, "not leading")
    server.links.send((link,), Commit(1))
    other.say(Ack(1, 1))
    assert server.turns(0) == []
    assert other.hear() == Refused("not leading")
    assert other.rest() == b""
    other.socket.close()
    assert server.turns(0) == []
    assert link not in server.links._links


def test_last_words_survive_unread_bytes_of_the_other_side(server):
    """A close with unread bytes resets the connection, and the reset overtakes what was sent."""
    other, link = server.linked()
    server.links.send((link,), Refused("replaced"))
    server.links.close(link, "replaced")
    server.links.flush()
    other.say(*[Ack(1, 1)] * 100)
    server.turns(0)
    assert other.hear() == Refused("replaced")


def test_closing_link_that_cannot_send_is_closed_in_time(server, monkeypatch):
    _, link = server.linked()
    for _ in range(100):
        server.links.send((link,), Proposal([bytes(200_000)]))
    server.links.close(link, "not leading")
    server.turns(0)
    assert link in server.links._links
    deadline = next_timer(server.loop)
    monkeypatch.setattr(links_module, "now_ms", lambda: deadline)
    assert server.turns(0) == []
    assert link not in server.links._links


def test_server_that_is_not_admitted_yet_says_little_at_a_time(server):
    large = Request([[[[b"ip", b"x"]], [WRITE_HEAD.pack(1, 2, 3) + bytes(5000)]]])
    early, _ = server.linked(2)
    early.say(large)
    assert server.turns() == [QuorumLinkDown(1)]
    assert early.rest() == b""
    late, link = server.linked(3)
    server.links.send((link,), UpToDate(7))
    late.say(large)
    assert server.turns() == [MessageReceived(link, large)]


def test_server_that_we_have_dialled_sends_its_history(server):
    other = server.dials(3)
    other.answer()
    [up] = server.turns()
    other.take_proof()
    history = Proposal([bytes(100_000)])
    other.say(history)
    assert server.turns() == [MessageReceived(up.link, history)]


# ------------------------------------------------------------------------------------------- before and without proof


def test_stranger_makes_no_more_work_a_turn_than_a_handshake_needs(server):
    other = server.dialled_by(2)
    other.socket.setblocking(False)
    assert server.turns(0) == []
    [link] = server.links._links.values()
    other.socket.send(LENGTH.pack(4000) + bytes(3000))
    sent = 0
    for _ in range(20):
        try:
            sent += other.socket.send(bytes(1 << 20))
        except BlockingIOError:
            break
    assert sent > 100_000
    server.turn()
    assert link.frames.kept_bytes <= SHAKE_BYTES
    assert server.turns(0) == []
    assert link.gone or link.closing


def test_who_goes_on_before_he_is_answered_is_refused(server):
    other = server.dialled_by(2)
    other.begin()
    other.socket.sendall(frame(b"more"))
    assert server.turns(0) == []
    with pytest.raises(MessageError, match="sends more before it is answered"):
        other.prove()


def test_link_ends_with_the_secret_that_proved_it(server):
    second = Secret(bytes(range(1, 33)))
    server.party = party(1, [SECRET, second], is_open=False)
    old, _ = server.linked(2)
    new, link = server.linked(3, secrets=(second,))
    server.party = party(1, [second], is_open=False)
    server.links.doubt()
    assert server.turns() == [QuorumLinkDown(1)]
    assert old.rest() == b""
    new.say(Ack(1, 2))
    assert server.turns() == [MessageReceived(link, Ack(1, 2))]


def test_handshake_under_a_secret_that_is_taken_away_meanwhile_ends_in_nothing(server):
    inbound = server.dialled_by(2)
    inbound.begin()
    outbound = server.dials(3)
    assert server.turns(0) == []
    outbound.answer()
    server.party = party(1, [Secret(bytes(range(1, 33)))], is_open=False)
    server.links.doubt()
    inbound.prove()
    assert server.turns() == [DialFailed(3)]


def test_who_hangs_up_was_not_refused_and_who_proves_nothing_was(server):
    """A member that dials elsewhere by now, or somebody who looks at open ports: real intrusions would drown."""
    refused = []
    server.links._refused = lambda *what: refused.append(what)
    for has_said in (False, True):
        other = server.dialled_by(2)
        if has_said:
            other.begin()
            server.turns(0)
        other.socket.close()
        until(lambda: server.turns(0) == [] and not server.links._links)
    assert refused == []
    other = server.dialled_by(2)
    other.begin()
    server.turns(0)
    other.prove(change=b"\1")
    until(lambda: server.turns(0) == [] and refused)
    assert [reason for _, reason in refused] == ["the proof of server 2 is wrong"]
