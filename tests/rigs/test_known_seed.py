"""A known seed that finds nothing is a failure that names another one."""

from __future__ import annotations

import pytest

from tests.rigs.known_seed import check_known


def test_a_known_seed_that_finds_it_is_the_only_one_that_is_tried() -> None:
    tried: list[int] = []

    def finds(seed: int) -> bool:
        tried.append(seed)
        return True

    check_known(finds, 7, 10)
    assert tried == [7]


def test_the_seed_to_write_down_is_named() -> None:
    with pytest.raises(pytest.fail.Exception, match="seed 7 does not find it any longer, 3 does: write that down"):
        check_known(lambda seed: seed == 3, 7, 10)


def test_none_of_them_finds_it() -> None:
    with pytest.raises(pytest.fail.Exception, match="neither seed 7 finds it, which did, nor one below 3"):
        check_known(lambda seed: seed == 3, 7, 3)
