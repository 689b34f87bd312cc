"""How many file descriptors clients may have."""

import resource

import pytest

from zab.host.process import descriptors
from zab.host.process.descriptors import RESERVE_MAX, WANTED_MAX, client_descriptors, for_clients, raise_limit


@pytest.mark.parametrize(("limit", "count"), [(64, 32), (1023, 512), (1024, 512), (1 << 20, (1 << 20) - RESERVE_MAX)])
def test_clients_leave_a_reserve(limit: int, count: int) -> None:
    assert for_clients(limit) == count


@pytest.mark.parametrize(("wanted", "count"), [(0, 0), (5, 5), (500, 500), (501, 500), (1 << 20, 500)])
def test_newcomers_have_no_more_than_half_of_what_clients_have(
    wanted: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descriptors, "raise_limit", lambda: 1000 + RESERVE_MAX)
    have = client_descriptors(wanted)
    assert (have.newcomers_count, have.connected_count) == (count, 1000 - count)


def test_limit_is_raised_as_far_as_it_may_be() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] // 2, before[1]))
        wanted = min(before[1], WANTED_MAX)
        assert raise_limit() == wanted
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (wanted, before[1])
        assert raise_limit() == wanted
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
