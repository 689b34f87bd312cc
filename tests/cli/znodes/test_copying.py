"""`zab touch`, `zab cp` and `zab mv`: what arrives, what is refused, and what is left when somebody else changes it."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from tests.cli.commands import Run, run
from tests.cli.znodes.copies import ADMIN, MASKED, all_of, does, exists, hosts, make_app, make_many, servers, stat_of
from zab.cli.znodes import copying
from zab.client import Acl, Client, Permission, connect

__all__ = ["hosts", "run", "servers"]

READ_ONLY = (Acl(Permission.READ, "world", "anyone"),)


def test_touch_changes_the_time_and_creates(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "touch", "-c", "/a") == 1
    assert run("-s", hosts, "touch", "/a") == 0
    does(hosts, lambda zk: zk.set("/a", b"data"))
    before = does(hosts, lambda zk: stat_of(zk, "/a"))
    assert run("-s", hosts, "touch", "/a") == 0
    data, after = does(hosts, lambda zk: zk.get("/a"))
    assert (data, after.version) == (b"data", before.version + 1)
    assert after.mtime >= before.mtime
    assert run("-s", hosts, "touch", "/none/a") == 1


def test_a_copy_has_data_and_acls(hosts: str, run: Run) -> None:
    does(hosts, make_app)
    assert run("-s", hosts, "cp", "/app", "/copy") == 0
    assert run.out == "5 znodes at /copy\n"
    found = does(hosts, lambda zk: all_of(zk, "/copy"))
    assert found == does(hosts, lambda zk: all_of(zk, "/app"))
    assert (found[""][0], found["/null"][0], found["/a/b"][1]) == (b"\x00\xff", None, ADMIN)
    assert run("-s", hosts, "cp", "--json", "-p", "/app/a", "/x/y/z") == 0
    assert json.loads(run.out) == {"path": "/x/y/z", "count": 2, "transactions": 1}


def test_a_move_is_one_transaction(hosts: str, run: Run) -> None:
    does(hosts, make_app)
    before = does(hosts, lambda zk: all_of(zk, "/app"))
    assert run("-s", hosts, "mv", "/app", "/moved") == 0
    assert run.out == "5 znodes at /moved\n"
    assert does(hosts, lambda zk: all_of(zk, "/moved")) == before
    assert not exists(hosts, "/app")
    czxids = {does(hosts, lambda zk, path=path: stat_of(zk, f"/moved{path}")).czxid for path in before}
    assert len(czxids) == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["cp", "/app", "/app"], 2, "is within"),
        (["cp", "/app", "/app/a/b"], 2, "is within"),
        (["cp", "/", "/b"], 2, "root"),
        (["mv", "/app", "/"], 2, "root"),
        (["cp", "/app", "/app2"], 1, "NODEEXISTS /app2"),
        (["mv", "/app", "/app2"], 1, "NODEEXISTS /app2"),
        (["mv", "/app", "/none/b"], 1, "NONODE /none/b"),
        (["cp", "/none", "/b"], 1, "NONODE /none"),
        (["mv", "/none", "/b"], 1, "NONODE /none"),
        (["cp", "app", "/b"], 1, "BADARGUMENTS app"),
    ],
)
def test_what_cannot_be_copied_is_refused(hosts: str, run: Run, words: list[str], code: int, said: str) -> None:
    does(hosts, make_app)
    does(hosts, lambda zk: zk.create("/app2"))
    assert run("-s", hosts, *words) == code
    assert said in " ".join(run.err.replace("│", " ").split())
    assert len(does(hosts, lambda zk: all_of(zk, "/app"))) == 5


@pytest.mark.parametrize("command", ["cp", "mv"])
def test_what_is_not_copied_leaves_no_parents(hosts: str, run: Run, command: str) -> None:
    assert run("-s", hosts, command, "-p", "/none", "/x/y/z") == 1
    assert "NONODE /none" in run.err
    assert not exists(hosts, "/x")


def test_ephemerals_are_refused_or_left_out(hosts: str, run: Run) -> None:
    async def act(zk: Client) -> None:
        await make_app(zk)
        await zk.create("/app/a/lock", ephemeral=True)

        def ask() -> None:
            for words in (["cp"], ["mv"]):
                assert run("-s", hosts, *words, "/app", "/to") == 1
                assert "BADARGUMENTS /app/a/lock: it is ephemeral, of the session 0x" in run.err
            assert run("-s", hosts, "cp", "--skip-ephemerals", "/app", "/copied") == 0
            assert run.err == "zab: 1 ephemeral left out\n"
            assert run.out.startswith("5 znodes")
            assert run("-s", hosts, "mv", "--skip-ephemerals", "/app", "/moved") == 0

        await trio.to_thread.run_sync(ask)
        assert set(await all_of(zk, "/copied")) == set(await all_of(zk, "/moved"))
        # What is above the ephemeral stays with it.
        assert set(await all_of(zk, "/app")) == {"", "/a", "/a/lock"}

    does(hosts, act)


@pytest.mark.parametrize("command", ["cp", "mv"])
def test_an_acl_without_its_passwords_is_not_copied(hosts: str, run: Run, command: str) -> None:
    does(hosts, lambda zk: zk.create("/closed", b"", MASKED))
    assert run("-s", hosts, command, "/closed", "/open") == 1
    assert "NOAUTH /closed: its ACL is told without the passwords" in run.err
    assert not exists(hosts, "/open")


def test_what_has_no_room_in_one_transaction(hosts: str, run: Run) -> None:
    does(hosts, make_many)
    before = does(hosts, lambda zk: all_of(zk, "/many"))
    small = ("--jute-maxbuffer", "2000", "-s", hosts)
    assert run(*small, "mv", "/many", "/moved") == 1
    assert "--not-atomic copies it" in run.err
    assert not exists(hosts, "/moved")
    assert run(*small, "cp", "/many", "/copied") == 0
    assert run.out.startswith("41 znodes at /copied in ")
    assert does(hosts, lambda zk: all_of(zk, "/copied")) == before
    assert run(*small, "mv", "--not-atomic", "/many", "/moved") == 0
    assert does(hosts, lambda zk: all_of(zk, "/moved")) == before
    assert not exists(hosts, "/many")


def test_what_is_not_finished_is_told(hosts: str, run: Run) -> None:
    async def act(zk: Client) -> None:
        await make_many(zk)
        await zk.create("/many/39/below")
        await zk.set_acl("/many/39", READ_ONLY)

    does(hosts, act)
    assert run("--jute-maxbuffer", "2000", "-s", hosts, "cp", "/many", "/copied") == 1
    first, second = run.err.splitlines()
    made = len(does(hosts, lambda zk: all_of(zk, "/copied")))
    assert first == f"zab: the copy is not whole: {made} znodes made at /copied; zab delete -R /copied removes them"
    assert second.startswith("zab: NOAUTH /copied/39/below")


CHANGES = [
    ("a changed znode", lambda zk: zk.set("/many/20", b"new"), "BADVERSION /many/20"),
    ("a new znode", lambda zk: zk.create("/many/20/new"), "NOTEMPTY /many/20"),
]


@pytest.mark.parametrize(("_what", "change", "said"), CHANGES, ids=[what for what, _, _ in CHANGES])
@pytest.mark.parametrize("options", [(), ("--jute-maxbuffer", "2000")])
def test_nothing_that_changes_meanwhile_is_lost_by_a_move(
    hosts: str,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    _what: str,
    change: Callable[[Client], Awaitable[Any]],
    said: str,
    options: tuple[str, ...],
) -> None:
    does(hosts, make_many)
    step = "_delete_in_several" if options else "_commit_one"
    original = getattr(copying, step)

    async def after_a_change(*given: Any, **named: Any) -> None:
        async with connect(hosts) as other:
            await change(other)
        await original(*given, **named)

    monkeypatch.setattr(copying, step, after_a_change)
    assert run(*options, "-s", hosts, "mv", "--not-atomic", "/many", "/moved") == 1
    assert f"zab: {said}" in run.err
    assert exists(hosts, "/many/20")
    assert exists(hosts, "/moved") == bool(options)
    assert ("/moved is a whole copy, but of /many" in run.err) == bool(options)


def test_a_copy_is_of_what_was_read(hosts: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    does(hosts, make_app)
    original = copying._commit_one

    async def after_a_change(*given: Any, **named: Any) -> None:
        async with connect(hosts) as other:
            await other.set("/app/a", b"new")
        await original(*given, **named)

    monkeypatch.setattr(copying, "_commit_one", after_a_change)
    assert run("-s", hosts, "cp", "/app", "/copied") == 1
    assert "zab: BADVERSION /app/a" in run.err
    assert not exists(hosts, "/copied")
