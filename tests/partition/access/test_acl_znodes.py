"""The znodes of access lists: as Kafka has them, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.partition.access.acl_znodes import (
    NAME_CHARS_MAX,
    PARENTS,
    AclError,
    acls_in,
    acls_text,
    change_text,
    changed_in,
    list_path,
    why_no_acl,
)
from zab.partition.access.acls import Acl, Operation, Pattern, Resource, ResourceType

ALICE, HOST = "User:alice", "10.0.0.1"


def row(operation=Operation.READ, principal=ALICE, host="*", *, allows=True):
    return Acl(principal, host, operation, allows)


def test_a_znode_is_kafkas():
    data = (
        b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"},'
        b'{"principal":"User:bob","permissionType":"Deny","operation":"IdempotentWrite","host":"10.0.0.1"}]}'
    )
    assert acls_in(data) == {row(), Acl("User:bob", HOST, Operation.IDEMPOTENT_WRITE, allows=False)}
    assert acls_text(acls_in(data)) == data


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"acls": None},
        {"acls": [1]},
        {"acls": [{}]},
        {"acls": [{"principal": 1, "permissionType": "Allow", "operation": "Read", "host": "*"}]},
        {"acls": [{"principal": "User:a", "permissionType": "allow", "operation": "Read", "host": "*"}]},
        {"acls": [{"principal": "User:a", "permissionType": "Deny", "operation": "Fly", "host": "*"}]},
        {"acls": [{"principal": "User:a", "permissionType": [], "operation": {}, "host": "*"}]},
    ],
)
def test_a_znode_that_is_not_understood_is_no_list(change):
    with pytest.raises(AclError):
        acls_in(json.dumps({"version": 1, "acls": [], **change}).encode())


@given(st.binary())
def test_any_bytes_are_a_list_or_an_error(data):
    try:
        found = acls_in(data)
    except AclError:
        return
    assert acls_in(acls_text(found)) == found


def test_where_lists_are_and_how_their_changes_are_told():
    literal = Resource(ResourceType.TRANSACTIONAL_ID, Pattern.LITERAL, "a:b")
    prefixed = Resource(ResourceType.TOPIC, Pattern.PREFIXED, "app-")
    assert list_path(literal) == "/kafka-acl/TransactionalId/a:b"
    assert list_path(prefixed) == "/kafka-acl-extended/prefixed/Topic/app-"
    assert {list_path(each).rpartition("/")[0] for each in (literal, prefixed)} <= set(PARENTS)
    assert change_text(literal) == b"TransactionalId:a:b"
    assert change_text(prefixed) == (b'{"version":1,"resourceType":"Topic","name":"app-","patternType":"PREFIXED"}')
    for resource in (literal, prefixed):
        assert changed_in(resource.pattern, change_text(resource)) == resource
    assert changed_in(Pattern.LITERAL, b"DelegationToken:x") is None


@pytest.mark.parametrize(
    ("pattern", "data"),
    [
        (Pattern.LITERAL, b"Topic"),
        (Pattern.LITERAL, b"Topic:"),
        (Pattern.LITERAL, b"Topic:a/b"),
        (Pattern.LITERAL, b"Topic:\xff"),
        (Pattern.PREFIXED, b"Topic:t"),
        (Pattern.PREFIXED, b"[]"),
        (Pattern.PREFIXED, b'{"resourceType":"Topic","name":"t","patternType":"LITERAL"}'),
        (Pattern.PREFIXED, b'{"resourceType":"Topic","name":"../x","patternType":"PREFIXED"}'),
        (Pattern.PREFIXED, b'{"resourceType":[],"name":"x","patternType":"PREFIXED"}'),
    ],
)
def test_a_change_that_is_none(pattern, data):
    with pytest.raises(AclError):
        changed_in(pattern, data)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\nb", "\0", "x" * (NAME_CHARS_MAX + 1)])
def test_names_that_can_have_no_list(name):
    assert why_no_acl(Resource(ResourceType.GROUP, Pattern.LITERAL, name), row()) is not None


@pytest.mark.parametrize(
    "acl",
    [
        row(principal="alice"),
        row(principal="User:"),
        row(principal=":alice"),
        row(principal="User:a\nb"),
        row(host=""),
        row(host="a\tb"),
        row(principal=f"User:{'x' * NAME_CHARS_MAX}"),
    ],
)
def test_rows_that_cannot_be(acl):
    assert why_no_acl(Resource(ResourceType.GROUP, Pattern.LITERAL, "g"), acl) is not None


def test_rows_that_can_be():
    cluster = Resource(ResourceType.CLUSTER, Pattern.LITERAL, "kafka-cluster")
    assert why_no_acl(cluster, row(Operation.ALTER, "User:*")) is None
    assert why_no_acl(Resource(ResourceType.CLUSTER, Pattern.LITERAL, "*"), row()) is not None
    assert why_no_acl(Resource(ResourceType.TOPIC, Pattern.LITERAL, "*"), row(principal="User:CN=a,O=b")) is None
