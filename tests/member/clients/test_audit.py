"""The audit log: which lines a request leaves, on which member, and that nothing in them can be forged."""

from __future__ import annotations

import pytest

from datatree.acl import ANY_SASL, SUPER, digest_identity
from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.requests import OPEN_ACL, AddAuth, Create, Multi, PathLimit, PathVersion, Reconfig, Sasl, SetAcl, SetData
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble, Server
from zab.member.clients import audit
from zab.member.clients.audit import Auditor
from zab.protocol import member_message as mmsg
from zab.service.audit import VALUE_CHARS_MAX, value

KEYS = {"audit__enable": "true"}


def audited(size: int = 3, **lines: object) -> Ensemble:
    return Ensemble(size, **KEYS, **lines)


def pairs(line: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in line.split("\t"))


def lines_of(server: Server) -> list[dict[str, str]]:
    return [pairs(line) for line in server.audit.take_lines()]


def said(server: Server, *names: str) -> list[tuple[str, ...]]:
    """Some values of each line; "" where it has none of that name."""
    return [tuple(line.get(name, "") for name in names) for line in lines_of(server)]


@pytest.fixture(params=["leader", "follower"])
def served(request: pytest.FixtureRequest) -> tuple[Ensemble, Client]:
    """A client of an ensemble of three, on the leader and on a follower."""
    ensemble = audited()
    return ensemble, ensemble.session(getattr(ensemble, request.param))


def test_every_kind_of_change_leaves_its_line_on_the_member_whose_client_asked(
    served: tuple[Ensemble, Client],
) -> None:
    ensemble, client = served
    ensemble.do(
        client,
        client.create(b"/a"),
        client.create(b"/s", flags=2),
        client.request(OpCode.CREATE2, Create(b"/e", b"", OPEN_ACL, 1).encode()),
        client.request(OpCode.CREATE_CONTAINER, Create(b"/c", b"", OPEN_ACL, 4).encode()),
        client.set(b"/a", b"1"),
        client.request(OpCode.SET_ACL, SetAcl(b"/a", OPEN_ACL, -1).encode()),
        client.delete(b"/a"),
        client.get(b"/a"),
        client.sync(),
    )
    lines = lines_of(client.server)
    assert [(each["operation"], each["znode"], each.get("znode_type", ""), each.get("acl", "")) for each in lines] == [
        ("create", "/a", "persistent", ""),
        ("create", "/s0000000001", "persistent_sequential", ""),
        ("create", "/e", "ephemeral", ""),
        ("create", "/c", "container", ""),
        ("setData", "/a", "", ""),
        ("setAcl", "/a", "", "world:anyone:cdrwa"),
        ("delete", "/a", "", ""),
    ]
    session = f"{client.connection.session:#x}"
    assert {(each["session"], each["user"], each["ip"], each["result"]) for each in lines} == {
        (session, "ip:127.0.0.1", "127.0.0.1", "success")
    }
    assert not any(server.audit.records for server in ensemble.others(client.server))


