"""Access lists in znodes: changed by the controller, followed by every broker, closed where they cannot be read."""

import pytest

from tests.partition.controller.cluster import Cluster
from tests.partition.controller.judges import Judges
from zab.coordination.operations import Create, Delete, Get, Result, Set, ZooKeeperError
from zab.kafka.errors import ErrorCode
from zab.partition.access.acl_filter import ANY, AclFilter
from zab.partition.access.acl_znodes import (
    LITERAL_CHANGES,
    PREFIXED_CHANGES,
    acls_in,
    acls_text,
    change_text,
    list_path,
)
from zab.partition.access.acls import Acl, Operation, Pattern, Resource, ResourceType
from zab.partition.controller import acl_changes
from zab.partition.controller.effects import AccessListsKnown
from zab.partition.controller.notifications import EXPIRATION_MS
from zab.partition.controller.requests import CreateAcls, DeleteAcls
from zab.partition.controller.state import ControllerSettings
from zab.simulator.coordination.znode_tree import ZnodeTree

TOPIC = Resource(ResourceType.TOPIC, Pattern.LITERAL, "t")
PREFIX = Resource(ResourceType.TOPIC, Pattern.PREFIXED, "app-")
ALICE = Acl("User:alice", "*", Operation.READ, allows=True)
BOB = Acl("User:bob", "*", Operation.READ, allows=False)


def a_cluster(**settings):
    cluster = Cluster(7, settings=ControllerSettings(balances_leaders=False, **settings))
    cluster.judges = Judges(cluster).watch()
    return cluster.started()


def by_hand(cluster, *operations):
    """Somebody else writes these."""
    session = cluster.tree.begin_session()
    cluster.judges.by_operator = True
    for each in operations:
        cluster.tree.apply(session, each)
    cluster.judges.by_operator = False
    cluster._deliver_watches()
    cluster.settle()


def notify(resource, data=None):
    directory = LITERAL_CHANGES if resource.pattern is Pattern.LITERAL else PREFIXED_CHANGES
    return Create(f"{directory}/acl_changes_", data or change_text(resource), sequential=True)


@pytest.fixture
def scene():
    return a_cluster(has_access_lists=True)


def create(cluster, *acls):
    return cluster.call(CreateAcls(cluster.token(), acls))


def delete(cluster, *filters):
    return cluster.call(DeleteAcls(cluster.token(), filters)).removed


def a_filter(type_=ANY, pattern=ANY, name=None, principal=None, host=None, operation=ANY, permission=ANY):
    return AclFilter(type_, pattern, name, principal, host, operation, permission)


def known(cluster):
    """The lists as each broker knows them, which are the same."""
    [found] = {frozenset(process.controller.access_lists) for process in cluster.processes.values()}
    return dict(found)


def test_a_list_is_written_and_every_broker_knows_it(scene):
    answer = create(scene, (TOPIC, ALICE), (PREFIX, BOB), (TOPIC, BOB))
    assert [each.error for each in answer.outcomes] == [ErrorCode.NONE] * 3
    assert acls_in(scene.tree.data(list_path(TOPIC))) == {ALICE, BOB}
    assert acls_in(scene.tree.data(list_path(PREFIX))) == {BOB}
    assert known(scene) == {TOPIC: frozenset({ALICE, BOB}), PREFIX: frozenset({BOB})}
    notifications = [
        scene.tree.data(f"{directory}/{each}")
        for directory in (LITERAL_CHANGES, PREFIXED_CHANGES)
        for each in scene.tree.children(directory)
    ]
    assert notifications == [change_text(TOPIC), change_text(PREFIX)]


def test_what_is_there_is_not_written_again(scene):
    create(scene, (TOPIC, ALICE))
    zxid = scene.tree.zxid
    assert create(scene, (TOPIC, ALICE)).outcomes[0].error == ErrorCode.NONE
    assert scene.tree.zxid == zxid


