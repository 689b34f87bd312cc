"""How many file descriptors clients may have."""

import resource

import pytest

from zab.host.process.descriptors import RESERVE_MAX, WANTED_MAX, for_clients, for_newcomers, raise_limit


@pytest.mark.parametrize(("limit", "count"), [(64, 32), (1023, 512), (1024, 512), (1 << 20, (1 << 20) - RESERVE_MAX)])
def test_clients_leave_a_reserve(limit: int, count: int) -> None:
    assert for_clients(limit) == count


@pytest.mark.parametrize(("wanted", "count"), [(5, 5), (50, 50), (51, 50), (1 << 20, 50)])
def test_newcomers_have_no_more_than_half_of_what_clients_have(wanted: int, count: int) -> None:
    assert for_newcomers(100, wanted) == count


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
