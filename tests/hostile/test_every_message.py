"""Every message, with the extremes of each of its fields, to a peer in every place of the protocol.

`test_lies` tells whole ensembles lies at random; this walk leaves nothing to chance. What it tried is counted, and it
fails where a message was not tried somewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, get_args

import attrs
import cbor2
import pytest

from datatree.log import batch as codec
from datatree.log.zxid import COUNTER_MAX, EPOCH_MAX, Epoch, Zxid, make_zxid
from datatree.opcodes import OpCode
from tests.hostile.places import PLACES, Kept, Place
from tests.protocol.alone import HISTORY, LINEAGE, OTHER_LINEAGE
from tests.protocol.example_messages import EXAMPLES
from tests.rigs.direct.members import Ensemble, Server
from zab.member.settings.zoo_cfg import Config, parse
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.discovery import EPOCH_JUMP_MAX
from zab.protocol.election import ROUND_JUMP_MAX
from zab.protocol.handlers import HANDLERS
from zab.protocol.peer import Peer
from zab.protocol.roles import Stage
from zab.protocol.states import BATCHES, DISCOVERY, FOLLOWING, LEADING, LOOKING, OBSERVING, TRANSITIONS, State
from zab.quorum.ids import Link, ServerId
from zab.wire.records import BytesRange, IntRange, MessageError

ROWS = 300
"""The largest lists: far above what any member says."""
EXAMPLE_OF = {type(example): example for example in EXAMPLES}
IDENTITIES: tuple[Any, ...] = ([], [[b"", b""]], [[b"x" * 256, b"x" * 4096]], [[b"ip", b"::1"]] * ROWS)
TRIED: dict[tuple[type[msg.Message], str], int] = {}


# ------------------------------------------------------------------------------------------------ the values of a field


def numbers(low: int, high: int, near: set[int]) -> list[int]:
    """The bounds, off by one inside, and what is around that which the peer knows."""
    return sorted(n for n in {low, low + 1, 0, 1, high - 1, high, *near} if low <= n <= high)


def near(peer: Peer, name: str) -> set[int]:
    """What is on both sides of the epochs, zxids and rounds that count here."""
    role = peer.leading or peer.following
    known = {peer.accepted_epoch, (role and role.epoch) or 0}
    if name in ("epoch", "accepted_epoch"):
        around = known | {peer.accepted_epoch + EPOCH_JUMP_MAX}
    elif name in ("round", "tag"):
        round_ = peer.leading.confirm_round if peer.leading is not None else peer.election.round
        around = {round_, peer.election.round + ROUND_JUMP_MAX}
    elif name in ("zxid", "above", "applied", "fence"):
        around = {peer.history.last[0], peer.history.base[0], peer.committed, *(make_zxid(e, 0) for e in known)}
        around |= {make_zxid(epoch, COUNTER_MAX) for epoch in known}
    else:
        return set(range(5)) if name == "leader" else set()
    return {value + by for value in around for by in (-1, 0, 1)}


def batches(peer: Peer) -> list[list[bytes]]:
    """PROPOSALs: none, no batches, ones that fit, and fit almost."""
    zxid, chain = peer.history.last
    role = peer.leading or peer.following
    known = (role.epoch if role is not None else None) or peer.current_epoch
    made = []
    for epoch, counter, count in (
        *((known, 1, 1), (known, 1, COUNTER_MAX), (known + 1, 1, 1), (EPOCH_MAX, 1, 1), (known, COUNTER_MAX, 1)),
        *((peer.current_epoch, (zxid & COUNTER_MAX) + 1, 1), (peer.current_epoch, 1, 1)),
    ):
        first = make_zxid(epoch, counter)
        for mark in {0, min(zxid, first - 1), first - 1}:
            made.append(
                codec.build(
                    chain, epoch=epoch, first=first, count=count, time=(-1) ** count << 62, flags=3, mark=Zxid(mark),
                    applied=mark, digest=(1 << 64) - 1, body=b"x", digest_version=(1 << 32) - 1,
                ).raw
            )  # fmt: skip
    good = made[0]
    return [
        *([], [b"\0"], [b"\xff" * 84], [HISTORY[0].raw], [HISTORY[0].raw] * ROWS, [bytes(1 << 20)]),
        *([raw] for raw in made),
        *([good, good], [good, b"\0"], [good, good + b"\0"], [good, made[-1]], [*made, good]),
    ]


def values(peer: Peer, kind: type[msg.Message], field: attrs.Attribute[Any]) -> list[Any]:
    """The extremes of one field."""
    check, name = field.metadata["check"], field.name
    if isinstance(check, IntRange):
        return numbers(check.low, check.high, near(peer, name))
    if isinstance(check, BytesRange):
        chains = [end[1] for end in (peer.history.last, peer.history.base)]
        return [bytes(check.low), b"\xff" * check.high, *chains]
    if check is msg.is_bool:
        return [False, True]
    if name == "lineage":
        return [b"", bytes(16), LINEAGE, OTHER_LINEAGE]
    return {
        "batches": lambda: batches(peer),
        "touched": lambda: [[], [[-(1 << 63), -(1 << 31)]], [[(1 << 63) - 1, (1 << 31) - 1], [0, 0]], [[1, 1]] * ROWS],
        "reason": lambda: ["", "x" * msg.REASON_BYTES_MAX, "\n\x1b\u202e"],
        "keys": lambda: [[[bytes(8), bytes(32)]], [[b"\xff" * 8, b"\xff" * 32]] * 2],
        "rows": lambda: [
            *([], [[[], []]], [[[], [b"\xff" * 16]]], [[[], [bytes(16)] * ROWS]], [[[], [bytes(1 << 20)]]]),
            *([[identities, [bytes(16)]]] for identities in IDENTITIES),
        ],
    }[name]()


def messages(peer: Peer, kind: type[msg.Message], *, few: bool) -> Iterator[msg.Message]:
    """As bytes give them: all fields at their lowest and at their highest; an example; and what is right here, with
    each field by itself at its extremes. The two that say where a history ends go together."""
    for message in _messages(peer, kind, few=few):
        yield msg.decode(msg.encode(message))


def _messages(peer: Peer, kind: type[msg.Message], *, few: bool) -> Iterator[msg.Message]:
    fields = attrs.fields(kind)
    extremes = {field.name: values(peer, kind, field) for field in fields}
    for at in (0, -1):
        yield kind(**{name: each[at] for name, each in extremes.items()})
    if few:
        return
    yield EXAMPLE_OF[kind]
    base = right(peer, kind)
    yield base
    if {"zxid", "chain"} <= extremes.keys():
        for zxid, chain in product(extremes.pop("zxid"), extremes.pop("chain")):
            yield attrs.evolve(base, zxid=zxid, chain=chain)
    for name, each in extremes.items():
        for value in each:
            yield attrs.evolve(base, **{name: value})


def right(peer: Peer, kind: type[msg.Message]) -> msg.Message:
    """As a member would say it here, as far as one can know."""
    role = peer.leading or peer.following
    zxid, chain = peer.history.last
    said = {
        "epoch": (role and role.epoch) or peer.accepted_epoch + 1,
        "accepted_epoch": peer.accepted_epoch,
        "zxid": zxid,
        "chain": chain,
        "lineage": peer.lineage,
        "round": peer.election.round if kind is msg.Notification else 1,
        "leader": 3,
        "holds": 3,
        "amnesiac": False,
        "is_low": False,
    }
    names = {field.name for field in attrs.fields(kind)}
    return attrs.evolve(EXAMPLE_OF[kind], **{name: value for name, value in said.items() if name in names})


# ------------------------------------------------------------------------------------------------------------ the walk


def tell(rig: Kept, place: Place, event: ev.Event) -> None:
    """One event, and all that comes of it, for a while."""
    peer = rig.peer
    is_stranger = place.link not in (peer.leading.handlers if peer.leading else ()) and (
        peer.following is None or peer.following.link != place.link
    )
    rig.forget()
    rig.tell(event)
    if isinstance(event, ev.MessageReceived) and is_stranger:
        assert rig.effects == [], "nobody on this link is heard"
    if rig.did(fx.Halt):
        assert isinstance(event, ev.MessageReceived)
        assert isinstance(event.message, msg.Trunc | msg.Snap), "who would cut what is committed halts its learners"
        assert rig.peer.following is not None
        return
    for _ in range(3):
        rig.rest()
        rig.wait(peer.settings.tick_ms)
    rig.rest()
    assert not peer.halted
    assert rig.disk.epochs == (peer.accepted_epoch, peer.current_epoch)
    if not peer.amnesiac and rig.disk.last[0] > 0:
        assert peer.durable == peer.history.last[0]
        assert peer.history.last == rig.disk.last, "what it says that it has is on its disk"


def walk(name: str, place: Place, kind: type[msg.Message]) -> None:
    """What no handler takes is not looked at: its lowest and highest values are enough."""
    role = LEADING if place.state is LEADING else FOLLOWING
    few = (role, place.phase, kind) not in HANDLERS and kind is not msg.FollowerInfo
    for said in messages(place.enter().peer, kind, few=few):
        _try(name, place, ev.MessageReceived(place.link, said))
    if kind is msg.Notification:
        for said in messages(place.enter().peer, kind, few=False):
            _try(name, place, ev.NotificationReceived(ServerId(2), said))
            _try(name, place, ev.NotificationReceived(ServerId(3), said))
        for sid, said in product((1, 4, (1 << 63) - 1), messages(place.enter().peer, kind, few=True)):
            _try(name, place, ev.NotificationReceived(ServerId(sid), said))


def _try(name: str, place: Place, event: ev.MessageReceived | ev.NotificationReceived) -> None:
    message = event.message if isinstance(event, ev.MessageReceived) else event.notification
    try:
        tell(place.enter(), place, event)
    except Exception as error:
        raise AssertionError(f"{name}: {repr(event)[:400]}") from error
    TRIED[type(message), name] = TRIED.get((type(message), name), 0) + 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", msg.MESSAGES, ids=lambda kind: kind.__name__)
@pytest.mark.long
def test_no_message_in_any_place_reaches_an_assertion(kind: type[msg.Message]) -> None:
    for name, place in PLACES.items():
        walk(name, place, kind)
    assert all(TRIED.get((kind, name), 0) >= 2 for name in PLACES)


def test_places_are_all_that_the_protocol_has() -> None:
    """Every role and phase, and every stage of a learner in every phase in which a leader leaves it there."""
    places = {(place.state, place.phase) for place in PLACES.values()}
    assert places == set(TRANSITIONS)
    stages = {(place.phase, place.stage) for place in PLACES.values() if place.stage is not None}
    assert {stage for _, stage in stages} == set(Stage)
    assert any(place.state is LOOKING for place in PLACES.values())


@pytest.mark.parametrize("kind", msg.MESSAGES, ids=lambda kind: kind.__name__)
def test_number_beyond_its_bounds_is_no_message(kind: type[msg.Message]) -> None:
    example = EXAMPLE_OF[kind]
    fields = attrs.fields(kind)
    for at, field in enumerate(fields):
        check = field.metadata["check"]
        outside = [check.low - 1, check.high + 1] if isinstance(check, IntRange) else []
        outside += (
            [bytes(check.high + 1), *([bytes(check.low - 1)] if check.low else [])]
            if isinstance(check, BytesRange)
            else []
        )
        for value in outside:
            row = [kind.TYPE, *(getattr(example, each.name) for each in fields)]
            row[at + 1] = value
            with pytest.raises(MessageError, match=f"{field.name}|plain"):
                msg.decode(cbor2.dumps(row))


# ------------------------------------------------------------------------------------------------------- whole members


class Observed(Ensemble):
    """Three voters, and server 4, which observes."""

    @staticmethod
    def _config(sid: ServerId, size: int, lines: dict[str, object]) -> Config:
        assert not lines
        text = [f"dataDir=/nowhere/{sid}", "clientPort=2181", "tickTime=1000", "initLimit=10", "syncLimit=5"]
        text += [f"server.{n}=127.0.0.1:{2000 + n}:{3000 + n}{':observer' * (n == size)}" for n in range(1, size + 1)]
        return parse("\n".join([*text, "diskLowBytes=0"]), "zoo.cfg", my_id=sid)


FOR_MEMBERS = get_args(fx.MessageForMember)
MEMBERS = {"LEADING": LEADING, "FOLLOWING": FOLLOWING, "OBSERVING": OBSERVING}


def running(role: State, *, is_renewing: bool) -> tuple[Observed, Server, Link]:
    """An ensemble with clients, a member of it in this role, and a link on which it is told something."""
    ensemble = Observed(4)
    member = next(server for server in ensemble.servers.values() if server.member.peer.state is role)
    leader = ensemble.leader
    for server in (leader, member):
        client = ensemble.session(server)
        ensemble.do(client, client.create(b"/%d" % server.sid), client.sync(b"/"))
    ends = {member.sid, ensemble.follower.sid if member is leader else leader.sid}
    link = next(link for link, pair in ensemble.links.items() if set(pair) == ends)
    if is_renewing:
        member.durable_held = True
        other = next(sid for sid in ensemble.servers if sid not in (leader.sid, *ends))
        peer = leader.member.peer
        ahead = msg.FollowerInfo(Epoch(peer.epoch + 7), peer.lineage, BATCHES, False, False, False, False)
        leader.answers += [ev.QuorumLinkUp(Link(999), other, inbound=True), ev.MessageReceived(Link(999), ahead)]
        ensemble.settle()
        assert member.member.peer.phase is DISCOVERY
    assert member.member.serving
    return ensemble, member, link


@pytest.mark.slow
@pytest.mark.parametrize("is_renewing", [False, True], ids=["broadcast", "renewal"])
@pytest.mark.parametrize("role", MEMBERS)
@pytest.mark.parametrize("kind", FOR_MEMBERS, ids=lambda kind: kind.__name__)
@pytest.mark.long
def test_no_message_for_a_member_reaches_an_assertion(kind: type[msg.Message], role: str, is_renewing: bool) -> None:
    """What the protocol passes on: to members that serve clients. Who is still believed goes on with what it heard."""
    found: tuple[Observed, Server, Link] | None = None
    ensemble, member, _ = running(MEMBERS[role], is_renewing=is_renewing)
    is_taken = (LEADING if role == "LEADING" else FOLLOWING, member.member.peer.phase, kind) in HANDLERS
    said = [*messages(member.member.peer, kind, few=not is_taken), *(for_sessions(member, kind) if is_taken else ())]
    for message in said:
        ensemble, member, link = found or running(MEMBERS[role], is_renewing=is_renewing)
        member.answers.append(ev.MessageReceived(link, message))
        try:
            ensemble.settle()
        except Exception as error:
            raise AssertionError(repr(message)[:400]) from error
        assert member.halted is None
        found = (ensemble, member, link) if link in ensemble.links else None
    if found is not None:
        ensemble.release(member)
    ensemble.advance(5000)
    assert all(server.halted is None for server in ensemble.servers.values())


def for_sessions(member: Server, kind: type[msg.Message]) -> Iterator[msg.Message]:
    """Requests of existing sessions: every operation, and the extremes of timeouts."""
    sessions = [*member.member.tree.sessions]
    assert sessions
    for session in sessions:
        if kind is msg.Ping:
            for timeout in (-(1 << 31), -1, 0, 1, (1 << 31) - 1):
                yield msg.Ping(0, 0, 0, [[session, timeout]], False)
        elif kind is mmsg.Revalidate:
            for timeout in (-(1 << 31), -1, 0, 1, (1 << 31) - 1):
                yield mmsg.Revalidate(1, session, timeout)
        elif kind is mmsg.Request:
            writes = [(cxid, b"") for cxid in (-(1 << 31), (1 << 31) - 1)]
            writes += [(0, body) for body in (b"", bytes(30), b"\xff" * 30)]
            for opcode in (*OpCode, -(1 << 31), (1 << 31) - 1):
                for cxid, body in writes if session == sessions[0] else writes[-1:]:
                    yield mmsg.Request([[[], [mmsg.WRITE_HEAD.pack(session, cxid, opcode) + body]]])
