"""Bad input and faults, against running members: bad clients get the documented answer or are closed, the memory
of the member stays bounded, another client goes on with bounded latency, and the ensemble keeps its leader.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import cbor2
import pytest

from datatree.prepare_settings import MULTI_PARTS_MAX
from tests.conformance.cases import CASES
from tests.conformance.conftest import CONFIGURATION
from tests.conformance.exchange import Frames
from tests.conformance.wire import (
    ConnectionClosedError,
    SilentError,
    Wire,
    add_watch,
    check,
    connect_request,
    create,
    delete,
    exists,
    frame,
    get,
    i32,
    i64,
    multi,
    set_data,
    sync,
    text,
    vector,
)
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember, four_letter_word

pytestmark = pytest.mark.slow

WORK_SECONDS_MAX = 1.0
"""Processor time that members spend at most while another client waits for one answer."""

MIB = 1 << 20


class Neighbour(threading.Thread):
    """A client that writes and reads all the time on a member.

    `worst` is the most that it had to wait for: seconds of processor time of the members that run. A clock on the wall
    would count what else the machine does.
    """

    def __init__(self, ensemble: ZooKeeperEnsemble, port: int, path: str) -> None:
        super().__init__()
        self.worst = 0.0
        self._pids = [member.pid for member in ensemble.members if member.running]
        self.rounds_count = 0
        self.errors: list[BaseException] = []
        self._done = threading.Event()
        self._wire = Wire(port)
        self._path = path
        assert self._wire.ask(*create(path)).error == 0

    def run(self) -> None:
        try:
            # One round at least: a short block may be over before this thread has begun.
            while not self.rounds_count or not self._done.wait(0.002):
                before = processor_seconds(self._pids)
                assert self._wire.ask(*set_data(self._path, b"x" * 100)).error == 0
                assert self._wire.ask(*get(self._path)).error == 0
                self.worst = max(self.worst, processor_seconds(self._pids) - before)
                self.rounds_count += 1
            assert self._wire.ask(*delete(self._path)).error == 0
            self._wire.close_session()
        except (AssertionError, OSError, ConnectionClosedError, SilentError) as error:
            self.errors.append(error)
        finally:
            self._wire.drop()

    def finish(self) -> None:
        self._done.set()
        self.join()


def processor_seconds(pids: list[int]) -> float:
    """What these processes have used so far, in user and system mode; nothing for those that were killed.

    Who is killed before its file is opened has none; who is killed after that cannot be read (ESRCH).
    """
    ticks = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def epoch(ensemble: ZooKeeperEnsemble) -> tuple[int, int]:
    """The leader, and its epoch."""
    leader = ensemble.leader()
    (line,) = [line for line in four_letter_word(leader.client_port, "srvr").splitlines() if line.startswith("Zxid")]
    return leader.server_id, int(line.split()[1], 16) >> 32


@contextlib.contextmanager
def undisturbed(ensemble: ZooKeeperEnsemble, member: ZooKeeperMember) -> Iterator[None]:
    """Nobody else notices what happens inside the block: not a client of `member`, not the leader's quorum."""
    neighbour = Neighbour(ensemble, member.client_port, f"/neighbour-{member.server_id}")
    before = epoch(ensemble)
    neighbour.start()
    try:
        yield
    finally:
        neighbour.finish()
    assert not neighbour.errors
    assert neighbour.rounds_count > 0
    assert neighbour.worst < WORK_SECONDS_MAX
    assert all(each.running for each in ensemble.members)
    assert epoch(ensemble) == before