def test_rows_are_deleted_by_filters_and_the_last_one_with_its_znode(scene):
    create(scene, (TOPIC, ALICE), (TOPIC, BOB), (PREFIX, BOB))
    by_name, by_principal = a_filter(name="t", permission=3), a_filter(principal="User:bob")
    removed = delete(scene, by_name, by_principal)
    assert {(each.filter, each.resource, each.acl) for each in removed} == {
        *((0, TOPIC, ALICE), (1, TOPIC, BOB), (1, PREFIX, BOB))
    }
    assert scene.tree.data(list_path(TOPIC)) is None
    assert known(scene) == {}
    assert delete(scene, by_principal) == ()


def test_a_new_session_begins_with_all_lists(scene):
    create(scene, (TOPIC, ALICE))
    other = next(each for each in scene.processes if each not in scene.controllers)
    # Nobody is told of this one.
    by_hand(scene, Create(list_path(PREFIX), acls_text([BOB])), Delete(list_path(TOPIC)))
    since = len(scene.effects)
    scene.expire(scene.processes[other].session)
    scene.settle()
    assert dict(scene.processes[other].controller.access_lists) == {PREFIX: frozenset({BOB})}
    assert [
        found for each, found in scene.effects[since:] if each == other and isinstance(found, AccessListsKnown)
    ] == [AccessListsKnown(1)]


def test_what_kafkas_tools_write_counts(scene):
    """They write the list, then its notification."""
    by_hand(scene, Create(list_path(PREFIX), acls_text([BOB])), notify(PREFIX))
    assert known(scene) == {PREFIX: frozenset({BOB})}


def test_a_list_that_cannot_be_read_is_none_and_nobody_changes_it(scene):
    create(scene, (TOPIC, ALICE))
    by_hand(scene, Set(list_path(TOPIC), b"{"), notify(TOPIC))
    assert known(scene) == {TOPIC: None}
    assert any("nobody may do anything" in each for each in scene.processes[0].reports)
    [outcome] = create(scene, (TOPIC, BOB)).outcomes
    assert (outcome.error, outcome.message) == (ErrorCode.INVALID_REQUEST, "/kafka-acl/Topic/t: it is no list of ACLs")
    assert delete(scene, a_filter()) == ()
    assert scene.tree.data(list_path(TOPIC)) == b"{"


def test_changes_that_name_nothing_are_reported(scene):
    by_hand(scene, notify(TOPIC, b"Topic:a/b"), notify(TOPIC, b"User:x"))
    assert [each for each in scene.processes[0].reports if "kafka-acl" in each] == [
        f"{LITERAL_CHANGES}: it names no list"
    ]


def test_old_notifications_are_deleted(scene):
    create(scene, (TOPIC, ALICE))
    scene.now_ms += EXPIRATION_MS
    create(scene, (TOPIC, BOB))
    assert len(scene.tree.children(LITERAL_CHANGES)) == 1


@pytest.mark.parametrize("error", [ZooKeeperError.BADVERSION, ZooKeeperError.CONNECTIONLOSS])
def test_a_list_that_somebody_else_changes_keeps_both_changes(scene, monkeypatch, error):
    """Also if the answer to the write is lost."""
    create(scene, (TOPIC, ALICE))
    apply = ZnodeTree.apply
    left = [error]

    def interrupted(tree, session, operation):
        parts = getattr(operation, "parts", ())
        if left and any(part.path == list_path(TOPIC) for part in parts):
            if left.pop() is ZooKeeperError.CONNECTIONLOSS:
                apply(tree, session, operation)
                return Result(ZooKeeperError.CONNECTIONLOSS)
            scene.judges.by_operator = True
            eve = Acl("User:eve", "*", Operation.ALL, allows=False)
            apply(tree, tree.begin_session(), Set(list_path(TOPIC), acls_text([ALICE, eve])))
            scene.judges.by_operator = False
        return apply(tree, session, operation)

    monkeypatch.setattr(ZnodeTree, "apply", interrupted)
    assert create(scene, (TOPIC, BOB)).outcomes[0].error == ErrorCode.NONE
    rows = acls_in(scene.tree.data(list_path(TOPIC)))
    assert {ALICE, BOB} <= rows
    assert len(rows) == (3 if error is ZooKeeperError.BADVERSION else 2)
    assert known(scene)[TOPIC] == rows


