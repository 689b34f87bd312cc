"""Watches: ZooKeeper's rules one by one, then anything at all against a twin that keeps a plain list."""

import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.outcome import (
    CHILD,
    DATA,
    DELETE,
    NODE_CHILDREN_CHANGED,
    NODE_CREATED,
    NODE_DATA_CHANGED,
    NODE_DELETED,
)
from datatree.request_decoding import watched_paths_of
from datatree.requests import SetWatches
from datatree.watches import WatchTable
from datatree.znode import HEAD, STAT_LAYOUT

PERSISTENT, RECURSIVE = 0, 1
CHILDREN_KIND, DATA_KIND, ANY_KIND, PERSISTENT_KIND, RECURSIVE_KIND = 1, 2, 3, 4, 5


def created(path, acl=None):
    return [(DATA, path, NODE_CREATED, acl), (CHILD, parent(path), NODE_CHILDREN_CHANGED, None)]


def deleted(path, acl=None):
    return [(DELETE, path, NODE_DELETED, acl), (CHILD, parent(path), NODE_CHILDREN_CHANGED, None)]


def changed(path, acl=None):
    return [(DATA, path, NODE_DATA_CHANGED, acl)]


def parent(path):
    return path.rpartition(b"/")[0] or b"/"


def fire(table, triggers, may_read=None):
    return [
        (connection, trigger[2], trigger[1]) for trigger in triggers for connection in table.trigger(trigger, may_read)
    ]


def znode(mzxid, pzxid):
    return HEAD.pack(-1, 0, 0, 0, True) + STAT_LAYOUT.pack(1, mzxid, 0, 0, 0, 0, 0, 0, 0, 0, pzxid)


# One-shot watches.


def test_a_data_watch_fires_once():
    table = WatchTable()
    table.add_data("c", b"/a")
    assert fire(table, changed(b"/a")) == [("c", NODE_DATA_CHANGED, b"/a")]
    assert fire(table, changed(b"/a")) == []
    assert not table.any


def test_a_data_watch_on_a_missing_znode_fires_when_it_is_created():
    table = WatchTable()
    table.add_data("c", b"/a")
    assert fire(table, created(b"/a")) == [("c", NODE_CREATED, b"/a")]
    assert not table.any


def test_a_data_watch_does_not_hear_of_children():
    table = WatchTable()
    table.add_data("c", b"/a")
    assert fire(table, created(b"/a/b") + deleted(b"/a/b") + changed(b"/a/b")) == []
    assert table.count("c") == 1


def test_a_child_watch_fires_when_a_child_comes_or_goes_and_not_when_it_changes():
    table = WatchTable()
    table.add_child("c", b"/a")
    assert fire(table, changed(b"/a/b") + changed(b"/a")) == []
    assert fire(table, created(b"/a/b")) == [("c", NODE_CHILDREN_CHANGED, b"/a")]
    table.add_child("c", b"/")
    assert fire(table, deleted(b"/a")) == [("c", NODE_CHILDREN_CHANGED, b"/")]
    assert not table.any


def test_a_child_watch_of_a_deleted_znode_says_deleted():
    table = WatchTable()
    table.add_child("c", b"/a")
    assert fire(table, deleted(b"/a")) == [("c", NODE_DELETED, b"/a")]


def test_data_and_child_watches_of_a_deleted_znode_make_one_event_then_the_parents():
    table = WatchTable()
    table.add_data("c", b"/a")
    table.add_child("c", b"/a")
    table.add_child("c", b"/")
    assert fire(table, deleted(b"/a")) == [("c", NODE_DELETED, b"/a"), ("c", NODE_CHILDREN_CHANGED, b"/")]
    assert not table.any


def test_a_deletion_reaches_data_watchers_before_child_watchers():
    table = WatchTable()
    table.add_child("child", b"/a")
    table.add_data("data", b"/a")
    assert [told[0] for told in fire(table, deleted(b"/a"))] == ["data", "child"]


def test_registering_twice_is_registering_once():
    table = WatchTable()
    table.add_data("c", b"/a")
    table.add_data("c", b"/a")
    assert table.count("c") == table.total_count == 1
    assert len(fire(table, changed(b"/a"))) == 1