def resident_mib(member: ZooKeeperMember) -> float:
    (line,) = [line for line in Path(f"/proc/{member.pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)


def is_closed(connection: socket.socket, patience_seconds: float = PATIENCE_SECONDS) -> bool:
    """Whether the other side closes, or resets, in time; what it sends before is read and dropped."""
    connection.settimeout(patience_seconds)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


# The client port, before the handshake.

STRANGE_BEGINNINGS = {
    "length too large": i32(1 << 20),
    "length largest": i32(2**31 - 1),
    "length negative": i32(-1),
    "length minimum": i32(-(2**31)),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303"),
    "text": b"none of the words\n",
    "noise": random.Random(1).randbytes(4000),
    "no payload": frame(b""),
    "cut handshake": frame(connect_request()[:30]),
    "a request": frame(i32(1) + i32(4) + get("/")[1]),
    "a password too long": frame(i32(0) + i64(0) + i32(4000) + i64(0) + i32(2**31 - 1)),
}


@pytest.mark.parametrize("name", STRANGE_BEGINNINGS)
def test_a_strange_beginning_is_closed(name: str, ours: ZooKeeperEnsemble) -> None:
    for member in ours.members:
        with dial(member.client_port) as connection:
            connection.sendall(STRANGE_BEGINNINGS[name])
            assert is_closed(connection)


def test_strange_beginnings_disturb_nobody(ours: ZooKeeperEnsemble) -> None:
    member = ours.leader()
    dice = random.Random(2)
    with undisturbed(ours, member):
        for _ in range(40):
            with contextlib.ExitStack() as stack:
                connections = [stack.enter_context(dial(member.client_port)) for _ in range(10)]
                for connection in connections:
                    with contextlib.suppress(OSError):
                        beginning = dice.choice(list(STRANGE_BEGINNINGS.values()))
                        connection.sendall(beginning[: dice.randrange(1, len(beginning) + 1)])


def test_connections_per_address_are_limited(tmp_path: Path) -> None:
    configuration = {
        "maxClientCnxns": 10,
        "nio.sessionlessCnxnTimeout": 1500,
        "tickTime": 200,
        "maxSessionTimeout": 40_000,
    }
    with zab_servers(1, directory=tmp_path, configuration=configuration) as ensemble:
        port = ensemble.members[0].client_port
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(Wire(port)) for _ in range(10)]
            for _ in range(30):
                with dial(port) as connection:
                    assert is_closed(connection)
            assert [wire.ask(*exists("/")).error for wire in wires] == [0] * 10
            wires[0].close_session()
            deadline = time.monotonic() + PATIENCE_SECONDS
            while True:
                # Its place is free as soon as the server has seen the end.
                with contextlib.suppress(ConnectionClosedError), Wire(port) as again:
                    assert again.ask(*exists("/")).error == 0
                    break
                assert time.monotonic() < deadline
            trickle_a_handshake(port)


def trickle_a_handshake(port: int) -> None:
    """A byte now and then does not keep a connection that has no session (here for 1.5 s; the bytes last for 4 s)."""
    with dial(port) as connection:
        for byte in frame(connect_request())[:40]:
            with contextlib.suppress(OSError):
                connection.sendall(bytes([byte]))
            if select.select([connection], [], [], 0.1)[0]:
                break
        else:
            pytest.fail("the bytes keep it")
        assert is_closed(connection)


# The client port, with a session.


def test_a_request_in_trickles_keeps_no_session(ours: ZooKeeperEnsemble) -> None:
    """Bytes are no sign of life, requests are: the session (1 s) expires, and the connection with it."""
    with Wire(ours.members[0].client_port, timeout_ms=1000) as wire:
        request = wire.encode(*set_data("/", bytes(1000)))
        for byte in request:
            with contextlib.suppress(OSError):
                wire.socket.sendall(bytes([byte]))
            if select.select([wire.socket], [], [], 0.05)[0]:
                break
        assert is_closed(wire.socket)


def test_half_frames_cost_what_was_sent(ours: ZooKeeperEnsemble) -> None:
    """Announcing a frame reserves nothing, and half of one is kept once."""
    member = ours.followers()[0]
    with contextlib.ExitStack() as stack, undisturbed(ours, member):
        before = resident_mib(member)
        wires = [stack.enter_context(Wire(member.client_port)) for _ in range(60)]
        for wire in wires[20:]:
            wire.socket.sendall(i32(1_048_575))
        for wire in wires[:20]:
            wire.socket.sendall(i32(1_048_575) + bytes(500_000))
        with Wire(member.client_port) as last:
            last.close_session()
        assert resident_mib(member) - before < 60
        for wire in wires:
            wire.drop()


def test_who_never_reads_costs_a_bounded_amount(ours: ZooKeeperEnsemble) -> None:
    """2 GB of replies are asked for; a member keeps outputLimitBytes (16 MiB) of them and reads no further requests."""
    member = ours.followers()[0]
    with Wire(member.client_port, timeout_ms=40_000) as wire, undisturbed(ours, member):
        assert wire.ask(*create("/large", bytes(900_000))).error == 0
        before = resident_mib(member)
        wire.socket.setblocking(False)
        requests = b"".join(wire.encode(*get("/large")) for _ in range(2200))
        while requests and select.select([], [wire.socket], [], 0.5)[1]:
            requests = requests[wire.socket.send(requests) :]
        time.sleep(0.5)
        assert resident_mib(member) - before < 64
        wire.socket.settimeout(PATIENCE_SECONDS)
        # Nothing is lost for one who starts to read after all.
        for _ in range(200):
            assert len(wire.receive().body) > 900_000
    forget(member, wire)


def test_events_that_nobody_reads_end_the_connection(ours: ZooKeeperEnsemble) -> None:
    """Events cannot wait as requests can: beyond twice outputLimitBytes the connection is closed."""
    member = ours.members[0]
    path = "/" + "p" * 200_000
    with Wire(member.client_port, timeout_ms=40_000) as deaf, Wire(member.client_port) as writer:
        assert writer.ask(*create(path)).error == 0
        assert deaf.ask(*add_watch(path, 0)).error == 0
        before = resident_mib(member)
        for _ in range(8):
            body = set_data(path, b"")
            for _ in range(40):
                writer.send(*body)
            for _ in range(40):
                assert writer.receive_reply().error == 0
        assert resident_mib(member) - before < 128
        assert is_closed(deaf.socket)
        forget(member, deaf)
        assert writer.ask(*delete(path)).error == 0
        writer.close_session()


def forget(member: ZooKeeperMember, lost: Wire) -> None:
    """Close the session of a connection that is no more, unless it has expired, and remove /large."""
    with Wire(member.client_port, session=lost.session, password=lost.password) as again:
        again.close_session()
    with Wire(member.client_port) as wire:
        wire.ask(*delete("/large"))
        wire.close_session()


HUGE = {
    "ACL": (1, text("/huge") + text(b"") + i32(2**31 - 1) + i32(0)),
    "watches": (101, i64(0) + i32(2**31 - 1)),
    "data": (5, text("/") + i32(2**31 - 1)),
    "path": (4, i32(2**31 - 1)),
    "nested multi": (14, multi((14, b""))[1] * 1000),
    "reads": multi(*[get("/large")] * 20_000, opcode=22),
    "checks": multi(*[check("/")] * (MULTI_PARTS_MAX - 1), check("/", 77)),
    "too many parts": multi(*[check("/")] * 40_000, check("/", 77)),
    "names": (105, i64(0) + vector([text("/x")] * 150_000) + vector([]) * 4),
}


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_request_is_bounded(name: str, ours: ZooKeeperEnsemble) -> None:
    """Counts are believed only as far as there are bytes; the largest request that there can be stops nobody."""
    member = ours.leader()
    with Wire(member.client_port) as wire, undisturbed(ours, member):
        assert wire.ask(*create("/large", bytes(900_000))).error == 0
        before = resident_mib(member)
        reply = wire.ask(*HUGE[name])
        # More than one answer, or one multi, holds was asked for; or it cannot be decoded.
        assert reply.error == {"checks": 0, "names": 0, "reads": -8, "too many parts": -8}.get(name, -5)
        assert resident_mib(member) - before < 160
        assert wire.ask(*delete("/large")).error == 0
        wire.close_session()


def test_mutated_requests_get_an_answer_or_the_end(ours: ZooKeeperEnsemble) -> None:
    """Valid requests of every operation with some bytes changed, cut or doubled, also on their way to the leader."""
    dice = random.Random(3)
    requests = [
        action
        for steps in CASES.values()
        for _, action in steps
        if isinstance(action, tuple) and action[0] not in (-11, 100, 102) and len(action[1]) < 500
    ]
    member = ours.followers()[0]
    answered_count = ended_count = 0
    with undisturbed(ours, member):
        wire = Wire(member.client_port)
        for _ in range(600):
            opcode, body = dice.choice(requests)
            try:
                wire.ask(opcode, mutated(dice, body))
                answered_count += 1
            except ConnectionClosedError:
                ended_count += 1
                session, password = wire.session, wire.password
                wire.drop()
                wire = Wire(member.client_port, session=session, password=password)
        wire.close_session()
    assert answered_count > 560
    assert ended_count < 40
    same_tree(ours)


def mutated(dice: random.Random, body: bytes) -> bytes:
    changed = bytearray(body)
    for _ in range(dice.choice([1, 1, 2, 4])):
        kind = dice.randrange(4)
        at = dice.randrange(len(changed) + 1)
        if kind == 0:
            changed[at : at + 1] = bytes([dice.choice([0, 1, 0x2F, 0x7F, 0x80, 0xFF, dice.randrange(256)])])
        elif kind == 1:
            del changed[at:]
        elif kind == 2:
            changed[at:at] = dice.randbytes(dice.randrange(1, 9))
        else:
            changed[at : at + 4] = struct.pack(">i", dice.choice([-1, -2, 0, 1, 1 << 20, 2**31 - 1, -(2**31)]))
    return bytes(changed)


def same_tree(ensemble: ZooKeeperEnsemble) -> None:
    """All members have applied the same; a digest that differs would have stopped one."""
    seen = set()
    for member in ensemble.members:
        with Wire(member.client_port) as wire:
            wire.ask(*sync("/"))
            wire.close_session()
        lines = dict(line.split("\t") for line in four_letter_word(member.client_port, "mntr").splitlines())
        assert lines["zk_digest_mismatches_count"] in ("0", "0.0")
        seen.add((lines["zk_znode_count"], lines["zk_approximate_data_size"]))
    assert len(seen) == 1, seen


def test_raw_frames_of_the_table_disturb_nobody(ours: ZooKeeperEnsemble) -> None:
    member = ours.members[0]
    raw = [action.data for steps in CASES.values() for _, action in steps if isinstance(action, Frames)]
    with undisturbed(ours, member):
        for data in raw:
            with Wire(member.client_port) as wire:
                wire.socket.sendall(data)
                wire.socket.shutdown(socket.SHUT_WR)
                assert is_closed(wire.socket)


# The election and quorum ports.


def ports_of(member: ZooKeeperMember) -> tuple[int, int]:
    """The quorum and the election port, from the member's own server line."""
    lines = (member.directory / "zoo.cfg").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"server.{member.server_id}=")]
    _, quorum, election = line.split(":")[:3]
    return int(quorum), int(election)


