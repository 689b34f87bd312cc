"""`zab wait` against running servers: each condition, before and after it is so, and the exit codes."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.commands import PATIENCE_SECONDS, Run, run, started
from tests.client.running import KINDS, running

__all__ = ["run"]


@pytest.fixture(scope="module", params=KINDS)
def hosts(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param, 1, {}) as servers:
        yield servers.hosts


def prepare(hosts: str, run: Run, path: str, data: str | None) -> None:
    run("-s", hosts, "delete", path)
    if data is not None:
        assert run("-s", hosts, "create", path, data) == 0


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        ("x", ["--exists"]),
        (None, ["--gone"]),
        ("x", ["--equals", "x"]),
        ("x", ["--equals", "eA==", "--base64"]),
        ("", ["--equals", ""]),
    ],
)
def test_what_is_so_already_is_not_waited_for(hosts: str, run: Run, data: str | None, condition: list[str]) -> None:
    prepare(hosts, run, "/already", data)
    assert run("-s", hosts, "wait", "/already", *condition) == 0
    assert (run.out, run.err) == ("", "")


@pytest.mark.parametrize(
    ("data", "condition", "vain", "change"),
    [
        (None, ["--exists"], [], ["create", "/late", "y"]),
        ("x", ["--gone"], [["set", "/late", "y"]], ["delete", "/late"]),
        ("x", ["--equals", "z"], [["set", "/late", "y"]], ["set", "/late", "z"]),
        (None, ["--equals", "z"], [["create", "/late", "y"], ["delete", "/late"]], ["create", "/late", "z"]),
        ("x", ["--changes"], [["create", "/late/child"], ["delete", "/late/child"]], ["set", "/late", "x"]),
        ("x", ["--changes"], [], ["delete", "/late"]),
        (None, ["--changes"], [], ["create", "/late"]),
    ],
)
def test_what_is_not_so_is_waited_for(
    hosts: str, run: Run, data: str | None, condition: list[str], vain: list[list[str]], change: list[str]
) -> None:
    prepare(hosts, run, "/late", data)
    with started("-s", hosts, "wait", "/late", *condition, "--json") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting for /late\n"
        for words in vain:
            assert run("-s", hosts, *words) == 0
        assert process.poll() is None
        assert run("-s", hosts, *change) == 0
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, err) == (0, "")
    found = json.loads(out)
    assert found["path"] == "/late"
    assert (found["stat"] is None) == (change[0] == "delete")


def test_the_time_has_a_code_of_its_own(hosts: str, run: Run) -> None:
    prepare(hosts, run, "/never", None)
    assert run("-s", hosts, "wait", "/never", "--exists", "--timeout", "0.2") == 124
    assert run.err.startswith("waiting for /never\nzab: it was not done within 0.2 s")


@pytest.mark.parametrize("condition", [["--exists"], ["--gone"], ["--equals", "x"], ["--changes"]])
def test_what_may_not_be_read_is_refused(hosts: str, run: Run, condition: list[str]) -> None:
    run("--auth", "digest:bob:pw", "-s", hosts, "create", "/closed", "x", "auth::cdrwa")
    assert run("-s", hosts, "wait", "/closed", *condition) == 1
    assert "NOAUTH /closed" in run.err


@pytest.mark.parametrize(
    "words", [[], ["--exists", "--gone"], ["--equals", "x", "--changes"], ["--exists", "-b"], ["--equals", "%", "-b"]]
)
def test_one_condition_is_wanted(run: Run, words: list[str]) -> None:
    assert run("wait", "/a", *words) == 2
