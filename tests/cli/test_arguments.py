"""Which command is called, for which servers."""

import pytest

from zab.cli.arguments import arrange, expand_alias
from zab.cli.commands import ALIASES

H = "localhost:2181"


@pytest.mark.parametrize(
    ("words", "command", "arranged"),
    [
        ([], None, []),
        (["--help"], None, ["--help"]),
        (["get", "/a"], "get", ["get", "/a"]),
        (["-s", H, "get", "/a"], "get", ["-s", H, "get", "/a"]),
        (["--session-timeout", "3", "-r", "get", "/a"], "get", ["--session-timeout", "3", "-r", "get", "/a"]),
        (["--profile", "x", "get", "/a"], "get", ["--profile", "x", "get", "/a"]),
        (["--server=" + H, "get", "/a"], "get", ["--server=" + H, "get", "/a"]),
        (["-server", H, "get", "/a"], "get", ["--server", H, "get", "/a"]),
        (["-r", "-server", H, "ls", "-server"], "ls", ["-r", "--server", H, "ls", "-server"]),
        # Behind the command, -s names servers only where it can mean nothing else.
        (["get", "-s", "/a"], "get", ["get", "-s", "/a"]),
        (["get", "/a", "-s"], "get", ["get", "/a", "-s"]),
        (["get", "-s", H, "/a"], "get", ["-s", H, "get", "/a"]),
        (["get", "/a", "-s", H], "get", ["-s", H, "get", "/a"]),
        (["get", "-s", "/a", "-s", H], "get", ["-s", H, "get", "-s", "/a"]),
        (["create", "-s", "/a", H], "create", ["create", "-s", "/a", H]),
        (["create", "/a", "-s", H], "create", ["create", "/a", "-s", H]),
        (["create", "-s", H, "-s", "/a", "x"], "create", ["-s", H, "create", "-s", "/a", "x"]),
        (["set", "/a", "x", "--server", H], "set", ["--server", H, "set", "/a", "x"]),
        (["set", "/a", "--", "--server", H], "set", ["set", "/a", "--", "--server", H]),
        (["ls", "-s", "a:1,[::1]:2/app", "/"], "ls", ["-s", "a:1,[::1]:2/app", "ls", "/"]),
        (["shell", "-s", H], "shell", ["-s", H, "shell"]),
        (["deleteall", "/a"], "delete", ["delete", "--recursive", "/a"]),
        (["setquota", "-n", "5", "/a", "-s", H], "quota", ["-s", H, "quota", "set", "-n", "5", "/a"]),
    ],
)
def test_arrangement(words: list[str], command: str | None, arranged: list[str]) -> None:
    assert arrange(words) == (command, arranged)


def test_aliases_stand_for_the_first_word_only() -> None:
    assert expand_alias(["getAcl", "-s", "/getAcl"]) == ["acl", "get", "-s", "/getAcl"]
    assert expand_alias(["get", "getAcl"]) == ["get", "getAcl"]
    assert expand_alias([]) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-add A,B", "add A B"),
        ("-remove 1,2", "remove 1 2"),
        ("-v 100000003 -remove 3 -add A", "add -v 100000003 A --remove 3"),
        ("-add A -add B -remove 1 -remove 2", "add A B --remove 1,2"),
        ("-file some,file -v 5", "set -v 5 some,file"),
        ("-members A,B", "set A B"),
        ("-file F -add A -remove 1", "set F --add=A --remove=1"),
        ("-add", "add "),
        ("add A --remove 3", "add A --remove 3"),
        ("show", "show"),
        ("", ""),
    ],
)
def test_reconfig_is_understood_as_zookeepers_shell_has_it(words: str, expected: str) -> None:
    assert expand_alias(["reconfig", *words.split()]) == ["reconfig", *expected.split(" " if expected else None)]


def test_no_alias_stands_for_another() -> None:
    assert not {words[0] for words in ALIASES.values()} & ALIASES.keys()
