"""Subtrees of which a part may not be read, or which are larger than one answer."""

import json
from collections.abc import Iterator

import pytest
import trio

from tests.cli.commands import Run, run, started
from tests.rigs.in_process import members_here
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.client import CREATOR_ALL_ACL, BadArgumentsError, GetChildren, connect

__all__ = ["run"]

BYTES_MAX = 50_000
WIDE = [f"/wide/{number}" for number in range(3)]
CLOSED = "no identity of the connection has the permission READ of it"


async def make(hosts: str) -> None:
    async with connect(hosts, auth=[("digest", "bob:pw")]) as zk:
        for path in ("/part", "/part/a", "/part/open", "/part/open/below", "/part/z", "/wide", *WIDE):
            await zk.create(path)
        for path in ("/part/closed", "/part/open/closed"):
            await zk.create(path, acl=CREATOR_ALL_ACL)
            await zk.create(f"{path}/below")
        for path in WIDE:
            async with zk.transaction() as transaction:
                for number in range(400):
                    transaction.create(f"{path}/{number:060}")


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with members_here(1, {"jute.maxbuffer": BYTES_MAX}) as servers:
        trio.run(make, servers.hosts)
        yield servers.hosts


LISTED = ["/part", "/part/a", "/part/closed", "/part/open", "/part/open/below", "/part/open/closed", "/part/z"]
SKIPPED = "".join(
    f"zab: what is below is left out: NOAUTH {path}: {CLOSED}\n" for path in ("/part/closed", "/part/open/closed")
)


def test_what_may_be_read_is_listed(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "ls", "-R", "/part") == 1
    assert run.out.splitlines() == LISTED
    assert run.err == SKIPPED
    assert run("-s", hosts, "ls", "-R", "--json", "/part") == 1
    assert json.loads(run.out)["paths"] == LISTED
    assert run("--auth", "digest:bob:pw", "-s", hosts, "ls", "-R", "/part") == 0
    assert run.out.splitlines() == sorted([*LISTED, "/part/closed/below", "/part/open/closed/below"])
    assert run.err.count("\n") == 1, "of credentials in the words of a command alone"
    with started("-s", hosts, "shell") as process:
        out, err = process.communicate("ls -R /part\nversion\n", timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert out.splitlines()[:-1] == LISTED
    assert err == SKIPPED


@pytest.mark.parametrize("words", [["ls", "-R"], ["delete", "-R"], ["acl", "set", "-R"]])
def test_a_root_that_may_not_be_read_is_named(hosts: str, run: Run, words: list[str]) -> None:
    acl = ["world:anyone:ra"] if words[0] == "acl" else []
    assert run("-s", hosts, *words, "/part/closed", *acl) == 1
    assert (run.out, run.err) == ("", f"zab: NOAUTH /part/closed: {CLOSED}\n")


def test_a_deletion_begins_only_when_all_can_be_read(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "delete", "-R", "/part") == 1
    assert run.err == f"zab: NOAUTH /part/closed: {CLOSED}\n"
    assert run("-s", hosts, "stat", "/part/z") == 0


def test_a_subtree_larger_than_one_answer_is_listed(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "ls", "-R", "/wide") == 0
    assert len(run.out.splitlines()) == 1 + len(WIDE) * 401


async def test_asking_for_more_than_an_answer_holds_is_refused_in_words(hosts: str) -> None:
    async with connect(hosts) as zk:
        with pytest.raises(BadArgumentsError, match=r"above the server's jute\.maxbuffer; ask for less at once"):
            await zk.multi_read([GetChildren(path) for path in WIDE])
