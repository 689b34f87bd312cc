"""The cache of what is downloaded, without a network: what cannot be had leaves nothing, one worker makes a thing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from tests.downloads.environments import environment, once


@pytest.mark.process
@pytest.mark.long
def test_what_cannot_be_had_is_a_skip_with_its_reason_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(pytest.skip.Exception, match=r"pip install zab-not-there==1: .*zab-not-there"):
        environment("made", "zab-not-there==1")
    assert [path.name for path in (tmp_path / "zab").iterdir() if path.is_dir()] == []


def test_what_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    place = tmp_path / "made"
    place.mkdir()
    (place / "half").touch()
    once(place, Path.mkdir)
    assert sorted(path.name for path in place.iterdir()) == ["complete"]


def test_workers_that_want_the_same_at_once_make_it_once(tmp_path: Path) -> None:
    made: list[Path] = []
    start = Barrier(4)

    def make(place: Path) -> None:
        place.mkdir()
        made.append(place)

    def work(_: int) -> bool:
        start.wait()
        once(tmp_path / "made", make)
        return (tmp_path / "made" / "complete").exists()

    with ThreadPoolExecutor(4) as workers:
        assert list(workers.map(work, range(4))) == [True] * 4
    assert made == [tmp_path / "made"]
