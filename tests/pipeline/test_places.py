"""Files on local disks and in stores, named by paths and URIs."""

import pickle
from pathlib import Path

import pytest
from pyarrow import fs

from zab.pipeline import places
from zab.pipeline.errors import PipelineError
from zab.pipeline.places import Place, open_place


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b").write_bytes(b"0123456789")
    (tmp_path / "a").write_bytes(b"")
    return tmp_path


@pytest.fixture(params=["path", "file", "store"])
def root(request: pytest.FixtureRequest, tree: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A directory as a path, as a URI, and below a store that is no name of the local file system."""
    if request.param == "path":
        return open_place(str(tree))
    if request.param == "file":
        return open_place(tree.as_uri())
    store = fs.SubTreeFileSystem(str(tree.parent), fs.LocalFileSystem())
    monkeypatch.setattr(places, "_file_system", lambda _root: (store, tree.name))
    return open_place(f"s3://{tree.name}")


def test_a_directory_is_listed_by_name(root: Place) -> None:
    found = root.list()
    assert [(entry.name, entry.is_directory, entry.size) for entry in found] == [
        ("a", False, 0),
        ("b", False, 10),
        ("sub", True, 0),
    ]
    assert all(entry.modified_ns > 0 for entry in found)
    assert (root / "missing").list() == []


def test_a_file_is_read_at_offsets(root: Place) -> None:
    with (root / "b").open() as file:
        assert file.size == 10
        assert [file.read(0, 4), file.read(8, 4), file.read(10, 4), file.read(3, 0)] == [b"0123", b"89", b"", b""]
    assert (root / "b").read() == b"0123456789"
    assert (root / "b").read(2, 3) == b"234"
    assert (root / "a").read() == b""


def test_what_a_place_is(root: Place) -> None:
    assert [root.kind(), (root / "b").kind(), (root / "c").kind()] == ["directory", "file", ""]
    assert (root / "sub").parent == root
    assert (root / "sub" / "x").name == "x"
    with pytest.raises(OSError, match="missing"):
        (root / "missing").open()


def test_places_travel_as_text(tree: Path) -> None:
    place = open_place(str(tree)) / "b"
    assert pickle.loads(pickle.dumps(place)).read() == b"0123456789"


def test_relative_paths_are_from_here(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert str(open_place("sub")) == str(tree / "sub")
    assert str(open_place("./sub/../b")) == str(tree / "b")
    assert open_place(".").name == tree.name


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://key:secret@bucket/logs/zab?region=eu-central-1&endpoint_override=localhost:9", "s3://bucket/logs/zab"),
        ("s3://bucket?region=eu-central-1", "s3://bucket"),
        ("file:///var/lib/zab/", "file:///var/lib/zab"),
    ],
)
def test_neither_credentials_nor_options_are_shown(uri: str, shown: str) -> None:
    place = open_place(uri)
    assert str(place) == shown
    assert str(place / "log.1") == f"{shown}/log.1"
    assert place.root == uri


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the name of a directory is empty"),
        ("bogus://x/y", "bogus://x/y cannot be opened: .*"),
        ("bogus://user:secret@x/y", r"bogus://x/y cannot be opened: (?!.*secret).*"),
    ],
)
def test_what_no_file_system_serves_is_told(name: str, reason: str) -> None:
    with pytest.raises(PipelineError, match=f"^{reason}"):
        open_place(name)