# Persistent and recursive watches.


def test_a_persistent_watch_hears_of_the_znode_and_its_children_again_and_again():
    table = WatchTable()
    assert table.add_mode("c", b"/a", PERSISTENT)
    for _ in range(2):
        assert [told[1] for told in fire(table, created(b"/a") + changed(b"/a") + created(b"/a/b"))] == [
            NODE_CREATED,
            NODE_DATA_CHANGED,
            NODE_CHILDREN_CHANGED,
        ]
        assert fire(table, changed(b"/a/b")) == []
        assert fire(table, deleted(b"/a")) == [("c", NODE_DELETED, b"/a")]


def test_a_recursive_watch_hears_of_every_descendant_and_never_of_children_as_such():
    table = WatchTable()
    table.add_mode("c", b"/a", RECURSIVE)
    triggers = created(b"/a") + created(b"/a/b/c") + changed(b"/a/b") + deleted(b"/a/b/c")
    assert fire(table, triggers) == [
        ("c", NODE_CREATED, b"/a"),
        ("c", NODE_CREATED, b"/a/b/c"),
        ("c", NODE_DATA_CHANGED, b"/a/b"),
        ("c", NODE_DELETED, b"/a/b/c"),
    ]
    assert fire(table, changed(b"/ab") + changed(b"/") + changed(b"/b/a")) == []


def test_a_recursive_watch_of_the_root_hears_of_everything():
    table = WatchTable()
    table.add_mode("c", b"/", RECURSIVE)
    assert fire(table, changed(b"/") + changed(b"/a/b")) == [
        ("c", NODE_DATA_CHANGED, b"/"),
        ("c", NODE_DATA_CHANGED, b"/a/b"),
    ]


def test_modes_on_one_path_are_independent_and_make_one_event():
    table = WatchTable()
    table.add_data("c", b"/a")
    table.add_mode("c", b"/a", PERSISTENT)
    table.add_mode("c", b"/a", RECURSIVE)
    assert table.count("c") == 3
    assert fire(table, changed(b"/a")) == [("c", NODE_DATA_CHANGED, b"/a")]
    assert table.count("c") == 2
    assert fire(table, created(b"/a/b")) == [("c", NODE_CREATED, b"/a/b"), ("c", NODE_CHILDREN_CHANGED, b"/a")]
    assert fire(table, deleted(b"/a")) == [("c", NODE_DELETED, b"/a")]


def test_several_recursive_ancestors_of_one_connection_make_one_event():
    table = WatchTable()
    for path in (b"/", b"/a", b"/a/b"):
        table.add_mode("c", path, RECURSIVE)
    assert fire(table, changed(b"/a/b")) == [("c", NODE_DATA_CHANGED, b"/a/b")]


@pytest.mark.parametrize("mode", [-1, 2, 5])
def test_an_unknown_mode_registers_nothing(mode):
    table = WatchTable()
    assert not table.add_mode("c", b"/a", mode)
    assert not table.any


# Who may know.


def test_an_event_reaches_only_those_who_may_read_and_the_watch_is_consumed_all_the_same():
    table = WatchTable()
    acl = ((1, b"digest", b"u:h"),)
    asked = []

    def may_read(connection, acl):
        asked.append((connection, acl))
        return connection == "friend"

    for connection in ("friend", "stranger"):
        table.add_data(connection, b"/a")
    table.add_mode("stranger", b"/", RECURSIVE)
    assert fire(table, changed(b"/a", acl), may_read) == [("friend", NODE_DATA_CHANGED, b"/a")]
    assert asked == [("friend", acl), ("stranger", acl)]
    assert table.count("stranger") == 1
    assert table.count("friend") == 0


def test_the_open_acl_is_not_asked_about():
    table = WatchTable()
    table.add_data("c", b"/a")
    assert fire(table, changed(b"/a", None), lambda *_: pytest.fail("asked")) == [("c", NODE_DATA_CHANGED, b"/a")]


# Registering again after a reconnection.

