"""`zab tree`, `zab find` and `zab du` against running servers."""

import json
from collections.abc import Iterator

import pytest
import trio

from tests.cli.commands import Run, run
from tests.client.running import KINDS_OF_LONGEST, running
from zab.client import CREATOR_ALL_ACL, Acl, Permission, connect

__all__ = ["run"]

READERS = (Acl(Permission.READ, "world", "anyone"), Acl(Permission.ALL, "digest", "bob:eHh4"))
WIDE = 3_000


async def make(hosts: str) -> None:
    async with connect(hosts, auth=[("digest", "alice:pw")]) as zk:
        await zk.create("/app", b"12345")
        await zk.create("/app/config", b"timeout=10\nname=caf\xc3\xa9\n", READERS)
        await zk.create("/app/empty")
        await zk.create("/app/workers", None)
        for number in range(3):
            await zk.create(f"/app/workers/w-{number}", b"x" * (1 << number))
        await zk.create("/closed")
        await zk.create("/closed/mine", b"secret", CREATOR_ALL_ACL)
        await zk.create("/closed/mine/below")
        await zk.create("/wide")
        for first in range(0, WIDE, 1_000):
            async with zk.transaction() as transaction:
                for number in range(first, first + 1_000):
                    transaction.create(f"/wide/{number:05}", b"1")


@pytest.fixture(scope="module", params=KINDS_OF_LONGEST)
def hosts(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param, 1, {}) as servers:
        trio.run(make, servers.hosts)
        yield servers.hosts


def test_a_tree_is_drawn(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "tree", "/app") == 0
    assert run.out == ("/app\n├── config\n├── empty\n└── workers\n    ├── w-0\n    ├── w-1\n    └── w-2\n")
    assert run("-s", hosts, "tree", "--depth", "1", "--sizes", "/app") == 0
    assert run.out == ("/app  5 bytes\n├── config  22 bytes\n├── empty  0 bytes\n└── workers  0 bytes  3 below\n")
    assert run("-s", hosts, "tree", "-s", "/app/empty") == 0
    assert run.out.startswith("/app/empty  0 bytes  version 0  20")


def test_a_branch_goes_past_what_is_below(hosts: str, run: Run) -> None:
    for path in ("/branch", "/branch/a", "/branch/a/x", "/branch/a/x/y", "/branch/b"):
        assert run("-s", hosts, "create", path) == 0
    assert run("-s", hosts, "tree", "/branch") == 0
    assert run.out == "/branch\n├── a\n│   └── x\n│       └── y\n└── b\n"


def test_a_tree_as_json(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "tree", "--json", "/app") == 0
    lines = [json.loads(line) for line in run.out.splitlines()]
    assert [(line["path"], line["depth"]) for line in lines[:2]] == [("/app", 0), ("/app/config", 1)]
    assert lines[0]["stat"]["num_children"] == 3


def test_ephemerals_are_marked_and_found(hosts: str, run: Run) -> None:
    async def look() -> None:
        async with connect(hosts) as zk:
            await zk.create("/eph")
            await zk.create("/eph/lock", ephemeral=True)
            session = f"{zk.session_id & (1 << 64) - 1:#x}"

            def ask() -> None:
                assert run("-s", hosts, "tree", "/eph") == 0
                assert run.out == f"/eph\n└── lock  ephemeral of {session}\n"
                for words in (["--ephemeral"], ["--owner", session], ["--owner", str(zk.session_id)]):
                    assert run("-s", hosts, "find", "/eph", *words) == 0
                    assert run.out == "/eph/lock\n"
                assert run("-s", hosts, "find", "/eph", "--owner", "0x1") == 0
                assert run.out == ""

            await trio.to_thread.run_sync(ask)

    trio.run(look)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--name", "w-*"], ["workers/w-0", "workers/w-1", "workers/w-2"]),
        (["--name", "*[02]", "--larger", "1"], ["workers/w-2"]),
        (["--depth", "1", "--smaller", "1"], ["empty", "workers"]),
        (["--larger", "21", "--smaller", "1k"], ["config"]),
        (["--data", "café"], ["config"]),
        (["--data", "x", "--name", "w-*"], ["workers/w-0", "workers/w-1", "workers/w-2"]),
        (["--data-regex", "^x{2,3}$"], ["workers/w-1"]),
        (["--data-regex", "time.*=[0-9]+"], ["config"]),
        (["--older", "1h"], []),
        (["--newer", "1h", "--name", "con*"], ["config"]),
        (["--newer", "2100-01-01"], []),
        (["--acl", "digest"], ["config"]),
        (["--acl", "world:anyone:r", "--data", "timeout"], ["config"]),
        (["--acl", "world:anyone:rw", "--data", "timeout"], []),
        (["--acl", "digest:eve"], []),
    ],
)
def test_what_passes_every_test_is_found(hosts: str, run: Run, words: list[str], found: list[str]) -> None:
    assert run("-s", hosts, "find", "/app", *words) == 0
    assert run.out.splitlines() == [f"/app/{path}" for path in found]


