"""Times and bounds are those of a quiet core, whatever else the machine does."""

from itertools import cycle

import pytest

from tests.rigs import quiet_core
from tests.rigs.quiet_core import PIECE_NS, Slowness, quiet_ms, slowness_of_machine
from tests.rigs.waiting import until


@pytest.mark.parametrize(
    ("pieces_ns", "allowed_us"),
    [
        pytest.param([PIECE_NS] * 3, 50_000, id="quiet"),
        pytest.param([PIECE_NS // 2] * 3, 50_000, id="a faster machine is given no less"),
        pytest.param([3 * PIECE_NS] * 3, 150_000, id="all is slow"),
        pytest.param([PIECE_NS, PIECE_NS, PIECE_NS + 40_000_000], 90_000, id="it stood still for 40 ms"),
    ],
)
def test_a_bound_is_as_much_higher_as_the_machine_is_slow(pieces_ns, allowed_us):
    assert Slowness(pieces_ns).allowed_us(50_000) == allowed_us


@pytest.mark.parametrize(
    ("pieces_ns", "took_ns", "ms"),
    [
        pytest.param([PIECE_NS], [9_000_000], 9, id="quiet"),
        pytest.param([2 * PIECE_NS], [18_000_000], 9, id="twice as slow"),
        pytest.param([PIECE_NS], [60_000_000, 9_000_000, 9_000_000, 9_000_000, 9_000_000], 9, id="one stall"),
        pytest.param([PIECE_NS // 2], [9_000_000], 9, id="a faster machine"),
    ],
)
def test_a_time_is_that_of_a_quiet_core(monkeypatch, pieces_ns, took_ns, ms):
    pieces, times = cycle(pieces_ns), cycle(took_ns)
    monkeypatch.setattr(quiet_core, "piece_ns", lambda: next(pieces))
    assert quiet_ms(lambda: next(times)) == ms


def test_the_piece_is_timed_all_the_while():
    with slowness_of_machine() as machine:
        until(lambda: len(machine.pieces_ns) > 2)
    assert min(machine.pieces_ns) > 0