NODES = {b"/old": znode(5, 5), b"/new": znode(6, 6), b"/touched": znode(6, 5), b"/parent": znode(5, 6)}


def set_again(table, request, znodes):
    """All that a request asks for, in its order: the events that come of it."""
    opcode = OpCode.SET_WATCHES if request.persistent is None else OpCode.SET_WATCHES2
    asked = watched_paths_of(opcode, request.encode())
    told = [(table.set_again("c", kind, path, zxid, znodes, lambda _: True), path) for kind, path, zxid in asked]
    return [event for event in told if event[0]]


@pytest.mark.parametrize(
    ("lists", "event", "registered"),
    [
        ({"data": b"/gone"}, NODE_DELETED, None),
        ({"data": b"/touched"}, NODE_DATA_CHANGED, None),
        ({"data": b"/parent"}, None, DATA_KIND),
        ({"exist": b"/old"}, NODE_CREATED, None),
        ({"exist": b"/gone"}, None, DATA_KIND),
        ({"child": b"/gone"}, NODE_DELETED, None),
        ({"child": b"/parent"}, NODE_CHILDREN_CHANGED, None),
        ({"child": b"/touched"}, None, CHILDREN_KIND),
        ({"persistent": b"/new"}, None, PERSISTENT_KIND),
        ({"persistent": b"/gone"}, None, PERSISTENT_KIND),
        ({"recursive": b"/new"}, None, RECURSIVE_KIND),
    ],
)
def test_set_watches_tells_what_changed_and_registers_the_rest(lists, event, registered):
    ((name, path),) = lists.items()
    fields = {"data": (), "exist": (), "child": (), "persistent": ()} | {name: (path,)}
    table = WatchTable()
    events = set_again(table, SetWatches(zxid=5, **fields), NODES)
    assert events == ([] if event is None else [(event, path)])
    for kind in (CHILDREN_KIND, DATA_KIND, PERSISTENT_KIND, RECURSIVE_KIND):
        assert (table.check("c", path, kind) == ErrorCode.OK) == (kind == registered)
    assert table.total_count == (registered is not None)


def test_set_watches_tells_in_the_order_of_the_lists():
    request = SetWatches(5, (b"/gone", b"/new"), (b"/old",), (b"/new", b"/gone"))
    assert set_again(WatchTable(), request, NODES) == [
        (NODE_DELETED, b"/gone"),
        (NODE_DATA_CHANGED, b"/new"),
        (NODE_CREATED, b"/old"),
        (NODE_CHILDREN_CHANGED, b"/new"),
        (NODE_DELETED, b"/gone"),
    ]


# Checking and removing.


def all_kinds():
    table = WatchTable()
    table.add_data("c", b"/a")
    table.add_child("c", b"/a")
    table.add_mode("c", b"/a", PERSISTENT)
    table.add_mode("c", b"/a", RECURSIVE)
    return table


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        (CHILDREN_KIND, {DATA_KIND, PERSISTENT_KIND, RECURSIVE_KIND}),
        (DATA_KIND, {CHILDREN_KIND, PERSISTENT_KIND, RECURSIVE_KIND}),
        (ANY_KIND, set()),
        (PERSISTENT_KIND, {CHILDREN_KIND, DATA_KIND, RECURSIVE_KIND}),
        (RECURSIVE_KIND, {CHILDREN_KIND, DATA_KIND, PERSISTENT_KIND}),
    ],
)
def test_remove_takes_its_type_of_watcher_and_no_other(kind, left):
    table = all_kinds()
    assert table.check("c", b"/a", kind) == ErrorCode.OK
    assert table.remove("c", b"/a", kind) == ErrorCode.OK
    assert table.remove("c", b"/a", kind) == ErrorCode.NOWATCHER
    kinds = {CHILDREN_KIND, DATA_KIND, PERSISTENT_KIND, RECURSIVE_KIND}
    assert {kind for kind in kinds if table.check("c", b"/a", kind) == ErrorCode.OK} == left
    assert table.count("c") == len(left)