def hello(version: int, sid: int) -> bytes:
    return frame(cbor2.dumps([100, version, sid]))


VERSION = 2
BETWEEN_MEMBERS = {
    "nothing": b"",
    "half a length": b"\0\0",
    "length too large": i32(2**31 - 1),
    "length negative": i32(-1),
    "no payload": frame(b""),
    "noise": random.Random(4).randbytes(3000),
    "noise in a frame": frame(random.Random(5).randbytes(1000)),
    "no CBOR": frame(b"\xff\xff\xff\xff"),
    "deep CBOR": frame(b"\x81" * 4000),
    "deep CBOR in maps": frame(b"\xa1\x00" * 2000),
    "an array too long": frame(b"\x9b" + b"\x7f" * 8),
    "bytes too long": frame(b"\x5b" + b"\x7f" * 8),
    "a tag": frame(b"\xc2\x58\xff" + bytes(255)),
    "endless": frame(b"\x9f" * 1000),
    "a type of thousands of digits": frame(cbor2.dumps([1 << 20_000, 1])),
    "a map": frame(cbor2.dumps({"version": 1})),
    "an unknown type": frame(cbor2.dumps([77, 1, 2])),
    "a Hello of three": frame(cbor2.dumps([100, 1, 2, 3])),
    "a Hello of text": frame(cbor2.dumps([100, "1", "2"])),
    "another version": hello(VERSION - 1, 2),
    "a stranger": hello(VERSION, 99),
    "a negative id": hello(VERSION, -1),
    "a huge id": hello(VERSION, 1 << 70),
    "itself": b"",
    "a proposal": frame(cbor2.dumps([2, [b"x" * 100]])),
    "an older protocol": struct.pack(">qqi", -65536, 2, 20) + b"127.0.0.1:3888......",
}


