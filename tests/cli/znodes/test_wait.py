"""`zab wait`: what it waits for, and how it ends; `test_waiting.py` kills its member."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.commands import Run, run, started
from tests.client.running import KINDS_OF_LONGEST, running_processes
from tests.rigs.waiting import PATIENCE_SECONDS, until
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, four_letter_word

__all__ = ["run"]


@pytest.fixture(scope="module", params=KINDS_OF_LONGEST)
def servers(request: pytest.FixtureRequest) -> Iterator[ZooKeeperEnsemble]:
    with running_processes(request.param, 1, {"4lw.commands.whitelist": "*"}) as ensemble:
        yield ensemble


def is_watched(servers: ZooKeeperEnsemble) -> bool:
    [member] = servers.members
    return "\nTotal watches:0\n" not in four_letter_word(member.client_port, "wchs")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("create /now x", ["--exists"]),
        ("create /now x", ["--equals", "x"]),
        ("create -b /now /w==", ["--equals", "/w==", "--base64"]),
        ("create /now", ["--equals", ""]),
        ("create /now x", ["--changes", "--version", "7"]),
        ("create /other", ["--gone"]),
        ("create /other", ["--changes", "--version", "0"]),
    ],
)
def test_what_is_so_already_is_not_waited_for(
    servers: ZooKeeperEnsemble, run: Run, state: str, words: list[str]
) -> None:
    assert run("-s", servers.hosts, *state.split()) == 0
    assert run("-s", servers.hosts, "wait", "/now", *words) == 0
    assert (run.out, run.err) == ("", "")
    assert run("-s", servers.hosts, "wait", "--json", "/now", *words) == 0
    found = json.loads(run.out)
    assert (found["path"], found["stat"] is None) == ("/now", "/other" in state)
    assert run("-s", servers.hosts, "delete", state.split()[-1] if "/other" in state else "/now") == 0


@pytest.mark.parametrize(
    ("before", "words", "steps"),
    [
        ("create /later", ["--gone"], ["delete /later"]),
        ("create /none", ["--exists"], ["create /later"]),
        ("create /later a", ["--equals", "c"], ["set /later b", "delete /later", "create /later c"]),
        ("create /none", ["--equals", "c"], ["create /later b", "set /later c"]),
        ("create /later a", ["--changes"], ["set /later a"]),
        ("create /later a", ["--changes", "-v", "1"], ["set /later c"]),
        ("create /none", ["--changes"], ["create /later"]),
        ("create /later", ["--changes"], ["delete /later"]),
    ],
)
def test_what_is_not_so_yet_is_waited_for(
    servers: ZooKeeperEnsemble, run: Run, before: str, words: list[str], steps: list[str]
) -> None:
    for path in ("/later", "/none"):
        run("-s", servers.hosts, "delete", path)
    assert run("-s", servers.hosts, *before.split()) == 0
    if "-v" in words:
        assert run("-s", servers.hosts, "set", "/later", "b") == 0
    with started("-s", servers.hosts, "wait", "/later", *words) as process:
        for step in steps:
            until(lambda: is_watched(servers) or process.poll() is not None)
            assert process.poll() is None, process.communicate()
            assert run("-s", servers.hosts, *step.split()) == 0
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err) == (0, "", "")


def test_its_time_is_over(servers: ZooKeeperEnsemble, run: Run) -> None:
    for words in (["--gone"], ["--changes"], ["--equals", "x"]):
        assert run("-s", servers.hosts, "wait", "/zookeeper", *words, "--timeout", "0.3") == 124
        assert "--timeout" in run.err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--exists", "--gone"],
        ["--exists", "--equals", "x"],
        ["--exists", "-v", "1"],
        ["--equals", "%", "-b"],
    ],
)
def test_wrong_usage_is_2(run: Run, words: list[str]) -> None:
    assert run("wait", "/a", *words) == 2
