"""Access lists: each rule of a decision."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.partition.access.acls import (
    AccessLists,
    Acl,
    Asked,
    Decision,
    Operation,
    Pattern,
    Resource,
    ResourceType,
    Rules,
    decide,
    decide_any,
)

ALICE, HOST = "User:alice", "10.0.0.1"
EVERYBODY = "User:*"


def topic(name, pattern=Pattern.LITERAL):
    return Resource(ResourceType.TOPIC, pattern, name)


def row(operation=Operation.READ, principal=ALICE, host="*", *, allows=True):
    return Acl(principal, host, operation, allows)


def asked(operation=Operation.READ, name="t", principal=ALICE, type_=ResourceType.TOPIC):
    return Asked(principal, HOST, operation, type_, name)


def decided(lists, question=None, **rules):
    return decide(the_lists(lists), Rules(**rules), question or asked())


def the_lists(lists):
    return AccessLists({resource: None if rows is None else frozenset(rows) for resource, rows in lists.items()})


def test_without_a_list_nobody_may_unless_the_file_says_so():
    assert decided({}) is Decision.NOT_ALLOWED
    assert decided({}, allows_without_list=True) is Decision.NO_LIST
    assert decided({topic("t"): []}, allows_without_list=True) is Decision.NOT_ALLOWED


def test_an_allow_holds_for_its_principal_host_operation_and_resource():
    assert decided({topic("t"): [row()]}) is Decision.ALLOWED
    for other in (row(principal="User:bob"), row(host="10.0.0.2"), row(Operation.WRITE)):
        assert decided({topic("t"): [other]}) is Decision.NOT_ALLOWED
    assert decided({topic("u"): [row()]}) is Decision.NOT_ALLOWED
    assert decided({Resource(ResourceType.GROUP, Pattern.LITERAL, "t"): [row()]}) is Decision.NOT_ALLOWED
    assert decided({topic("t"): [row(Operation.ALL, EVERYBODY, HOST)]}) is Decision.ALLOWED


def test_lists_of_all_names_and_of_prefixes():
    assert decided({topic("*"): [row()]}) is Decision.ALLOWED
    assert decided({topic("app-", Pattern.PREFIXED): [row()]}, asked(name="app-1")) is Decision.ALLOWED
    assert decided({topic("app-", Pattern.PREFIXED): [row()]}, asked(name="ap")) is Decision.NOT_ALLOWED
    assert decided({topic("app-"): [row()]}, asked(name="app-1")) is Decision.NOT_ALLOWED
    assert decided({topic("*", Pattern.PREFIXED): [row()]}) is Decision.NOT_ALLOWED, "a prefix is no wildcard"


@pytest.mark.parametrize("denied", [row(allows=False), row(Operation.ALL, EVERYBODY, allows=False)])
@pytest.mark.parametrize("resource", [topic("t"), topic("*"), topic("t", Pattern.PREFIXED)])
def test_a_deny_wins_over_every_allow(resource, denied):
    allowed = [row(), row(Operation.ALL, EVERYBODY)]
    lists = {topic("t"): allowed, topic("x"): []}
    lists[resource] = [*lists.get(resource, []), denied]
    assert decided(lists) is Decision.DENIED


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_describe_is_part_of_others_and_only_as_an_allow(operation):
    assert decided({topic("t"): [row(operation)]}, asked(Operation.DESCRIBE)) is Decision.ALLOWED
    both = [row(Operation.DESCRIBE), row(operation, allows=False)]
    assert decided({topic("t"): both}, asked(Operation.DESCRIBE)) is Decision.ALLOWED
    assert decided({topic("t"): [row(Operation.DESCRIBE)]}, asked(operation)) is Decision.NOT_ALLOWED


def test_alter_configs_includes_describe_configs_and_describe_does_not():
    lists = {topic("t"): [row(Operation.ALTER_CONFIGS)]}
    assert decided(lists, asked(Operation.DESCRIBE_CONFIGS)) is Decision.ALLOWED
    assert decided(lists, asked(Operation.DESCRIBE)) is Decision.NOT_ALLOWED


def test_a_super_user_may_do_everything_even_what_is_denied_or_cannot_be_read():
    assert decided({topic("t"): [row(allows=False)]}, super_users=frozenset({ALICE})) is Decision.SUPER_USER
    assert decided({topic("t"): [row()]}, super_users=frozenset({"User:root"})) is Decision.ALLOWED


def test_a_list_that_cannot_be_read_closes_what_it_is_about_and_nothing_else():
    lists = {topic("t"): None, topic("u"): frozenset({row()}), topic("*"): frozenset({row()})}
    rules = Rules(allows_without_list=True)
    assert decide(the_lists(lists), rules, asked()) is Decision.UNREADABLE
    assert decide(the_lists(lists), rules, asked(name="u")) is Decision.ALLOWED


def test_only_three_decisions_allow():
    assert {each for each in Decision if each.allows} == {Decision.SUPER_USER, Decision.ALLOWED, Decision.NO_LIST}


ROWS = st.frozensets(
    st.builds(
        Acl,
        st.sampled_from([ALICE, "User:bob", EVERYBODY]),
        st.sampled_from(["*", HOST, "10.0.0.2"]),
        st.sampled_from(Operation),
        st.booleans(),
    ),
    max_size=4,
)
RESOURCES = st.builds(
    Resource,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    st.sampled_from(Pattern),
    st.sampled_from(["*", "t", "", "u"]),
)


@given(st.dictionaries(RESOURCES, st.none() | ROWS, max_size=4), st.booleans(), st.sampled_from(Operation))
def test_one_deny_more_never_allows_more_and_one_allow_less_neither(lists, allows_without, operation):
    rules = Rules(allows_without_list=allows_without)
    question = asked(operation)
    before = decide(AccessLists(lists), rules, question)
    if not before.allows:
        for resource, rows in lists.items():
            denied = frozenset(each for each in rows or () if not each.allows)
            fewer = {**lists, resource: None if rows is None else denied}
            assert not decide(AccessLists(fewer), rules, question).allows
        more = {**lists, topic("t"): (lists.get(topic("t")) or frozenset()) | {row(operation, allows=False)}}
        assert not decide(AccessLists(more), rules, question).allows


def decided_any(lists, operation=Operation.WRITE, **rules):
    question = asked(operation, name="")
    return decide_any(the_lists(lists), Rules(**rules), question)


def test_whether_there_is_anything_that_one_may():
    allow, deny = row(Operation.WRITE), row(Operation.WRITE, allows=False)
    assert decided_any({}) is Decision.NOT_ALLOWED
    assert decided_any({}, allows_without_list=True) is Decision.NO_LIST
    assert decided_any({topic("t"): [deny]}, super_users=frozenset({ALICE})) is Decision.SUPER_USER
    assert decided_any({topic("*"): [allow]}) is Decision.ALLOWED
    assert decided_any({topic("t"): [allow]}) is Decision.ALLOWED
    assert decided_any({topic("t"): [row(Operation.ALL, EVERYBODY)]}) is Decision.ALLOWED
    assert decided_any({topic("t", Pattern.PREFIXED): [allow]}) is Decision.ALLOWED
    assert decided_any({topic("t"): [row(Operation.READ)]}) is Decision.NOT_ALLOWED
    assert decided_any({Resource(ResourceType.GROUP, Pattern.LITERAL, "t"): [allow]}) is Decision.NOT_ALLOWED


def test_what_is_denied_as_a_whole_is_nothing_that_one_may():
    allow, deny = row(Operation.WRITE), row(Operation.WRITE, allows=False)
    prefix = topic("app-", Pattern.PREFIXED)
    assert decided_any({topic("*"): [deny], topic("t"): [allow]}, allows_without_list=True) is Decision.DENIED
    assert decided_any({topic("*"): None, topic("t"): [allow]}) is Decision.UNREADABLE
    assert decided_any({topic("t"): [allow, deny]}) is Decision.NOT_ALLOWED
    assert decided_any({topic("app-1"): [allow], prefix: [deny]}) is Decision.NOT_ALLOWED
    assert decided_any({topic("app-", Pattern.PREFIXED): [allow], topic("a", Pattern.PREFIXED): [deny]}) is (
        Decision.NOT_ALLOWED
    )
    assert decided_any({topic("*", Pattern.PREFIXED): [deny], topic("t"): [allow]}) is Decision.ALLOWED
    # Names that begin with it are left.
    assert decided_any({prefix: [allow], topic("app-"): [deny], topic("app-1"): [deny]}) is Decision.ALLOWED


@given(st.dictionaries(RESOURCES, st.none() | ROWS, max_size=4), st.booleans())
def test_what_one_may_on_a_name_is_something_that_one_may(lists, allows_without):
    rules = Rules(allows_without_list=allows_without)
    question = asked(Operation.WRITE, name="t")
    if decide(AccessLists(lists), rules, question) is Decision.ALLOWED:
        assert decide_any(AccessLists(lists), rules, question).allows


def test_lists_are_put_found_and_removed():
    lists = AccessLists()
    for resource in (topic("t"), topic("*"), topic("", Pattern.PREFIXED), topic("t", Pattern.PREFIXED)):
        lists.put(resource, frozenset({row()}))
    assert len(lists) == 4
    assert len(lists.about(ResourceType.TOPIC, "t")) == 4
    assert len(lists.about(ResourceType.TOPIC, "*")) == 2
    assert {resource for resource, _ in lists} == {
        *(topic("t"), topic("*"), topic("", Pattern.PREFIXED), topic("t", Pattern.PREFIXED))
    }
    lists.remove(topic("t", Pattern.PREFIXED))
    lists.remove(topic("u"))
    assert len(lists) == 3
    assert lists.get(topic("t", Pattern.PREFIXED)) is None
    assert lists.get(topic("t")) == frozenset({row()})