def test_rows_that_cannot_be_are_refused_and_the_others_written(scene):
    wrong = Acl("alice", "*", Operation.READ, allows=True)
    errors = [each.error for each in create(scene, (TOPIC, wrong), (TOPIC, ALICE)).outcomes]
    assert errors == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert acls_in(scene.tree.data(list_path(TOPIC))) == {ALICE}


def test_limits(scene, monkeypatch):
    monkeypatch.setattr(acl_changes, "LISTS_MAX", 1)
    create(scene, (TOPIC, ALICE))
    [outcome] = create(scene, (PREFIX, ALICE)).outcomes
    assert (outcome.error, outcome.message) == (ErrorCode.INVALID_REQUEST, "there are 1 access lists already")
    monkeypatch.setattr(acl_changes, "LIST_BYTES_MAX", 100)
    [outcome] = create(scene, (TOPIC, BOB)).outcomes
    assert (outcome.error, outcome.message) == (ErrorCode.INVALID_REQUEST, "a list has at most 100 bytes")
    assert known(scene) == {TOPIC: frozenset({ALICE})}


def test_without_an_authorizer_there_are_no_lists():
    scene = a_cluster()
    assert create(scene, (TOPIC, ALICE)).error == ErrorCode.SECURITY_DISABLED
    assert scene.tree.children("/kafka-acl") == []
    assert all(process.controller.access_lists is None for process in scene.processes.values())


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (a_filter(), {"t", "*", "app-", "app-1"}),
        (a_filter(type_=ResourceType.GROUP), set()),
        (a_filter(pattern=Pattern.PREFIXED), {"app-"}),
        (a_filter(pattern=Pattern.LITERAL, name="app-"), set()),
        (a_filter(name="app-1"), {"app-1"}),
        (a_filter(pattern=2, name="app-1"), {"app-1", "app-", "*"}),
        (a_filter(pattern=2, name="t"), {"t", "*"}),
        (a_filter(principal="User:bob"), {"t"}),
        (a_filter(host="10.0.0.1"), set()),
        (a_filter(operation=Operation.READ), {"t", "*", "app-", "app-1"}),
        (a_filter(operation=Operation.WRITE), set()),
        (a_filter(permission=2), {"t"}),
        (a_filter(permission=3), {"*", "app-", "app-1"}),
    ],
)
def test_what_filters_mean(asked, found):
    rows = [
        (TOPIC, BOB),
        (Resource(ResourceType.TOPIC, Pattern.LITERAL, "*"), ALICE),
        (Resource(ResourceType.TOPIC, Pattern.LITERAL, "app-1"), ALICE),
        (PREFIX, ALICE),
    ]
    assert asked.why_invalid() is None
    assert {resource.name for resource, acl in rows if asked.matches(resource, acl)} == found


@pytest.mark.parametrize("number", [0, 99, -1])
@pytest.mark.parametrize("field", ["type_", "pattern", "operation", "permission"])
def test_numbers_that_are_unknown_are_no_filter(field, number):
    assert a_filter(**{field: number}).why_invalid() is not None


def test_what_cannot_be_read_whole_is_not_known(monkeypatch):
    """With half of the lists something would be allowed that another one denies."""
    apply = ZnodeTree.apply

    def lossy(tree, session, operation):
        if isinstance(operation, Get) and operation.path == list_path(TOPIC):
            return Result(ZooKeeperError.CONNECTIONLOSS)
        return apply(tree, session, operation)

    cluster = Cluster(7, brokers=1, settings=ControllerSettings(balances_leaders=False, has_access_lists=True))
    cluster.judges = Judges(cluster).watch()
    cluster.started()
    create(cluster, (TOPIC, BOB), (PREFIX, ALICE))
    cluster.crash(0)
    cluster.expire(cluster.processes[0].session)
    monkeypatch.setattr(ZnodeTree, "apply", lossy)
    cluster.boot(0)
    controller = cluster.processes[0].controller
    for _ in range(200):
        cluster.take(0)
        cluster.apply_one(0)
        assert controller.access_lists is None
    monkeypatch.setattr(ZnodeTree, "apply", apply)
    cluster.settle()
    assert len(controller.access_lists) == 2
