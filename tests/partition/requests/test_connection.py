"""The line of a connection's answers."""

from zab.partition.requests.connection import UNSENT_BYTES_MAX, WAITING_MAX, ClientConnection, Closing
from zab.wire.file_slice import FileSlice
from zab.wire.frames import FrameReader


def a_connection():
    return ClientConnection(1, "127.0.0.1", 4, "PLAINTEXT", FrameReader(100))


def test_answers_leave_in_the_order_of_their_requests():
    connection = a_connection()
    first, second, third = (connection.take_place() for _ in range(3))
    second.pieces = [b"2", FileSlice("log", 0, 7)]
    assert not connection.let_out()
    first.pieces = ()
    assert connection.let_out()
    assert (connection.out, connection.out_bytes) == ([b"2", FileSlice("log", 0, 7)], 8)
    third.pieces = [b"3"]
    assert connection.let_out()
    assert connection.take_output() == [b"2", FileSlice("log", 0, 7), b"3"]
    assert connection.out_bytes == 0
    assert not connection.let_out()


def test_one_that_waits_for_many_answers_or_takes_none_is_not_read_from():
    connection = a_connection()
    places = [connection.take_place() for _ in range(WAITING_MAX)]
    assert connection.paused
    places[0].pieces = [b"1"]
    connection.let_out()
    assert not connection.paused
    connection.unsent_bytes = UNSENT_BYTES_MAX
    assert connection.paused


def test_an_end_can_only_come_sooner():
    connection = a_connection()
    connection.take_place()
    connection.close(Closing.FLUSHED)
    assert connection.line
    connection.close(Closing.AT_ONCE)
    assert not connection.line
    connection.close(Closing.FLUSHED)
    assert connection.closing is Closing.AT_ONCE
