"""The send side of one socket, against a socket that takes what the test says."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from tests.host.loop.sink import Sink
from zab.host.loop.send_queue import JOIN_BYTES_MAX, SMALL_BYTES, SendQueue


@given(
    pieces=st.lists(
        st.tuples(st.sampled_from(["urgent", "queued", "straight"]), st.binary(min_size=1, max_size=20)), max_size=30
    ),
    takes=st.lists(st.integers(1, 25), max_size=60),
)
def test_whole_pieces_arrive_each_kind_in_its_order_however_little_the_socket_takes(pieces, takes):
    queue, sink = SendQueue(), Sink(takes)
    total = 0
    for way, piece in pieces:
        total += len(piece)
        if way == "straight":
            queue.flush(sink.send, [piece[:1], piece[1:]], len(piece))
        else:
            queue.push(piece, is_urgent=way == "urgent")
            queue.flush(sink.send)
        assert queue.unsent_bytes == total - len(sink.taken)
    sink.takes = deque([1 << 20] * (len(pieces) + 1))
    for _ in range(len(pieces) + 1):
        queue.flush(sink.send)
    assert len(sink.taken) == total
    # Cut what arrived back into pieces: no piece was torn apart by another, and each kind kept its order.
    left = {
        True: deque(p for way, p in pieces if way == "urgent"),
        False: deque(p for way, p in pieces if way != "urgent"),
    }
    assert can_be_cut(bytes(sink.taken), left[True], left[False])


def can_be_cut(data, urgent, ordinary):
    states = {(0, 0)}
    for _ in range(len(urgent) + len(ordinary)):
        following = set()
        for first, second in states:
            at = sum(map(len, list(urgent)[:first])) + sum(map(len, list(ordinary)[:second]))
            if first < len(urgent) and data.startswith(urgent[first], at):
                following.add((first + 1, second))
            if second < len(ordinary) and data.startswith(ordinary[second], at):
                following.add((first, second + 1))
        states = following
    return bool(states)


def test_everything_queued_is_one_call():
    queue, sink = SendQueue(), Sink([1000])
    queue.push(b"one")
    assert queue.flush(sink.send, [b"two", b"three"], 8) == 11
    assert sink.calls == [11]
    assert queue.flush(sink.send) == 0


def test_more_than_is_joined_at_a_time_is_queued():
    queue, sink = SendQueue(), Sink([1 << 30] * 2)
    assert queue.flush(sink.send, [b"o" * 200_000] * 3, 600_000) == 400_000
    assert queue.flush(sink.send, [b"p"], 1) == 200_001
    assert sink.taken == b"o" * 600_000 + b"p"


def test_partial_send_copies_nothing_again():
    queue = SendQueue()
    queue.push(b"a" * 1000)
    buffers = []

    def send(data):
        buffers.append(data)
        return 100

    for _ in range(10):
        queue.flush(send)
    assert len({id(memoryview(data).obj) for data in buffers}) == 1
    assert [len(data) for data in buffers] == list(range(1000, 0, -100))


def test_long_queue_is_joined_in_parts_and_an_urgent_piece_waits_for_one_only():
    queue = SendQueue()
    for _ in range(100):
        queue.push(b"o" * 10_000)
    sink = Sink([1, 1 << 30, 1 << 30])
    queue.flush(sink.send)
    queue.push(b"urgent", is_urgent=True)
    queue.flush(sink.send)
    queue.flush(sink.send)
    assert sink.calls[0] <= JOIN_BYTES_MAX + 10_000
    assert sink.taken.index(b"urgent") <= JOIN_BYTES_MAX + 10_000


def test_socket_that_would_block_took_nothing():
    queue, sink = SendQueue(), Sink([])
    queue.push(b"waits")
    assert queue.flush(sink.send) == 0
    assert queue.unsent_bytes == 5
    sink.takes.append(5)
    assert queue.flush(sink.send) == 5
    assert sink.taken == b"waits"


def test_small_pieces_that_wait_are_kept_as_one():
    """A client that reads nothing is sent a hundred thousand short answers: they take no more than their bytes."""
    queue = SendQueue()

    def full(_data):
        raise BlockingIOError

    for _ in range(10):
        queue.flush(full, [b"x" * 20] * 10_000, 200_000)
    assert len(queue.ordinary) < 10
    large = [bytes(SMALL_BYTES)] * 3
    queue.flush(full, large, 3 * SMALL_BYTES)
    assert list(queue.ordinary)[-3:] == large, "large ones are not copied"
    assert queue.unsent_bytes == 2_000_000 + 3 * SMALL_BYTES