def test_a_removed_persistent_watch_is_gone_for_data_and_for_children():
    table = WatchTable()
    table.add_mode("c", b"/a", PERSISTENT)
    table.remove("c", b"/a", PERSISTENT_KIND)
    assert fire(table, changed(b"/a") + created(b"/a/b")) == []


def test_a_persistent_watch_is_neither_a_data_nor_a_child_watch_when_checked():
    table = WatchTable()
    table.add_mode("c", b"/a", PERSISTENT)
    assert table.check("c", b"/a", DATA_KIND) == ErrorCode.NOWATCHER
    assert table.check("c", b"/a", CHILDREN_KIND) == ErrorCode.NOWATCHER
    assert table.check("c", b"/a", ANY_KIND) == ErrorCode.OK


def test_watches_of_others_and_of_other_paths_do_not_count():
    table = all_kinds()
    assert table.check("d", b"/a", ANY_KIND) == ErrorCode.NOWATCHER
    assert table.remove("c", b"/b", ANY_KIND) == ErrorCode.NOWATCHER
    assert table.count("c") == 4


@pytest.mark.parametrize("kind", [0, 6, -1])
def test_an_unknown_type_of_watcher_is_a_marshalling_error(kind):
    table = all_kinds()
    assert table.check("c", b"/a", kind) == ErrorCode.MARSHALLINGERROR
    assert table.remove("c", b"/a", kind) == ErrorCode.MARSHALLINGERROR
    assert table.count("c") == 4


def test_who_watches_one_path_beside_another_connection_watches_its_other_paths_alone():
    table = WatchTable()
    for path in (b"/a", b"/b"):
        table.add_mode("c", path, PERSISTENT)
    table.add_mode("d", b"/a", PERSISTENT)
    assert fire(table, changed(b"/b")) == [("c", NODE_DATA_CHANGED, b"/b")]
    assert fire(table, changed(b"/a")) == [("c", NODE_DATA_CHANGED, b"/a"), ("d", NODE_DATA_CHANGED, b"/a")]
    table.close("d")
    assert fire(table, changed(b"/a")) == [("c", NODE_DATA_CHANGED, b"/a")]
    table.close("c")
    assert not table.any


def test_a_path_that_nobody_else_watches_gives_the_collector_nothing_to_look_at():
    """A full collection holds up everybody; it comes when a member is quiet, and once in so many objects."""
    table, connection, paths = WatchTable(), WatchTable(), [b"/%d" % number for number in range(1_000)]
    gc.collect()
    before = len(gc.get_objects())
    for path in paths:
        table.add_data(connection, path)
        table.add_mode(connection, path, PERSISTENT)
    assert len(gc.get_objects()) - before < 100


def test_a_closed_connection_is_forgotten_bit_by_bit():
    table = all_kinds()
    table.add_data("d", b"/a")
    assert [table.close("c", 3), table.count("c"), table.total_count] == [3, 1, 2]
    assert [table.close("c", 3), table.count("c"), table.total_count] == [1, 0, 1]
    assert table.close("c", 3) == 0
    assert fire(table, deleted(b"/a")) == [("d", NODE_DELETED, b"/a")]
    assert not any(table._tables)


def test_a_closed_connection_leaves_nothing_behind():
    table = all_kinds()
    table.add_data("d", b"/a")
    table.close("c")
    table.close("stranger")
    assert table.total_count == table.count("d") == 1
    assert fire(table, deleted(b"/a")) == [("d", NODE_DELETED, b"/a")]
    assert not table.any
    assert not any(table._tables)
    assert not table._holdings


# Counts.


def test_what_the_four_letter_words_ask_for():
    table = WatchTable()
    assert table.holders() == []
    table.add_data("c", b"/a")
    table.add_mode("c", b"/a", RECURSIVE)
    table.add_mode("d", b"/b", PERSISTENT)
    table.add_data("d", b"/a")
    table.add_child("e", b"/c")
    assert table.holders() == ["c", "d", "e"]
    assert [table.data_watches_count(holder) for holder in ("c", "d", "e", "nobody")] == [2, 2, 0, 0]
    assert {holder: sorted(table.data_paths_of(holder)) for holder in ("c", "d", "e", "nobody")} == {
        "c": [b"/a"],
        "d": [b"/a", b"/b"],
        "e": [],
        "nobody": [],
    }
    assert {path: table.data_watchers(path) for path in table.data_paths()} == {b"/a": ["c", "d"], b"/b": ["d"]}
    assert [*table.data_paths()] == [b"/a", b"/b"]
    assert table.total_count == 5


