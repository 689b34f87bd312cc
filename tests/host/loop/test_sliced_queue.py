"""Slices of files between bytes: through a plain socket, through TLS's way, and over client sockets."""

import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.host.loop.service import Server, give, receive_exactly, running
from tests.host.loop.sink import Sink
from zab.host.files.open_files import OpenFiles
from zab.host.loop import sliced_queue as module
from zab.host.loop.sliced_queue import SlicedQueue, SliceError
from zab.wire.file_slice import FileSlice

CONTENT = bytes(index * 7 % 251 for index in range(3000))


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("files")
    (directory / "a").write_bytes(CONTENT)
    (directory / "b").write_bytes(CONTENT[::-1])
    return directory


def bytes_of(directory, piece):
    if isinstance(piece, bytes):
        return piece
    return (directory / piece.path).read_bytes()[piece.position : piece.position + piece.length]


def slices():
    return st.builds(FileSlice, st.sampled_from("ab"), st.integers(0, 1000), st.integers(0, 2000))


PIECES = st.lists(st.lists(st.binary(max_size=40) | slices(), max_size=5), max_size=6)


@given(turns=PIECES, takes=st.lists(st.integers(1, 3000), max_size=60))
def test_what_tls_seals_has_all_pieces_in_order_however_little_the_socket_takes(directory, turns, takes):
    queue, sink = SlicedQueue(OpenFiles(str(directory)), None), Sink(takes)
    expected = b""
    for pieces in turns:
        expected += b"".join(bytes_of(directory, piece) for piece in pieces)
        queue.flush(sink.send, pieces, sum(map(len, pieces)))
        assert queue.unsent_bytes == len(expected) - len(sink.taken)
    sink.takes.extend([1 << 20] * 100)
    while queue.unsent_bytes:
        queue.flush(sink.send)
    assert bytes(sink.taken) == expected


@given(turns=PIECES, room=st.sampled_from([1, 5000]))
def test_a_socket_gets_all_pieces_in_order(directory, turns, room):
    left, right = socket.socketpair()
    with left, right:
        left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)
        left.setblocking(False)
        right.settimeout(60)
        queue = SlicedQueue(OpenFiles(str(directory)), left)
        expected = b"".join(bytes_of(directory, piece) for pieces in turns for piece in pieces)
        taken = b""
        for pieces in turns:
            queue.flush(left.send, pieces, sum(map(len, pieces)))
        while len(taken) < len(expected):
            taken += right.recv(1 << 16)
            queue.flush(left.send)
        assert taken == expected
        assert queue.unsent_bytes == 0


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_file_that_is_shorter_than_its_slice_ends_the_connection(directory, is_plain):
    left, right = socket.socketpair()
    with left, right:
        queue = SlicedQueue(OpenFiles(str(directory)), left if is_plain else None)
        queue.flush(left.send, [FileSlice("a", 2990, 10)], 10)
        with pytest.raises(SliceError):
            queue.flush(left.send, [FileSlice("a", 3000, 1)], 1)


def test_a_flush_sends_so_much_and_the_next_goes_on(directory, monkeypatch):
    monkeypatch.setattr(module, "FLUSH_BYTES_MAX", 100)
    queue, sink = SlicedQueue(OpenFiles(str(directory)), None), Sink([1 << 20] * 100)
    monkeypatch.setattr(module, "READ_BYTES", 60)
    assert queue.flush(sink.send, [FileSlice("a", 0, 200)], 200) == 120
    assert queue.flush(sink.send) == 80
    assert sink.taken == CONTENT[:200]


def test_what_is_on_its_way_is_sent_from_the_file_that_was_meant(tmp_path):
    """Its name means another file by then."""
    (tmp_path / "log").write_bytes(b"meant")
    files = OpenFiles(str(tmp_path))
    queue, sink = SlicedQueue(files, None), Sink([])
    queue.flush(sink.send, [b"head", FileSlice("log", 0, 5)], 9)
    (tmp_path / "log").unlink()
    (tmp_path / "log").write_bytes(b"other")
    files.forget("log")
    sink.takes.extend([100] * 4)
    queue.flush(sink.send, [FileSlice("log", 0, 5)], 5)
    assert sink.taken == b"headmeantother"


def test_so_many_files_stay_open_and_each_is_closed_with_its_last_user(tmp_path):
    for name in "abc":
        (tmp_path / name).write_bytes(name.encode())
    files = OpenFiles(str(tmp_path), files_max=2)
    first = files.get("a")
    assert files.get("a") is first
    descriptors = [first.descriptor, files.get("b").descriptor, files.get("c").descriptor]
    assert os.pread(first.descriptor, 1, 0) == b"a", "it is used, so it stays open"
    del first
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptors[0])
    files.forget_directory("other")
    os.fstat(descriptors[1])
    files.close()
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    with pytest.raises(FileNotFoundError):
        files.get("d")


def test_client_sockets_send_slices_and_go_on_when_the_client_reads(tmp_path):
    (tmp_path / "large").write_bytes(CONTENT * 4000)
    with running(Server(files=OpenFiles(str(tmp_path)))) as server:
        sock, connection = server.client()
        give(connection, b"head", FileSlice("large", 3, 11_000_000), b"tail")
        server.turn([connection])
        assert connection.unsent_bytes
        taken = b""
        while len(taken) < 11_000_008:
            taken += receive_exactly(sock, min(1 << 16, 11_000_008 - len(taken)))
            server.turn()
        assert taken == b"head" + (CONTENT * 4000)[3:11_000_003] + b"tail"
        assert connection.unsent_bytes == 0


def test_client_sockets_end_the_connection_of_a_slice_that_is_too_long(tmp_path):
    (tmp_path / "short").write_bytes(b"12345")
    with running(Server(files=OpenFiles(str(tmp_path)))) as server:
        sock, connection = server.client()
        give(connection, FileSlice("short", 0, 6))
        server.turn([connection])
        server.turn()
        assert sock.recv(10) == b"12345"
        assert sock.recv(10) == b""
