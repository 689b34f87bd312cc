"""The registry of watches against the rules of notification, and against a dumb twin."""

from hypothesis import given
from hypothesis import strategies as st

from datatree.opcodes import OpCode
from zab.client.core.records import EventType, WatchKind
from zab.client.core.watches import Table, WatchRegistry

CREATED, DELETED = EventType.CREATED, EventType.DELETED
DATA_CHANGED, CHILDREN_CHANGED = EventType.DATA_CHANGED, EventType.CHILDREN_CHANGED


def test_one_shot_watch_hears_once() -> None:
    registry = WatchRegistry()
    registry.add(Table.DATA, b"/a", "w")
    assert registry.notify(DATA_CHANGED, b"/a") == ["w"]
    assert registry.notify(DATA_CHANGED, b"/a") == []


def test_watch_of_a_missing_znode_hears_of_its_creation() -> None:
    registry = WatchRegistry()
    registry.add(Table.EXIST, b"/a", "w")
    assert registry.notify(CHILDREN_CHANGED, b"/a") == []
    assert registry.notify(CREATED, b"/a") == ["w"]


def test_deletion_consumes_data_and_child_watches_and_tells_each_watcher_once() -> None:
    registry = WatchRegistry()
    registry.add(Table.DATA, b"/a", "both")
    registry.add(Table.CHILD, b"/a", "both")
    registry.add(Table.CHILD, b"/a", "child")
    assert registry.notify(DELETED, b"/a") == ["both", "child"]
    assert len(registry) == 0


def test_persistent_watch_stays_and_hears_of_the_znode_and_its_children() -> None:
    registry = WatchRegistry()
    registry.add(Table.PERSISTENT, b"/a", "w")
    for event in (CREATED, DATA_CHANGED, CHILDREN_CHANGED, DELETED, CREATED):
        assert registry.notify(event, b"/a") == ["w"]
    assert registry.notify(DATA_CHANGED, b"/a/b") == []


def test_recursive_watch_hears_of_descendants_but_not_of_changed_children() -> None:
    registry = WatchRegistry()
    registry.add(Table.RECURSIVE, b"/a", "w")
    registry.add(Table.RECURSIVE, b"/", "root")
    assert registry.notify(CREATED, b"/a/b/c") == ["w", "root"]
    assert registry.notify(DATA_CHANGED, b"/ab") == ["root"]
    assert registry.notify(CHILDREN_CHANGED, b"/a") == []


def test_removal_by_kind_tells_whom_it_concerns_and_leaves_the_others() -> None:
    registry = WatchRegistry()
    for table, watcher in zip(Table, "abcde", strict=True):
        registry.add(table, b"/a", watcher)
    assert registry.remove(b"/a", WatchKind.DATA) == [
        (EventType.DATA_WATCH_REMOVED, "a"),
        (EventType.DATA_WATCH_REMOVED, "b"),
    ]
    assert registry.remove(b"/a", WatchKind.CHILDREN) == [(EventType.CHILD_WATCH_REMOVED, "c")]
    assert registry.remove(b"/a", WatchKind.PERSISTENT, "nobody") == []
    assert registry.remove(b"/a", WatchKind.ANY) == [
        (EventType.PERSISTENT_WATCH_REMOVED, "d"),
        (EventType.PERSISTENT_WATCH_REMOVED, "e"),
    ]
    assert len(registry) == 0


def test_release_names_the_places_where_nobody_else_waits() -> None:
    registry = WatchRegistry()
    registry.add(Table.PERSISTENT, b"/a", "w")
    registry.add(Table.PERSISTENT, b"/b", "w")
    registry.add(Table.PERSISTENT, b"/b", "other")
    assert registry.release("w") == [(Table.PERSISTENT, b"/a")]
    assert registry.watchers() == ["other"]


def test_old_servers_are_asked_with_set_watches_while_no_watch_is_persistent() -> None:
    registry = WatchRegistry()
    assert registry.restore(7) == []
    registry.add(Table.DATA, b"/d", "w")
    registry.add(Table.EXIST, b"/e", "w")
    registry.add(Table.CHILD, b"/c", "w")
    ((opcode, body),) = registry.restore(7)
    assert opcode is OpCode.SET_WATCHES
    assert (body.zxid, body.data, body.exist, body.child) == (7, (b"/d",), (b"/e",), (b"/c",))
    registry.add(Table.RECURSIVE, b"/r", "w")
    ((opcode, body),) = registry.restore(7)
    assert opcode is OpCode.SET_WATCHES2
    assert (body.persistent, body.recursive) == ((), (b"/r",))


def test_restoring_many_watches_takes_several_requests_below_128_kib() -> None:
    registry = WatchRegistry()
    paths = {b"/p%06d" % number for number in range(30_000)}
    for path in paths:
        registry.add(Table.DATA, path, "w")
    requests = registry.restore(1)
    assert len(requests) > 1
    assert all(len(body.encode()) <= 128 * 1024 + 64 for _, body in requests)
    assert sorted(path for _, body in requests for path in body.data) == sorted(paths)


def test_a_path_above_the_bound_is_restored_alone() -> None:
    registry = WatchRegistry()
    registry.add(Table.DATA, b"/" + b"x" * 100, "w")
    registry.add(Table.DATA, b"/y", "w")
    assert [len(body.data) for _, body in registry.restore(1, bytes_max=50)] == [1, 1]


PATHS = st.sampled_from([b"/", b"/a", b"/a/b", b"/a/b/c", b"/ab"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(list(Table)), PATHS, st.integers(0, 2)),
        st.tuples(st.just("notify"), st.sampled_from([CREATED, DELETED, DATA_CHANGED, CHILDREN_CHANGED]), PATHS),
        st.tuples(st.just("release"), st.integers(0, 2)),
    ),
    max_size=30,
)
CONSUMED = {
    CREATED: {Table.DATA, Table.EXIST},
    DATA_CHANGED: {Table.DATA, Table.EXIST},
    CHILDREN_CHANGED: {Table.CHILD},
    DELETED: {Table.DATA, Table.EXIST, Table.CHILD},
}


def heard(entry: tuple[Table, bytes, int], event: EventType, path: bytes) -> bool:
    table, watched, _ = entry
    if table is Table.RECURSIVE:
        below = watched == b"/" or path == watched or path.startswith(watched + b"/")
        return below and event is not CHILDREN_CHANGED
    return watched == path and (table is Table.PERSISTENT or table in CONSUMED[event])


@given(STEPS)
def test_registry_does_what_a_plain_set_of_registrations_does(steps: list[tuple]) -> None:
    registry, twin = WatchRegistry(), set()
    for step in steps:
        match step:
            case ("add", table, path, watcher):
                registry.add(table, path, watcher)
                twin.add((table, path, watcher))
            case ("notify", event, path):
                hit = {entry for entry in twin if heard(entry, event, path)}
                told = registry.notify(event, path)
                assert len(told) == len(set(told))
                assert set(told) == {watcher for _, _, watcher in hit}
                twin -= {entry for entry in hit if entry[0] not in (Table.PERSISTENT, Table.RECURSIVE)}
            case ("release", watcher):
                before = {(table, path) for table, path, owner in twin if owner == watcher}
                twin = {entry for entry in twin if entry[2] != watcher}
                after = {(table, path) for table, path, _ in twin}
                assert set(registry.release(watcher)) == before - after
        assert len(registry) == len(twin)
        assert set(registry.watchers()) == {watcher for _, _, watcher in twin}