@pytest.mark.parametrize("name", BETWEEN_MEMBERS)
def test_strangers_on_the_ports_between_members(name: str, ours: ZooKeeperEnsemble) -> None:
    with contextlib.ExitStack() as stack:
        for member in ours.members:
            data = hello(VERSION, member.server_id) if name == "itself" else BETWEEN_MEMBERS[name]
            for port in ports_of(member):
                connection = stack.enter_context(dial(port))
                connection.sendall(data)
                if len(data) > 4 and not data.startswith(i32(2**31 - 1)):
                    connection.shutdown(socket.SHUT_WR)
                    assert is_closed(connection)
    with Wire(ours.members[0].client_port) as wire:
        assert wire.ask(*set_data("/", b"")).error == 0
        wire.close_session()


def test_strangers_between_members_disturb_nobody(ours: ZooKeeperEnsemble) -> None:
    """All of it at once, on all ports, with a hundred connections that say nothing beside."""
    dice = random.Random(6)
    with contextlib.ExitStack() as stack, undisturbed(ours, ours.leader()):
        for member in ours.members:
            before = resident_mib(member)
            for port in ports_of(member):
                for _ in range(100):
                    connection = stack.enter_context(dial(port))
                    data = dice.choice(list(BETWEEN_MEMBERS.values()))
                    with contextlib.suppress(OSError):
                        connection.sendall(data[: dice.randrange(len(data) + 1)])
            assert resident_mib(member) - before < 64