def test_all_is_found_without_tests_and_as_json(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "find", "/app/workers", "--json") == 0
    assert [json.loads(line)["path"] for line in run.out.splitlines()][1:] == [f"/app/workers/w-{n}" for n in range(3)]


@pytest.mark.parametrize(
    "words",
    [
        ["--data-regex", "("],
        ["--newer", "soon"],
        ["--larger", "much"],
        ["--owner", "me"],
        ["--owner", str(1 << 64)],
        ["--acl", ":x"],
    ],
)
def test_a_test_that_cannot_be_read_is_2(hosts: str, run: Run, words: list[str]) -> None:
    assert run("-s", hosts, "find", *words) == 2


def test_what_may_not_be_read_is_told_and_1(hosts: str, run: Run) -> None:
    for words in (["tree"], ["find"], ["du"]):
        assert run("-s", hosts, *words, "/closed") == 1
        assert "left out: NOAUTH /closed/mine: " in run.err
        assert "/closed" in run.out
    assert run("-s", hosts, "find", "/closed", "--data", "secret") == 1
    assert (run.out, "zab: left out: NOAUTH /closed/mine: " in run.err) == ("", True)
    assert run("--auth", "digest:alice:pw", "-s", hosts, "find", "/closed", "--data", "secret") == 0
    assert run.out == "/closed/mine\n"
    for words in (["tree"], ["find"], ["du"]):
        assert run("-s", hosts, *words, "/closed/mine") == 1
        assert "zab: NOAUTH /closed/mine: " in run.err
        assert run("-s", hosts, *words, "/none") == 1
        assert "zab: NONODE /none" in run.err


def test_bytes_and_znodes_of_each_directory(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "du", "/app") == 0
    assert run.out == "7\t4\t/app/workers\n34\t7\t/app\n"
    assert run("-s", hosts, "du", "/app/empty") == 0
    assert run.out == "0\t1\t/app/empty\n"
    assert run("-s", hosts, "du", "--depth", "0", "--json", "/app") == 0
    assert json.loads(run.out) == {"path": "/app", "bytes": 34, "count": 7}


def test_the_largest_directories(hosts: str, run: Run) -> None:
    assert run("--auth", "digest:alice:pw", "-s", hosts, "du", "--top", "2", "/") == 0
    assert run.out.splitlines()[0] == f"{WIDE}\t{WIDE}\t/wide"
    assert len(run.out.splitlines()) == 2
    assert run("-s", hosts, "du", "--top", "2", "--by", "znodes", "/app") == 0
    assert run.out == "22\t3\t/app\n7\t3\t/app/workers\n"
    assert run("-s", hosts, "du", "--top", "1", "--depth", "1") == 2


def test_a_wide_directory_is_walked(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "find", "/wide", "--data", "1") == 0
    assert run.out.splitlines() == [f"/wide/{number:05}" for number in range(WIDE)]