def test_the_type_is_that_of_the_znode_which_was_made(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    of_a_container = Create(b"/c", b"", OPEN_ACL, 4)
    ensemble.do(
        client,
        client.request(OpCode.CREATE2, Create(b"/p", b"", OPEN_ACL, 4).encode()),
        client.request(OpCode.CREATE_CONTAINER, Create(b"/s", b"", OPEN_ACL, 3).encode()),
        client.request(OpCode.MULTI, Multi(((int(OpCode.CREATE2), of_a_container),)).encode()),
    )
    assert said(client.server, "znode", "znode_type") == [
        ("/p", "persistent"),
        ("/s0000000001", "container"),
        ("/c", "container"),
    ]


def test_the_pairs_stand_in_zookeepers_order() -> None:
    ensemble = audited(1)
    client = ensemble.session()
    ensemble.do(client, client.create(b"/a"), client.request(OpCode.SET_ACL, SetAcl(b"/a", OPEN_ACL, -1).encode()))
    session = f"{client.connection.session:#x}"
    assert ensemble.leader.audit.take_lines() == [
        (
            f"session={session}\tuser=ip:127.0.0.1\tip=127.0.0.1\toperation=create\tznode=/a\tznode_type=persistent"
            "\tresult=success"
        ),
        (
            f"session={session}\tuser=ip:127.0.0.1\tip=127.0.0.1\toperation=setAcl\tznode=/a\tacl=world:anyone:cdrwa"
            "\tresult=success"
        ),
    ]


def test_refused_changes_are_failures_with_their_znode_and_type(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    replies = ensemble.do(
        client,
        client.create(b"/no/where", flags=3),
        client.set(b"/no", b""),
        client.delete(b"/no"),
        client.request(OpCode.SET_ACL, SetAcl(b"/no", OPEN_ACL, -1).encode()),
        client.request(OpCode.RECONFIG, Reconfig(b"", b"", b"", -1).encode()),
    )
    assert all(error for _, error, _ in replies)
    assert said(client.server, "operation", "znode", "znode_type", "acl", "result") == [
        ("create", "/no/where", "ephemeral_sequential", "", "failure"),
        ("setData", "/no", "", "", "failure"),
        ("delete", "/no", "", "", "failure"),
        ("setAcl", "/no", "", "world:anyone:cdrwa", "failure"),
        ("reconfig", "", "", "", "failure"),
    ]


def test_multi_that_was_done_leaves_a_line_for_each_part_that_changed_something(
    served: tuple[Ensemble, Client],
) -> None:
    ensemble, client = served
    parts = (
        (int(OpCode.CREATE), Create(b"/a", b"", OPEN_ACL, 0)),
        (int(OpCode.CREATE2), Create(b"/s", b"", OPEN_ACL, 2)),
        (int(OpCode.CHECK), PathVersion(b"/a", -1)),
        (int(OpCode.SET_DATA), SetData(b"/a", b"1", -1)),
        (int(OpCode.DELETE), PathVersion(b"/a", -1)),
    )
    ensemble.do(client, client.request(OpCode.MULTI, Multi(parts).encode()))
    assert said(client.server, "operation", "znode", "znode_type", "result") == [
        ("create", "/a", "persistent", "success"),
        ("create", "/s0000000001", "persistent_sequential", "success"),
        ("setData", "/a", "", "success"),
        ("delete", "/a", "", "success"),
    ]


def test_multi_that_was_refused_is_one_failure_with_the_znode_at_fault(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    parts = (
        (int(OpCode.CREATE), Create(b"/a", b"", OPEN_ACL, 0)),
        (int(OpCode.DELETE), PathVersion(b"/no", -1)),
        (int(OpCode.CREATE), Create(b"/b", b"", OPEN_ACL, 0)),
    )
    ensemble.do(client, client.request(OpCode.MULTI, Multi(parts).encode()))
    assert said(client.server, "operation", "znode", "result") == [("multiOperation", "/no", "failure")]


@pytest.mark.parametrize("opcode", [OpCode.CREATE, OpCode.SET_DATA, OpCode.DELETE, OpCode.SET_ACL, OpCode.MULTI])
def test_what_cannot_be_read_is_a_failure_without_znode(served: tuple[Ensemble, Client], opcode: int) -> None:
    ensemble, client = served
    ensemble.do(client, client.request(opcode, b"\x00\x00\x00\xff/"))
    ensemble.do(client, client.request(opcode, b""))
    assert [line[1] for line in said(client.server, "operation", "result")] == ["failure"] * 2


def test_create_if_not_exists_leaves_a_line_only_where_it_creates() -> None:
    ensemble = audited(createIfNotExistsEnabled="true")
    client = ensemble.session(ensemble.follower)
    body = Create(b"/a", b"", OPEN_ACL, 0).encode()
    ensemble.do(
        client,
        client.request(OpCode.CREATE_IF_NOT_EXISTS, body),
        client.request(OpCode.CREATE_IF_NOT_EXISTS, body),
        client.delete(b"/a"),
    )
    assert said(client.server, "operation", "znode") == [("create", "/a"), ("delete", "/a")]


def test_what_is_removed_with_all_below_it_leaves_a_line_for_each_znode() -> None:
    ensemble = audited(keeperExtensionsEnabled="true")
    client = ensemble.session(ensemble.follower)
    body = PathLimit(b"/a", 2)
    parts = (
        (int(OpCode.CREATE), Create(b"/a", b"", OPEN_ACL, 0)),
        (int(OpCode.CREATE), Create(b"/a/b", b"", OPEN_ACL, 0)),
        (int(OpCode.REMOVE_RECURSIVE), body),
        (int(OpCode.CREATE), Create(b"/e", b"", OPEN_ACL, 1)),
    )
    ensemble.do(client, client.request(OpCode.MULTI, Multi(parts).encode()))
    assert said(client.server, "operation", "znode", "znode_type") == [
        ("create", "/a", "persistent"),
        ("create", "/a/b", "persistent"),
        ("delete", "/a/b", ""),
        ("delete", "/a", ""),
        ("create", "/e", "ephemeral"),
    ]
    ensemble.do(client, *map(client.create, (b"/a", b"/a/b", b"/a/b/c")))
    lines_of(client.server)
    ensemble.do(client, client.request(OpCode.REMOVE_RECURSIVE, body.encode()), client.delete(b"/a/b/c"))
    ensemble.do(client, *(client.request(OpCode.REMOVE_RECURSIVE, body.encode()) for _ in range(2)))
    assert said(client.server, "operation", "znode", "result") == [
        ("delete", "/a", "failure"),
        ("delete", "/a/b/c", "success"),
        ("delete", "/a/b", "success"),
        ("delete", "/a", "success"),
    ]


def test_ephemerals_of_a_session_that_ends_are_named_by_every_member_as_the_servers_own_doing() -> None:
    ensemble = audited()
    client = ensemble.session(ensemble.follower)
    ensemble.do(client, client.create(b"/e", flags=1), client.create(b"/f", flags=1))
    lines_of(client.server)
    ensemble.do(client, client.request(OpCode.CLOSE_SESSION))
    for server in ensemble.servers.values():
        assert said(server, "session", "user", "ip", "operation", "znode", "result") == [
            (f"{client.connection.session:#x}", "own", "", audit._EPHEMERAL, path, "success") for path in ("/e", "/f")
        ]


def test_container_that_goes_by_itself_is_the_leaders_own_doing() -> None:
    ensemble = audited(znode__container__checkIntervalMs=100)
    client = ensemble.session(ensemble.follower)
    body = Create(b"/c", b"", OPEN_ACL, 4).encode()
    ensemble.do(client, client.request(OpCode.CREATE_CONTAINER, body), client.create(b"/c/a"), client.delete(b"/c/a"))
    lines_of(client.server)
    for _ in range(5):
        ensemble.advance(200)
    assert client.server.value(b"/c") is None
    assert ensemble.leader.audit.take_lines() == ["user=own\toperation=delete\tznode=/c\tresult=success"]
    assert not client.server.audit.records


def test_client_that_goes_at_once_is_audited_all_the_same(served: tuple[Ensemble, Client]) -> None:
    """What it asked for is done; anyone who wants to leave no trace would do it like this."""
    ensemble, client = served
    client.say(client.create(b"/a") + client.set(b"/a", b"1"))
    client.close()
    ensemble.settle()
    assert ensemble.leader.value(b"/a") == b"1"
    assert said(client.server, "operation", "znode", "result") == [
        ("create", "/a", "success"),
        ("setData", "/a", "success"),
    ]


def test_transaction_of_an_older_connection_elsewhere_is_not_taken_for_the_one_that_was_asked_for_here() -> None:
    """Some clients begin with the same xid on every connection."""
    ensemble = audited()
    old = ensemble.session(ensemble.follower)
    ensemble.do(old, old.create(b"/a"))
    session = old.connection.session
    auditor = Auditor()
    new = old.connection
    new.fence = ensemble.leader.member.applied + 10
    auditor.asked(new, 1, int(OpCode.SET_DATA), SetData(b"/b", b"", -1).encode())
    before, after = (
        audit.Txn(new.fence + later, 0, session, 1, int(OpCode.SET_DATA), 1, path, b"", None)
        for later, path in ((0, b"/a"), (1, b"/b"))
    )
    auditor.applied(before, 0, leads=False, is_own=False)
    assert not auditor.records
    auditor.applied(after, 0, leads=False, is_own=False)
    assert next(line for record in auditor.take() for line in record.lines("own")).count("znode=/b") == 1


def test_leader_takes_no_learners_write_for_one_of_its_own_clients() -> None:
    ensemble = audited()
    client = ensemble.session(ensemble.leader)
    auditor = Auditor()
    connection = client.connection
    auditor.asked(connection, 1, int(OpCode.DELETE), PathVersion(b"/b", -1).encode())
    txn = audit.Txn(9, 0, connection.session, 1, int(OpCode.DELETE), 0, b"/a", None, None)
    auditor.applied(txn, 0, leads=True, is_own=False)
    assert not auditor.records
    auditor.applied(txn, 0, leads=True, is_own=True)
    assert len(auditor.take()) == 1


def test_write_whose_fate_is_unknown_when_the_role_ends_is_invoked(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    server = client.server
    ensemble.late.update(other.sid for other in ensemble.others(server))
    client.say(client.set(b"/zookeeper", b"1") + client.create(b"/a", flags=1))
    ensemble.step(server)
    server.member.service.stop()
    ensemble.step(server)
    assert said(server, "operation", "znode", "znode_type", "result") == [
        ("setData", "/zookeeper", "", "invoked"),
        ("create", "/a", "ephemeral", "invoked"),
    ]


def test_users_of_several_schemes_are_joined_by_commas_and_never_with_a_hash() -> None:
    ensemble = audited(1, DigestAuthenticationProvider__superDigest=digest_identity(b"root:secret")[1].decode())
    client = ensemble.session()
    for auth in (b"alice:1", b"a,root:1", b"root:secret"):
        ensemble.do(client, client.request(OpCode.AUTH, AddAuth(b"digest", auth).encode(), xid=-4))
    ensemble.do(client, client.create(b"/a"))
    assert said(client.server, "user") == [("ip:127.0.0.1,digest:alice,digest:a\\x2croot,digest:root,super:",)]


def test_the_same_name_by_two_schemes_is_two_users() -> None:
    """A user who made up a digest for a name is not taken for the user who logged in."""
    login, made_up = (b"sasl", b"bob"), digest_identity(b"bob:made-up")
    assert audit.users((login,)) == "sasl:bob"
    assert audit.users((made_up,)) == "digest:bob"
    assert audit.users((digest_identity(b"sasl:x"), SUPER, (ANY_SASL, b"bob"))) == "digest:sasl,super:"


def test_acl_is_written_without_the_hashes_of_passwords() -> None:
    ensemble = audited(1)
    client = ensemble.session()
    acl = ((3, b"digest", b"bob:hash="), (31, b"ip", b"10.0.0.0/8"), (0, b"world", b"any,one"))
    ensemble.do(client, client.request(OpCode.SET_ACL, SetAcl(b"/no", acl, -1).encode()))
    assert said(client.server, "acl") == [("digest:bob:x:rw,ip:10.0.0.0/8:cdrwa,world:any\\x2cone:",)]


FORGERIES = [
    b"/a\tresult=success",
    b"/a\nsession=0x1\tuser=root\toperation=delete\tznode=/b\tresult=success",
    b"/a\r\n\x1b[2J",
    "/a\u202eb\u2028c\x85d".encode(),
    b"/a\\tb",
    b"/\xff\xfe\n",
]


@pytest.mark.parametrize("path", FORGERIES)
def test_no_path_forges_a_line_or_a_pair(path: bytes) -> None:
    ensemble = audited(1)
    client = ensemble.session()
    ensemble.do(client, client.delete(path), client.create(path))
    for line in ensemble.leader.audit.take_lines():
        assert [pair.partition("=")[0] for pair in line.split("\t")][:5] == [
            "session",
            "user",
            "ip",
            "operation",
            "znode",
        ]
        assert line.count("\t") <= 6
        assert line.isprintable() or line.replace("\t", "").isprintable()


def test_values_that_differ_look_different() -> None:
    values = [b"/a\tb", b"/a\\tb", b"/a\\\tb", b"/a\\x09b", b"/a\x09b\\", b"/\xff", b"/\\xff"]
    assert len({value(each) for each in values}) == len(values)


def test_value_is_cut_and_says_so() -> None:
    long = value(b"/" + b"a" * 1_000_000)
    assert len(long) < VALUE_CHARS_MAX + 50
    assert long.endswith("...(1000001 bytes)")


def test_refused_login_names_the_user_and_the_scheme_and_never_the_password(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    client.say(client.request(OpCode.AUTH, AddAuth(b"kerberos\t", b"alice:secret").encode(), xid=-4))
    ensemble.settle()
    assert client.server.member.metrics.auth_failed_count == 1
    session = f"{client.connection.session:#x}"
    assert client.server.audit.take_lines() == [
        f"session={session}\tip=127.0.0.1\toperation=auth\tscheme=kerberos\\t\tresult=failure"
    ]


@pytest.mark.parametrize(("auth", "user"), [(b"alice:secret", "alice"), (b"secret", "")])
def test_refused_digest_names_only_what_stands_before_the_colon(auth: bytes, user: str) -> None:
    ensemble = audited(1, DigestAuthenticationProvider__enabled="false")
    client = ensemble.session()
    client.say(client.request(OpCode.AUTH, AddAuth(b"digest", auth).encode(), xid=-4))
    ensemble.settle()
    assert said(client.server, "user", "scheme", "operation") == [(user, "digest", "auth")]


def test_refused_sasl_is_counted_and_written() -> None:
    ensemble = audited(1)
    client = ensemble.session()
    client.say(client.request(OpCode.SASL, Sasl(b"").encode()))
    ensemble.settle()
    assert said(client.server, "operation", "result") == [("sasl", "failure")]
    assert client.server.member.metrics.auth_failed_count == 1


def test_wrong_password_of_a_session_is_counted_and_written(served: tuple[Ensemble, Client]) -> None:
    ensemble, client = served
    thief = ensemble.client(client.server)
    thief.say(thief.connect_request(client.connection.session, b"x" * 16))
    ensemble.settle()
    assert client.server.member.metrics.sessions_refused == 1
    assert said(client.server, "session", "ip", "operation", "result") == [
        (f"{client.connection.session:#x}", "127.0.0.1", "renewSession", "failure")
    ]


def test_bodies_that_are_kept_are_bounded_and_their_lines_are_there_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit, "HELD_BYTES_MAX", 60)
    ensemble = audited(1)
    client = ensemble.session()
    ensemble.do(client, client.create(b"/a"), client.create(b"/b"))
    assert said(client.server, "znode", "znode_type") == [("/a", "persistent"), ("/b", "")]
    ensemble.do(client, client.create(b"/c"))
    assert said(client.server, "znode", "znode_type") == [("/c", "persistent")]
    auditor = ensemble.leader.member.auditor
    assert auditor is not None
    assert (auditor._held_bytes, auditor._under_way) == (0, {})


def test_nothing_is_kept_or_written_without_the_key() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    ensemble.do(client, client.create(b"/a"))
    assert ensemble.leader.member.auditor is None
    assert not ensemble.leader.audit.records


def test_error_of_the_leader_reaches_the_line_of_the_follower() -> None:
    """The follower forwards; what the leader refused comes back as a transaction."""
    ensemble = audited()
    client = ensemble.session(ensemble.follower)
    [(_, error, _)] = ensemble.do(client, client.delete(b"/no"))
    assert error == ErrorCode.NONODE
    assert any(isinstance(message, mmsg.Request) for _, message in ensemble.sent)
    assert said(client.server, "operation", "znode", "result") == [("delete", "/no", "failure")]