def test_noise_behind_a_members_greeting(ours: ZooKeeperEnsemble) -> None:
    """One who claims to be a member, and then talks nonsense, does no more harm than a link that broke."""
    leader = ours.leader()
    claimed = ours.followers()[0].server_id
    quorum, election = ports_of(leader)
    with undisturbed(ours, ours.followers()[1]):
        for data in (
            *BETWEEN_MEMBERS.values(),
            frame(cbor2.dumps([0, 2, claimed, 1 << 60, 99, 1 << 50, b"", False, False])),
        ):
            with dial(election) as votes, contextlib.suppress(OSError):
                votes.sendall(hello(VERSION, claimed) + data)
                votes.recv(100)
            with dial(quorum) as link, contextlib.suppress(OSError):
                link.sendall(data)
                link.sendall(hello(VERSION, 77))
        # A newer link of a learner takes the place of its older one: that one has to come back.
        with dial(quorum) as link:
            link.sendall(hello(VERSION, claimed) + frame(cbor2.dumps([11, "noise"])))
            assert is_closed(link)
        ours.wait()


def test_a_member_joins_while_strangers_hold_the_ports(ours: ZooKeeperEnsemble) -> None:
    follower = ours.followers()[0]
    with contextlib.ExitStack() as stack, undisturbed(ours, ours.leader()):
        follower.kill()
        for member in ours.members:
            if member is not follower:
                for port in ports_of(member):
                    for _ in range(40):
                        stack.enter_context(dial(port))
        follower.start()
        ours.wait()


# Half-open links: a member that is there, and does nothing.


@contextlib.contextmanager
def paused(member: ZooKeeperMember) -> Iterator[None]:
    """The process stands still in the block; its sockets stay open."""
    os.kill(member.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(member.pid, signal.SIGCONT)


@pytest.fixture
def impatient() -> Iterator[ZooKeeperEnsemble]:
    """Three members that take one for lost after syncLimit: 2.5 s."""
    with zab_servers(3, configuration={**CONFIGURATION, "syncLimit": 5}) as ensemble:
        yield ensemble


def test_a_follower_that_stands_still_holds_nobody_up(impatient: ZooKeeperEnsemble) -> None:
    """Longer than syncLimit: it is left out, and catches up when it goes on."""
    follower = impatient.followers()[0]
    with undisturbed(impatient, impatient.leader()):
        with paused(follower):
            time.sleep(3.0)
        impatient.wait()
    same_tree(impatient)


def test_a_leader_that_stands_still_is_replaced(impatient: ZooKeeperEnsemble) -> None:
    """Its followers elect another one; what it answers afterwards is not from the past."""
    leader = impatient.leader()
    other = impatient.followers()[0]
    path = "/while-the-leader-stood-still"
    with Wire(leader.client_port) as old:
        with paused(leader):
            old.send(*set_data("/", b"to the old leader"))
            deadline = time.monotonic() + 2 * PATIENCE_SECONDS
            while True:
                with contextlib.suppress(ConnectionClosedError, SilentError, OSError), Wire(other.client_port) as wire:
                    assert wire.ask(*create(path)).error in (0, -110)
                    wire.close_session()
                    break
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert is_closed(old.socket)
    impatient.wait()
    assert impatient.leader() is not leader
    with Wire(leader.client_port) as wire:
        wire.ask(*sync("/"))
        assert b"to the old leader" not in wire.ask(*get("/")).body
        assert wire.ask(*delete(path)).error == 0
        wire.close_session()
    same_tree(impatient)
