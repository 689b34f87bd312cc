"""Directories that hold the copies of ledgers: on a disk, and through `pyarrow.fs`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from zab.ledgers.objects import LocalObjects, Objects, StoreObjects, open_objects
from zab.wire.checksums import MissingLibraryError


@pytest.fixture(params=["disk", "store"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    path = tmp_path / "a" / "b"
    if request.param == "disk":
        return LocalObjects(path)
    from pyarrow import fs

    return StoreObjects(fs.LocalFileSystem(), str(path), "s3://bucket")


def put(objects: Objects, name: str, *pieces: bytes) -> None:
    new = objects.create(name)
    for piece in pieces:
        new.write(piece)
    new.commit()


def test_an_object_is_read_as_it_was_written(objects: Objects) -> None:
    assert objects.names() == []
    put(objects, "one", b"abc", b"def")
    put(objects, "two")
    assert objects.names() == ["one", "two"]
    assert objects.size("one") == 6
    assert objects.read("one", 2, 3) == b"cde"
    assert objects.read("one", 4, 10) == b"ef"
    objects.remove("one")
    objects.remove("one")
    assert objects.names() == ["two"]


def test_what_is_not_there_is_said(objects: Objects) -> None:
    with pytest.raises(FileNotFoundError):
        objects.size("one")
    with pytest.raises(FileNotFoundError):
        objects.read("one", 0, 1)
    objects.remove("one")


def test_an_object_that_is_not_wanted_is_gone(objects: Objects) -> None:
    new = objects.create("one")
    new.write(b"abc")
    new.abort()
    assert objects.names() == []


def test_an_object_is_whole_and_synced_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def syncs(descriptor: int) -> None:
        done.append("sync " + Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    def replaces(source: Path, target: Path) -> None:
        done.append("rename")
        replace(source, target)

    objects = open_objects(str(tmp_path / "made"))
    new = objects.create("one")
    monkeypatch.setattr(os, "fsync", syncs)
    monkeypatch.setattr(os, "replace", replaces)
    new.write(b"abc")
    assert objects.names() == ["one.tmp"]
    new.commit()
    assert done == ["sync one.tmp", "rename", "sync made"]
    assert objects.names() == ["one"]


def test_a_file_uri_is_a_path(tmp_path: Path) -> None:
    put(open_objects(f"file://{tmp_path}"), "one", b"a")
    assert (tmp_path / "one").read_bytes() == b"a"


def test_errors_of_the_library_are_errors_of_the_place_without_its_credentials() -> None:
    with pytest.raises(OSError, match="nothing") as told:
        open_objects("nothing://key:secret@here/there")
    assert "secret" not in str(told.value)


def test_the_extra_is_named_where_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingLibraryError, match=r"zab\[backup\]"):
        open_objects("s3://another-bucket/prefix")
