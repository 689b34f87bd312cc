"""Directories in memory are used only where there is room for them."""

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.rigs import quick_files
from tests.rigs.quick_files import has_room, use_memory


@pytest.fixture
def figures(tmp_path: Path) -> Path:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:       24000000 kB\nMemFree:          100000 kB\nMemAvailable:    2000 kB\n")
    return file


def test_there_is_room_where_both_have_it(tmp_path: Path, figures: Path) -> None:
    assert has_room(tmp_path, figures, 2000 * 1024)
    assert not has_room(tmp_path, figures, 2000 * 1024 + 1)
    figures.write_text(f"MemAvailable: {1 << 50} kB\n")
    assert not has_room(tmp_path, figures, 1 << 60)


def test_there_is_none_where_the_system_does_not_say_so(tmp_path: Path, figures: Path) -> None:
    assert not has_room(tmp_path / "absent", figures, 1)
    assert not has_room(tmp_path, tmp_path / "absent", 1)
    figures.write_text("MemFree: 1000 kB\n")
    assert not has_room(tmp_path, figures, 1)


def test_there_is_none_where_nothing_may_be_run(tmp_path: Path, figures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = os.statvfs(tmp_path)
    flags = SimpleNamespace(
        f_flag=os.ST_NOEXEC, f_bavail=found.f_bavail, f_blocks=found.f_blocks, f_frsize=1, f_bfree=0
    )
    monkeypatch.setattr(os, "statvfs", lambda _: flags)
    assert not has_room(tmp_path, figures, 0)
    flags.f_flag = 0
    assert has_room(tmp_path, figures, 0)


@pytest.mark.parametrize(("chosen", "then"), [(None, "/dev/shm"), ("/mine", "/mine")])
def test_a_directory_that_was_chosen_stays(chosen: str | None, then: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_files, "has_room", lambda *_: True)
    monkeypatch.setenv("TMPDIR", chosen or "")
    if chosen is None:
        monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(tempfile, "tempdir", "/asked-before" if chosen is None else chosen)
    use_memory()
    assert os.environ["TMPDIR"] == then
    assert tempfile.gettempdir() == then