# Anything at all, against a twin with ZooKeeper's two tables and modes, kept as a list.


class Twin:
    def __init__(self):
        self.entries = []

    def add(self, table, connection, path, mode):
        if (table, connection, path, mode) not in self.entries:
            self.entries.append((table, connection, path, mode))

    def count(self, connection):
        return sum(entry[1] == connection and (entry[0], entry[3]) != ("child", "persistent") for entry in self.entries)

    def fire(self, table, path):
        told = set()
        for entry in list(self.entries):
            where, connection, watched, mode = entry
            above = watched == b"/" or path.startswith(watched + b"/")
            if where == table and (watched == path or (mode == "recursive" and above)):
                told.add(connection)
                if mode == "standard":
                    self.entries.remove(entry)
        return told

    def trigger(self, trigger):
        kind, path, event_type, _ = trigger
        told = self.fire("child" if kind == CHILD else "data", path)
        if kind == DELETE:
            told |= self.fire("child", path)
        return {(connection, event_type, path) for connection in told}

    KINDS = {  # noqa: RUF012
        CHILDREN_KIND: [("child", "standard")],
        DATA_KIND: [("data", "standard")],
        PERSISTENT_KIND: [("data", "persistent"), ("child", "persistent")],
        RECURSIVE_KIND: [("data", "recursive")],
    }

    def remove(self, connection, path, kind):
        pairs = [pair for pairs in self.KINDS.values() for pair in pairs] if kind == ANY_KIND else self.KINDS[kind]
        gone = [entry for entry in self.entries if entry[1:3] == (connection, path) and (entry[0], entry[3]) in pairs]
        self.entries = [entry for entry in self.entries if entry not in gone]
        return ErrorCode.OK if gone else ErrorCode.NOWATCHER


CONNECTIONS = st.sampled_from("cde")
PATHS = st.sampled_from([b"/", b"/a", b"/ab", b"/a/b", b"/a/b/c", b"/b"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["data", "child", "persistent", "recursive", "close"]), CONNECTIONS, PATHS),
        st.tuples(st.just("remove"), CONNECTIONS, PATHS, st.integers(1, 5)),
        st.tuples(st.sampled_from([created, deleted, changed]), PATHS),
    ),
    max_size=40,
)


def step(table, twin, kind, *arguments):
    if callable(kind):
        for trigger in kind(*arguments):
            told = fire(table, [trigger])
            assert len(told) == len(set(told))
            assert set(told) == twin.trigger(trigger)
        return
    connection, path = arguments[:2]
    if kind in ("data", "child"):
        (table.add_data if kind == "data" else table.add_child)(connection, path)
        twin.add(kind, connection, path, "standard")
    elif kind == "persistent":
        table.add_mode(connection, path, PERSISTENT)
        twin.add("data", connection, path, "persistent")
        twin.add("child", connection, path, "persistent")
    elif kind == "recursive":
        table.add_mode(connection, path, RECURSIVE)
        twin.add("data", connection, path, "recursive")
    elif kind == "remove":
        assert table.remove(*arguments) == twin.remove(*arguments)
    else:
        table.close(connection)
        twin.entries = [entry for entry in twin.entries if entry[1] != connection]


@settings(max_examples=300)
@given(STEPS)
def test_any_sequence_agrees_with_a_plain_list(steps):
    table, twin = WatchTable(), Twin()
    for arguments in steps:
        step(table, twin, *arguments)
        for connection in "cde":
            assert table.count(connection) == twin.count(connection)
    assert table.total_count == sum(map(twin.count, "cde"))
    for connection in "cde":
        table.close(connection)
    assert not any(table._tables)
