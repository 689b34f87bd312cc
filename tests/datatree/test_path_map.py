"""Values by path against a twin that tries every prefix, and what a long path costs."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datatree import path_map
from datatree.path_map import PathMap
from datatree.paths import parent
from datatree.slices import PARTS, PATH_BYTES, slices_of

NAMES = st.sampled_from((b"a", b"b", b"ab", b"d"))
PATHS = st.lists(NAMES, max_size=5).map(lambda names: b"/" + b"/".join(names))
DEPTH = 6_000


def around(keys: set[bytes], path: bytes) -> list[bytes]:
    found = [path]
    while path != b"/":
        path = parent(path)
        found.append(path)
    return [each for each in reversed(found) if each in keys]


@given(st.lists(st.tuples(st.booleans(), PATHS)), PATHS)
def test_finds_what_stands_at_a_path_and_around_it(changes: list[tuple[bool, bytes]], path: bytes) -> None:
    values: PathMap[bytes] = PathMap()
    for is_set, each in changes:
        if is_set:
            values[each] = each
        elif each in values and len(each) % 2:
            del values[each]
        else:
            values.pop(each)
        assert values.around(path) == around(set(values), path)


@pytest.mark.parametrize("path", [b"", b"a", b"a/b", b"//", b"/a/", b"/a//b"])
def test_takes_paths_that_no_znode_has(path: bytes) -> None:
    values: PathMap[bytes] = PathMap()
    for each in (b"", b"a", b"//", b"/a/", b"/a//b"):
        values[each] = each
    assert (path in values) == (path in values.around(path))


def test_keys_that_share_a_mark_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_map, "crc32", lambda _data, _start=0: 7)
    values: PathMap[int] = PathMap()
    values[b"/a"], values[b"/b/c"], values[b"/b/c"] = 1, 2, 3
    assert values.around(b"/b/c/d") == [3]
    del values[b"/a"]
    assert values.around(b"/b/c/d") == [3]


def test_a_path_of_thousands_of_components_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0

    def counted(plain: Callable[..., int]) -> Callable[..., int]:
        def crc32(data: bytes, start: int = 0) -> int:
            nonlocal looked_at
            looked_at += len(data)
            return plain(data, start)

        return crc32

    deep = b"/d" * DEPTH
    values: PathMap[int] = PathMap()
    values[b"/zzz"] = 1
    monkeypatch.setattr(path_map, "crc32", counted(path_map.crc32))
    assert values.around(deep) == []
    assert looked_at <= len(b"/zzz"), "no key is longer"
    values[deep + b"/x"] = looked_at = 0
    assert values.around(deep) == []
    assert looked_at <= len(deep)


def test_a_slice_has_few_long_paths() -> None:
    """The paths of a multi, and of a session's ephemerals."""
    deep = b"/d" * DEPTH
    for items in ([(1, 0, deep, b"", None)] * 20, [deep] * 20):
        sizes = [len(some) for some in slices_of(items)]
        assert sum(sizes) == 20
        assert max(sizes) <= 1 + PARTS * PATH_BYTES // len(deep)
