"""What a link sends once something is durable, by both ways: in Python, and without the interpreter's lock."""

from __future__ import annotations

import errno
import os
import resource
import socket
import struct
import threading
from pathlib import Path

import attrs
import pytest

from tests.host.loop.beside_turns import ACKS_COUNT, acks_arrive_beside_turns
from tests.host.loop.link_server import Server
from tests.host.loop.service import running
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.host.loop import link as link_module
from zab.host.loop.gate import PythonGate
from zab.host.storage import disk as disk_module
from zab.host.storage.disk import RealDisk
from zab.native import load
from zab.protocol.events import QuorumLinkDown
from zab.protocol.message import Ack, Commit, Proposal

LOG = "version-1/log.1"

WAYS = [
    "python",
    pytest.param("native", marks=pytest.mark.skipif(load("durable") is None, reason="the native part is not compiled")),
]


@pytest.fixture(params=WAYS, autouse=True)
def way(request, monkeypatch):
    native = load("durable") if request.param == "native" else None
    monkeypatch.setattr(disk_module, "_native", native)
    monkeypatch.setattr(link_module, "Gate", PythonGate if native is None else native.Gate)
    return request.param


@pytest.fixture
def server():
    with running(Server()) as server:
        yield server


@pytest.fixture
def file(tmp_path):
    disk = RealDisk(str(tmp_path))
    yield disk.open_append(LOG, create=True)
    disk.close()


def write(file, data, held):
    """In another thread, to its end; the error, or None."""
    errors = []

    def run():
        try:
            file.write_durable(data, held)
        except OSError as error:
            errors.append(error.errno)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    return errors[0] if errors else None


def is_idle(server):
    return not server.links.has_unsent and not server.loop._woken


def written(tmp_path):
    return Path(tmp_path, LOG).read_bytes()


def test_it_leaves_once_the_bytes_are_written_without_a_turn(server, file, tmp_path):
    other, link = server.linked()
    for number in range(5):
        assert write(file, b"%d" % number, server.links.hold(link, Ack(1, number))) is None
        assert other.hear() == Ack(1, number)
    assert is_idle(server)
    assert written(tmp_path) == b"01234"
    assert file.size == 5
    # Both sides go on counting where it left off.
    server.links.send((link,), Commit(9))
    server.turns(0)
    assert other.hear() == Commit(9)


def test_what_is_not_durable_is_not_acknowledged(server, file, tmp_path):
    other, link = server.linked()
    descriptor, file._fd = file._fd, os.open(Path(tmp_path, LOG), os.O_RDONLY)
    assert write(file, b"lost", server.links.hold(link, Ack(1, 5))) == errno.EBADF
    os.close(file._fd)
    file._fd = descriptor
    server.links.send((link,), Commit(9))
    server.turns(0)
    assert other.hear() == Commit(9)


def test_a_write_that_the_kernel_cuts_is_not_durable(server, file, tmp_path):
    other, link = server.linked()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        assert write(file, bytes(20), server.links.hold(link, Ack(1, 5))) == errno.EFBIG
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert written(tmp_path) == bytes(10)
    server.links.send((link,), Commit(9))
    server.turns(0)
    assert other.hear() == Commit(9)


def test_it_never_overtakes_what_was_queued_before(server, file):
    other, link = server.linked()
    server.links.send((link,), Proposal([b"x" * 100]))
    assert write(file, b"1", server.links.hold(link, Ack(1, 5))) is None
    server.links.send((link,), Commit(5))
    server.turns(0)
    heard = [other.hear() for _ in range(3)]
    assert {type(each) for each in heard} == {Proposal, Ack, Commit}
    assert write(file, b"1", server.links.hold(link, Ack(1, 6))) is None
    assert other.hear() == Ack(1, 6)


def test_what_was_sent_during_the_write_keeps_the_seals_in_order(server, file, monkeypatch):
    """The frame was made for a number that another one has by then."""
    other, link = server.linked()
    held = server.links.hold(link, Ack(1, 5))
    prepared = held.prepared()
    server.links.send((link,), Commit(4))
    server.turns(0)
    monkeypatch.setattr(type(held), "prepared", lambda _held: prepared)
    assert write(file, b"1", held) is None
    assert [other.hear(), other.hear()] == [Commit(4), Ack(1, 5)]


def test_it_waits_behind_a_full_socket_and_nothing_gets_into_its_frame(server, file):
    other, link = server.linked()
    found = server.links._links[link]
    found.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    other.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    count = 0
    while is_idle(server):
        write(file, b"1", server.links.hold(link, Ack(1, count)))
        count += 1
    write(file, b"1", server.links.hold(link, Ack(1, count)))
    server.links.send((link,), Commit(7))
    heard = []
    hearer = threading.Thread(target=lambda: heard.extend(other.hear() for _ in range(count + 2)))
    hearer.start()
    while hearer.is_alive():
        assert server.turn() == []
        hearer.join(0.001)
    assert [message.zxid for message in heard if isinstance(message, Ack)] == list(range(count + 1))
    assert Commit(7) in heard
    assert not server.links.has_unsent


@pytest.mark.parametrize("end", ["closed", "lost", "unknown"])
def test_nothing_is_sent_on_a_link_that_is_none(server, file, end, tmp_path, monkeypatch):
    other, link = server.linked()
    held = server.links.hold(77 if end == "unknown" else link, Ack(1, 5))
    prepared = held.prepared()
    monkeypatch.setattr(type(held), "prepared", lambda _held: prepared)
    if end == "closed":
        server.links.close(link, "enough")
    elif end == "lost":
        server.links.break_off(link, "enough")
    assert (prepared is None) is (end == "unknown")
    assert write(file, b"1", held) is None
    assert written(tmp_path) == b"1"
    if end != "unknown":
        server.turns(0)
        other.socket.settimeout(PATIENCE_SECONDS)
        assert other.socket.recv(100) == b""


def test_error_of_the_socket_is_the_end_of_the_link(server, file):
    other, link = server.linked()
    # A reset: what is sent afterwards has an error at once.
    other.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    other.socket.close()
    for _ in range(1_000):
        assert write(file, b"1", server.links.hold(link, Ack(1, 5))) is None
        if server.links.has_unsent:
            break
    assert server.turns() == [QuorumLinkDown(link)]


def test_an_open_ensemble_has_no_seals(file):
    with running(Server()) as server:
        server.party = attrs.evolve(server.party, secrets=(), is_open=True)
        other, link = server.linked(secrets=(), is_open=True)
        assert server.links._links[link].agreed.sending is None
        assert write(file, b"1", server.links.hold(link, Ack(1, 5))) is None
        server.links.send((link,), Commit(5))
        server.turns(0)
        assert [other.hear(), other.hear()] == [Ack(1, 5), Commit(5)]


def test_two_threads_that_send_at_once_keep_the_order_of_each(server, file, tmp_path):
    """Each frame has its seal and its number: one out of place would end the link."""
    other, link = server.linked()
    acks_arrive_beside_turns(
        server, other, link, lambda ack: file.write_durable(b"%d\n" % ack.zxid, server.links.hold(link, ack))
    )
    assert written(tmp_path) == b"".join(b"%d\n" % number for number in range(ACKS_COUNT))
