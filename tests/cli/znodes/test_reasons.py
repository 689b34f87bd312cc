"""Refusals that say why, and what to do about it."""

from collections.abc import Iterator

import pytest
import trio

from tests.cli.commands import Run, run, started
from tests.rigs.in_process import members_here
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.client import CREATOR_ALL_ACL, connect

__all__ = ["run"]


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    """One server with nothing switched on, and `/closed`, which is only its maker's."""

    async def make(hosts: str) -> None:
        async with connect(hosts, auth=[("digest", "bob:pw")]) as zk:
            await zk.create("/closed", b"x", CREATOR_ALL_ACL)
            await zk.create("/closed/below")
            await zk.create("/versions")
            await zk.set("/versions", b"1")

    with members_here(1) as servers:
        trio.run(make, servers.hosts)
        yield servers.hosts


OFF = "the operation is switched off; {}=true in the zoo.cfg of all members switches it on"
MISSING = "no identity of the connection has the permission {} of {}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create", "-t", "60000", "/t"], "UNIMPLEMENTED /t: " + OFF.format("extendedTypesEnabled")),
        (["create", "--if-not-exists", "/i"], "UNIMPLEMENTED /i: " + OFF.format("createIfNotExistsEnabled")),
        (["create", "/no/such/z"], "NONODE /no/such/z: its parent /no/such does not exist; -p creates it"),
        (["create", "-s", "/no/z-"], "NONODE /no/z-: its parent /no does not exist; -p creates it"),
        (["get", "none"], "BADARGUMENTS none: a path begins with a slash"),
        (["get", ""], "BADARGUMENTS : a path begins with a slash"),
        (["ls", "/none/"], "BADARGUMENTS /none/: a path does not end with a slash"),
        (["set", "//a", "x"], "BADARGUMENTS //a: a path has no two slashes in a row"),
        (["stat", "/a/../b"], "BADARGUMENTS /a/../b: no part of a path is .."),
        (["delete", "/a\N{DELETE}"], "BADARGUMENTS /a\N{DELETE}: U+007F is not allowed in a path"),
        (["delete", "/"], "BADARGUMENTS /: it is reserved: it is in every tree and cannot be deleted"),
        (["delete", "-R", "/"], "BADARGUMENTS /: it is reserved: it is in every tree and cannot be deleted"),
        (
            ["delete", "/zookeeper/quota"],
            "BADARGUMENTS /zookeeper/quota: it is reserved: it is in every tree and cannot be deleted",
        ),
        (
            ["set", "/zookeeper/config", "x"],
            "NOAUTH /zookeeper/config: no identity of the connection has the permission WRITE of it",
        ),
        (["get", "/none"], "NONODE /none: there is no znode at the path"),
        (["set", "/none", "x"], "NONODE /none: there is no znode at the path"),
        (["set", "-v", "3", "/versions", "x"], "BADVERSION /versions: version 3 was asked for, and it has 1"),
        (["delete", "-v", "0", "/versions"], "BADVERSION /versions: version 0 was asked for, and it has 1"),
        (
            ["acl", "set", "-v", "7", "/versions", "world:anyone:ra"],
            "BADVERSION /versions: version of the ACL 7 was asked for, and it has 0",
        ),
        (["quota", "list", "/"], "NONODE /: there is no quota, and none can be set on the root"),
        (["quota", "delete", "/"], "NONODE /: there is no quota, and none can be set on the root"),
        (["quota", "list", "a"], "BADARGUMENTS a: a path begins with a slash"),
    ],
)
def test_a_refusal_says_why(hosts: str, run: Run, words: list[str], said: str) -> None:
    assert run("-s", hosts, *words) == 1
    assert (run.out, run.err) == ("", f"zab: {said}\n")


def test_a_version_of_what_may_not_be_read_is_named_alone(hosts: str, run: Run) -> None:
    # WRITE and ADMIN without READ, for everybody.
    assert run("-s", hosts, "create", "/unread", "x", "world:anyone:wa") == 0
    assert run("-s", hosts, "set", "-v", "4", "/unread", "y") == 1
    assert run.err == "zab: BADVERSION /unread: version 4 was asked for\n"


def test_an_ephemeral_of_one_command_is_said_to_end_with_it(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "create", "-e", "/short", "x") == 0
    assert run.out == "Created /short\n"
    assert run.err == "zab: it is deleted now, with the session of this command; zab shell keeps its session\n"
    with started("-s", hosts, "shell") as process:
        out, err = process.communicate("create -e /short x\n", timeout=PATIENCE_SECONDS)
    assert (out, err) == ("Created /short\n", "")


@pytest.mark.parametrize(
    ("words", "permission", "of"),
    [
        (["get", "/closed"], "READ", "it"),
        (["ls", "/closed"], "READ", "it"),
        (["count", "/closed"], "READ", "it"),
        (["acl", "get", "/closed"], "READ or ADMIN", "it"),
        (["set", "/closed", "y"], "WRITE", "it"),
        (["acl", "set", "/closed", "world:anyone:ra"], "ADMIN", "it"),
        (["create", "/closed/new"], "CREATE", "its parent /closed"),
        (["delete", "/closed/below"], "DELETE", "its parent /closed"),
    ],
)
def test_the_permission_that_is_missing_is_named(
    hosts: str, run: Run, words: list[str], permission: str, of: str
) -> None:
    assert run("-s", hosts, *words) == 1
    path = next(word for word in words if word.startswith("/closed"))
    assert (run.out, run.err) == ("", f"zab: NOAUTH {path}: {MISSING.format(permission, of)}\n")


@pytest.mark.parametrize("words", [["get", "/a"], ["create", "/a"], ["create", "-p", "/a/b"], ["ls"]])
def test_a_chroot_that_does_not_exist_is_named(hosts: str, run: Run, words: list[str]) -> None:
    assert run("-s", f"{hosts}/no/such", *words) == 1
    more = f"the chroot /no/such does not exist; zab -s {hosts} create -p /no/such makes it\n"
    assert run.err.endswith(more)
    with started("-s", f"{hosts}/no/such", "shell") as process:
        _, err = process.communicate(f"{' '.join(words)}\n", timeout=PATIENCE_SECONDS)
    assert err.endswith(more)


def test_a_znode_that_is_missing_below_a_chroot_is_only_that(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "create", "/chroot") == 0
    for chroot in ("/chroot", "/closed"):
        assert run("-s", hosts + chroot, "get", "/a") == 1
        assert run.err == "zab: NONODE /a: there is no znode at the path\n"
