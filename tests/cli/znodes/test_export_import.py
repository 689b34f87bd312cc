"""`zab export` and `zab import`: what is exported comes back as it was, and what is hostile is refused."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.cli.commands import Run, run, standard_input
from tests.cli.znodes.copies import ADMIN, MASKED, all_of, does, exists, hosts, make_app, make_many, servers
from zab.cli.znodes import importing
from zab.cli.znodes.subtree_directory import directory_entries
from zab.cli.znodes.subtree_lines import SubtreeFileError, entries_of, line_bytes_max
from zab.client import Acl, Client, Permission, connect

__all__ = ["hosts", "run", "servers"]

NAMES = ["two words", "50%", "@data", "ü", "a'b", "..a", "~"]


async def make_names(zk: Client) -> None:
    await make_app(zk)
    for name in NAMES:
        await zk.create(f"/app/a/{name}", name.encode())


@pytest.fixture(params=["lines", "directory"])
def exported(request: pytest.FixtureRequest, hosts: str, run: Run, tmp_path: Path) -> Callable[..., Path]:
    """Exports, in one of the two forms, and says where to."""

    def export(*words: str) -> Path:
        place = tmp_path / "exported"
        if request.param == "directory":
            assert run("-s", hosts, "export", *words, "--dir", place) == 0
        else:
            assert run("-s", hosts, "export", *words) == 0
            place.write_text(run.out)
        return place

    return export


def test_what_is_exported_comes_back(hosts: str, run: Run, exported: Callable[..., Path]) -> None:
    does(hosts, make_names)
    before = does(hosts, lambda zk: all_of(zk, "/app"))
    place = exported("/app")
    assert run("-s", hosts, "import", place, "/other/place") == 1
    assert run("-s", hosts, "import", "-p", place, "/other/place") == 0
    assert run.out == "/other/place: 12 created, 0 changed, 0 with another ACL, 0 deleted, 0 the same\n"
    assert does(hosts, lambda zk: all_of(zk, "/other/place")) == before
    does(hosts, lambda zk: zk.delete_all("/app"))
    assert run("-s", hosts, "import", "--json", place) == 0
    assert json.loads(run.out)["created"] == 12
    assert does(hosts, lambda zk: all_of(zk, "/app")) == before


def test_of_what_is_not_there_not_even_a_beginning_is_printed(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "export", "/none") == 1
    assert run.out == ""


def test_the_root_and_back(hosts: str, run: Run, exported: Callable[..., Path]) -> None:
    does(hosts, make_app)
    place = exported("/")
    before = does(hosts, lambda zk: all_of(zk, "/app"))
    does(hosts, lambda zk: zk.delete_all("/app"))
    assert run("-s", hosts, "import", place) == 1
    assert run.err.startswith(
        "zab: NODEEXISTS /: it is there already; --merge changes what is there, --replace makes it as the file is"
    )
    assert run("-s", hosts, "import", "--replace", place) == 0
    assert does(hosts, lambda zk: all_of(zk, "/app")) == before


def test_what_belongs_to_the_servers_is_left_out(servers: str, run: Run, tmp_path: Path) -> None:
    assert run("-s", servers, "export", "/") == 0
    paths = {json.loads(line).get("path") for line in run.out.splitlines()}
    assert not any(path and path.startswith("/zookeeper") for path in paths)
    (tmp_path / "file").write_text(run.out)
    assert run("-s", servers, "import", "--replace", "--dry-run", tmp_path / "file") == 0
    assert "delete" not in run.out.replace(" 0 deleted", "")


async def change_app(zk: Client) -> None:
    await zk.set("/app/a", b"changed")
    await zk.set_acl("/app/null", ADMIN)
    await zk.delete("/app/empty")
    await zk.create("/app/a/new")
    await zk.create("/app/a/new/below")


def test_merge_leaves_what_is_only_there(hosts: str, run: Run, exported: Callable[..., Path]) -> None:
    does(hosts, make_app)
    before = does(hosts, lambda zk: all_of(zk, "/app"))
    place = exported("/app")
    does(hosts, change_app)
    changed = does(hosts, lambda zk: all_of(zk, "/app"))
    assert run("-s", hosts, "import", "--merge", "--dry-run", place) == 0
    assert sorted(run.out.splitlines()[:-1]) == ["acl /app/null", "create /app/empty", "set /app/a"]
    assert run.out.endswith("/app: 1 would be created, 1 changed, 1 with another ACL, 0 deleted, 2 the same\n")
    assert does(hosts, lambda zk: all_of(zk, "/app")) == changed
    assert run("-s", hosts, "import", "--merge", place) == 0
    assert run.out == "/app: 1 created, 1 changed, 1 with another ACL, 0 deleted, 2 the same\n"
    after = does(hosts, lambda zk: all_of(zk, "/app"))
    assert after == {**before, "/a/new": after["/a/new"], "/a/new/below": after["/a/new/below"]}


def test_replace_makes_it_as_the_file_is(hosts: str, run: Run, exported: Callable[..., Path]) -> None:
    does(hosts, make_app)
    before = does(hosts, lambda zk: all_of(zk, "/app"))
    place = exported("/app")
    does(hosts, change_app)
    assert run("-s", hosts, "import", "--replace", "--json", place) == 0
    assert json.loads(run.out) == {
        "path": "/app",
        "created": 1,
        "changed": 1,
        "acls": 1,
        "deleted": 2,
        "same": 2,
    }
    assert does(hosts, lambda zk: all_of(zk, "/app")) == before
    assert run("-s", hosts, "import", "--replace", place, "/fresh") == 0
    assert does(hosts, lambda zk: all_of(zk, "/fresh")) == before


@pytest.mark.parametrize("words", [["--merge"], ["--replace"]])
def test_somebody_elses_change_is_not_overwritten(
    hosts: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    does(hosts, make_app)
    assert run("-s", hosts, "export", "/app") == 0
    (tmp_path / "file").write_text(run.out)
    does(hosts, lambda zk: zk.set("/app/a", b"changed"))
    original = importing._Import.write

    async def and_a_change(self: Any, entries: Any) -> None:
        await original(self, entries)
        async with connect(hosts) as other:
            await other.set("/app/a", b"by another")

    monkeypatch.setattr(importing._Import, "write", and_a_change)
    assert run("-s", hosts, "import", *words, tmp_path / "file") == 1
    assert run.err.startswith("zab: the import is not finished: of its writes 0 are done\nzab: BADVERSION /app/a")
    assert does(hosts, lambda zk: zk.get("/app/a"))[0] == b"by another"


def test_ephemerals(hosts: str, run: Run, tmp_path: Path) -> None:
    async def act(zk: Client) -> None:
        await make_app(zk)
        await zk.create("/app/a/lock", ephemeral=True)

        def ask() -> None:
            assert run("-s", hosts, "export", "/app") == 1
            assert "BADARGUMENTS /app/a/lock: it is ephemeral, of the session 0x" in run.err
            (tmp_path / "cut").write_text(run.out)
            assert run("-s", hosts, "import", tmp_path / "cut", "/to") == 1
            assert "the file is cut short" in run.err
            assert run("-s", hosts, "export", "--skip-ephemerals", "/app") == 0
            assert run.err == "zab: 1 ephemeral left out\n"
            (tmp_path / "file").write_text(run.out)
            assert run("-s", hosts, "import", "--replace", tmp_path / "file") == 1
            assert "BADARGUMENTS /app/a/lock: an ephemeral is there" in run.err
            assert run("-s", hosts, "import", "--merge", tmp_path / "file", "/app/a/lock") == 1

        await trio.to_thread.run_sync(ask)

    does(hosts, act)


def test_an_acl_without_its_passwords_is_not_exported(hosts: str, run: Run) -> None:
    does(hosts, lambda zk: zk.create("/closed", b"", MASKED))
    assert run("-s", hosts, "export", "/closed") == 1
    assert "NOAUTH /closed: its ACL is told without the passwords" in run.err


def test_a_large_subtree_takes_several_transactions(hosts: str, run: Run, tmp_path: Path) -> None:
    does(hosts, make_many)
    small = ("--jute-maxbuffer", "2000", "-s", hosts)
    assert run(*small, "export", "/many") == 0
    (tmp_path / "file").write_text(run.out)
    assert run(*small, "import", tmp_path / "file", "/again") == 0
    assert does(hosts, lambda zk: all_of(zk, "/again")) == does(hosts, lambda zk: all_of(zk, "/many"))


@pytest.mark.parametrize("too_many", [0, 1])
def test_a_znode_that_no_request_holds_is_refused_before_anything_is_written(
    hosts: str, run: Run, exported: Callable[..., Path], too_many: int
) -> None:
    """What is left of 2,000 bytes is what a transaction with this znode alone has beside its data."""

    async def make(zk: Client) -> None:
        await make_many(zk)
        await zk.create("/many/z", bytes(2_000 - around + too_many))

    path = "/" + hosts.partition("/")[2] + "/many/z"
    around = len(path) + 4 + 4 + 4 + len("world") + len("anyone") + 3 * 4 + 4 + 3 * 9
    does(hosts, make)
    place = exported("/many")
    small = ("--jute-maxbuffer", "2000", "-s", hosts)
    assert run(*small, "import", "--dry-run", place, "/like") == too_many
    assert run(*small, "import", place, "/like") == too_many
    if too_many:
        assert "z" in run.err.partition(":")[2]
        assert run.err.endswith("the znode has no room in a request of 2,000 bytes; --jute-maxbuffer allows more\n")
        assert not exists(hosts, "/like")


def test_a_chroot_takes_room_too(hosts: str, run: Run, exported: Callable[..., Path]) -> None:
    does(hosts, lambda zk: zk.create("/many", bytes(1_800)))
    place = exported("/many")
    inner = "c" * 200
    does(hosts, lambda zk: zk.create(f"/{inner}"))
    small = ("--jute-maxbuffer", "2000")
    assert run(*small, "-s", hosts, "import", "--dry-run", place, "/same") == 0
    assert run(*small, "-s", f"{hosts}/{inner}", "import", "--dry-run", place, "/same") == 1
    assert run(*small, "-s", f"{hosts}/{inner}", "import", place, "/same") == 1
    assert "the znode has no room in a request" in run.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["/app"], "NODEEXISTS /app: it is there already; --merge changes what is there"),
        (["/none/x"], "NONODE /none: what is imported would be below it; -p makes it"),
        (["--merge", "/none/x"], "NONODE /none: what is imported would be below it; -p makes it"),
        (["r"], "BADARGUMENTS r"),
        (["/r/"], "BADARGUMENTS /r/"),
        (["//"], "BADARGUMENTS //"),
        (["/r/../x"], "BADARGUMENTS /r/../x"),
    ],
)
def test_what_cannot_be_done_is_refused_by_a_dry_run_too(
    hosts: str, run: Run, exported: Callable[..., Path], words: list[str], reason: str
) -> None:
    does(hosts, make_app)
    place = exported("/app")
    for dry in (["--dry-run"], []):
        assert run("-s", hosts, "import", *dry, place, *words) == 1
        assert reason in run.err


def test_a_target_that_may_not_be_read_is_there(hosts: str, run: Run, exported: Callable[..., Path]) -> None:
    does(hosts, make_app)
    place = exported("/app")
    does(hosts, lambda zk: zk.create("/hidden", b"", (Acl(Permission.CREATE, "world", "anyone"),)))
    assert run("-s", hosts, "import", place, "/hidden") == 1
    assert "NODEEXISTS /hidden" in run.err
    assert run("-s", hosts, "import", place, "/hidden/app") == 0


def test_what_is_the_servers_own_is_not_imported(
    servers: str, hosts: str, run: Run, exported: Callable[..., Path]
) -> None:
    """A chroot has a znode of the same name, and may have it."""

    async def make(zk: Client) -> None:
        await zk.ensure_path("/inner/zookeeper/quota")

    does(hosts, make)
    place = exported("/inner")
    assert run("-s", servers, "import", "--merge", "--dry-run", place, "/") == 1
    assert "/zookeeper is the servers' own" in run.err
    assert run("-s", f"{hosts}/inner", "import", "--merge", place, "/") == 0


def test_standard_input(hosts: str, run: Run) -> None:
    does(hosts, make_app)
    assert run("-s", hosts, "export", "/app") == 0
    with standard_input(run.out):
        assert run("-s", hosts, "import", "-", "/piped") == 0
    assert does(hosts, lambda zk: all_of(zk, "/piped")) == does(hosts, lambda zk: all_of(zk, "/app"))
    with standard_input("nonsense"):
        assert run("-s", hosts, "import", "-") == 1
    assert run.err.startswith("zab: standard input: line 1: it is no JSON")


def test_kinds_of_znode_can_be_asked_for(hosts: str, run: Run, tmp_path: Path) -> None:
    """A container without children may vanish, so it has one; a TTL znode says no more than that it could be made."""
    acl = '"acl": [{"scheme": "world", "id": "anyone", "permissions": "cdrwa"}]'
    (tmp_path / "file").write_text(
        '{"format": "zab subtree", "version": 1, "root": "/k"}\n'
        f'{{"path": "/k", "data": null, "encoding": null, {acl}, "container": true}}\n'
        f'{{"path": "/k/t", "data": "x", "encoding": "utf-8", {acl}, "ttl_ms": 600000}}\n'
        '{"znodes": 2}\n'
    )
    assert run("-s", hosts, "import", tmp_path / "file") == 0
    assert exists(hosts, "/k/t")


# Hostile files: each is refused before anything is written.

HEADER = {"format": "zab subtree", "version": 1, "root": "/r"}
ACL = [{"scheme": "world", "id": "anyone", "permissions": "r"}]
ROOT = {"path": "/r", "data": "x", "encoding": "utf-8", "acl": ACL}
END = {"znodes": 1}


def entry(**fields: Any) -> dict[str, Any]:
    return {**ROOT, **fields}


HOSTILE: list[tuple[list[Any], str]] = [
    ([], "line 1: it is no JSON"),
    ([{"format": "other"}], "line 1: a subtree begins with"),
    ([{**HEADER, "version": 2}, ROOT, END], "line 1: it has version 2"),
    ([{**HEADER, "version": 1.5}, ROOT, END], "line 1: it has version 1.5"),
    ([{**HEADER, "version": 1.0}, ROOT, END], "line 1: it has version 1.0"),
    ([{**HEADER, "version": True}, ROOT, END], "line 1: it has version True"),
    ([{**HEADER, "more": 1}, ROOT, END], "line 1: 'more' is not known here"),
    ([{**HEADER, "root": "r"}, ROOT, END], "line 1: 'r' is no path"),
    ([{**HEADER, "root": 3}, ROOT, END], "line 1: 3 is no path"),
    ([HEADER, ROOT], "line 2: the file is cut short"),
    ([HEADER], "the end: the file is cut short"),
    ([HEADER, {"znodes": 0}], "line 2: there is no znode in the file"),
    ([HEADER, ROOT, {"znodes": 2}], "line 3: there are 1 znodes in the file, and not 2"),
    ([HEADER, ROOT, {"znodes": True}], "line 3: there are 1 znodes in the file, and not True"),
    ([HEADER, ROOT, {"znodes": 1.0}], "line 3: there are 1 znodes in the file, and not 1.0"),
    ([HEADER, ROOT, END, ROOT], "line 4: the line before says that it is the last"),
    ([HEADER, ROOT, ROOT, {"znodes": 2}], "line 3: /r was there before"),
    ([HEADER, entry(path="/other"), END], "line 2: /other is not below /r"),
    ([HEADER, entry(path="/rr"), END], "line 2: /rr is not below /r"),
    ([HEADER, ROOT, entry(path="/r/../../etc"), END], "line 3: '/r/../../etc' is no path"),
    ([HEADER, ROOT, entry(path="/r//x"), END], "line 3: '/r//x' is no path"),
    ([HEADER, ROOT, entry(path="/r/\0"), END], "is no path"),
    ([HEADER, ROOT, entry(path="/r/\ud800"), END], "is no path"),
    ([HEADER, ROOT, entry(path="/r/a/b"), END], "line 3: what is above /r/a/b was not there before"),
    ([HEADER, entry(more=1), END], "line 2: 'more' is not known here"),
    ([HEADER, {"path": "/r"}, END], "line 2: there is no acl"),
    ([HEADER, [1], END], "line 2: it is no object"),
    ([HEADER, "nonsense", END], "line 2: it is no object"),
    ([HEADER, entry(encoding="latin-1"), END], "line 2: the encoding of data is utf-8 or base64, not 'latin-1'"),
    ([HEADER, entry(encoding=None), END], "line 2: the encoding"),
    ([HEADER, entry(data=None), END], "line 2: data and its encoding are text, or both null"),
    ([HEADER, entry(data=3), END], "line 2: data and its encoding are text"),
    ([HEADER, entry(data="\ud800"), END], "line 2: data has half of a character"),
    ([HEADER, entry(data="%%", encoding="base64"), END], "line 2: data is no base64"),
    ([HEADER, entry(data="é", encoding="base64"), END], "line 2: data is no base64"),
    ([HEADER, entry(acl=[]), END], "line 2: acl is a list of objects"),
    ([HEADER, entry(acl="world:anyone:r"), END], "line 2: acl is a list of objects"),
    ([HEADER, entry(acl=["r"]), END], "line 2: an entry of acl is an object"),
    ([HEADER, entry(acl=[{"scheme": "world", "id": 1, "permissions": "r"}]), END], "line 2: an entry of acl"),
    ([HEADER, entry(acl=[{"scheme": "world", "id": "x", "permissions": "z"}]), END], "unknown permission 'z'"),
    ([HEADER, entry(acl=[{"scheme": "\ud800", "id": "x", "permissions": "r"}]), END], "half of a character"),
    ([HEADER, entry(acl=[{"scheme": "world", "id": "x"}]), END], "line 2: there is no permissions"),
    ([HEADER, entry(container="yes"), END], "line 2: container is true or false"),
    ([HEADER, entry(ttl_ms=0), END], "line 2: ttl_ms is between 1 and"),
    ([HEADER, entry(ttl_ms=True), END], "line 2: ttl_ms is between 1 and"),
    ([HEADER, entry(ttl_ms=5, container=True), END], "line 2: a container has no ttl_ms"),
]


@pytest.mark.parametrize(("lines", "reason"), HOSTILE)
def test_a_hostile_file_is_refused_with_line_and_reason(
    hosts: str, run: Run, tmp_path: Path, lines: list[Any], reason: str
) -> None:
    (tmp_path / "file").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run("-s", hosts, "import", tmp_path / "file") == 1
    assert reason in run.err
    assert run.err.startswith(f"zab: {tmp_path / 'file'}: ") or reason.startswith("the end")
    assert not exists(hosts, "/r")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"path": "/r", "path": "/r", "data": "x"}', "a field stands twice"),
        (b"\xff", "it is not UTF-8"),
        (b"[" * 100_000, "it is no JSON"),
        (b'{"znodes": ' + b"9" * 10_000 + b"}", "it is no JSON"),
        (b"", "it is no JSON"),
    ],
)
def test_lines_that_are_no_objects(line: bytes, reason: str) -> None:
    with pytest.raises(SubtreeFileError, match=f"line 2: {reason}"):
        list(entries_of([("line 2", line)], "/r"))


def test_a_line_without_an_end_is_not_read_whole(run: Run, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(json.dumps(HEADER).encode() + b"\n")
        # Sparse: 64 GiB that nobody has.
        file.truncate(1 << 36)
    assert run("--jute-maxbuffer", "1000", "import", tmp_path / "file") == 1
    assert f"line 2: it is longer than {line_bytes_max(1000):,} bytes" in run.err


@pytest.mark.parametrize("file", ["none", "/dev/null/none"])
def test_a_file_that_cannot_be_read(run: Run, tmp_path: Path, file: str) -> None:
    assert run("import", tmp_path / file) == 1
    assert "it cannot be read" in run.err
    assert run("import", tmp_path) == 1
    assert "there is no @subtree in it: no export was finished here" in run.err


# Hostile directories.


@pytest.fixture
def directory(hosts: str, run: Run, tmp_path: Path) -> Path:
    does(hosts, make_app)
    assert run("-s", hosts, "export", "/app", "--dir", tmp_path / "dir") == 0
    return tmp_path / "dir"


def link(place: Path) -> None:
    (place / "a" / "@data").unlink()
    (place / "a" / "@data").symlink_to("/etc/passwd")


def link_directory(place: Path) -> None:
    (place / "b").symlink_to("/etc")


def pipe(place: Path) -> None:
    (place / "a" / "@data").unlink()
    os.mkfifo(place / "a" / "@data")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (link, "a/@data: it is no part of an exported subtree"),
        (link_directory, "b: it is no part of an exported subtree"),
        (pipe, "a/@data: it is no part of an exported subtree"),
        (lambda place: (place / "note.txt").touch(), "note.txt: it is no part of an exported subtree"),
        (lambda place: (place / "a" / "@subtree").touch(), "@subtree: it is no part of an exported subtree"),
        (lambda place: (place / "%2e%2e").mkdir(), "%2e%2e: no znode has this name, written so"),
        (lambda place: (place / "a%2Fb").mkdir(), "a%2Fb: no znode has this name, written so"),
        (lambda place: (place / "two words").mkdir(), "two words: no znode has this name, written so"),
        (lambda place: (place / "%00").mkdir(), "%00: no znode has this name, written so"),
        (lambda place: (place / "%FF").mkdir(), "%FF: no znode has this name, written so"),
        (lambda place: os.mkdir(os.fsencode(place) + b"/\xff"), "no znode has this name, written so"),
        (lambda place: (place / "a" / "@acl").unlink(), "a: there is no @acl"),
        (lambda place: (place / "a" / "@acl").write_text("{}"), "a/@acl: there is no acl"),
        (lambda place: (place / "a" / "@acl").write_text('{"acl": [], "x": 1}'), "a/@acl: 'x' is not known here"),
        (lambda place: (place / "a" / "@data").write_bytes(bytes(5_001)), "it is larger than 5,000 bytes"),
        (lambda place: (place / "@subtree").unlink(), "no export was finished here"),
        (lambda place: (place / "@subtree").write_text("{}"), "@subtree: znodes is not their number"),
        (lambda place: (place / "@subtree").write_text('{"znodes": true}'), "@subtree: znodes is not their number"),
        (lambda place: (place / "a" / "b" / "@acl").rename(place / "x"), "it is no part of"),
    ],
)
def test_a_hostile_directory_is_refused(
    hosts: str, run: Run, directory: Path, spoil: Callable[[Path], object], reason: str
) -> None:
    spoil(directory)
    assert run("--jute-maxbuffer", "5000", "-s", hosts, "import", directory, "/to") == 1
    assert reason in run.err
    assert not exists(hosts, "/to")


def test_a_directory_with_a_znode_more_or_less_is_refused(directory: Path) -> None:
    assert len(list(directory_entries(directory, 1_000))) == 5
    (directory / "more").mkdir()
    (directory / "@acl").rename(directory / "more" / "@acl")
    with pytest.raises(SubtreeFileError, match="there is no @acl"):
        list(directory_entries(directory, 1_000))
    (directory / "@acl").write_bytes((directory / "more" / "@acl").read_bytes())
    with pytest.raises(SubtreeFileError, match="there are 6 znodes in it, and not 5"):
        list(directory_entries(directory, 1_000))


def test_a_directory_is_for_its_owner_alone_and_written_once(hosts: str, run: Run, directory: Path) -> None:
    for place in [directory, *directory.rglob("*")]:
        assert place.stat().st_mode & 0o077 == 0
    assert run("-s", hosts, "export", "/app", "--dir", directory) == 1
    assert "there is something in it" in run.err
    assert run("-s", hosts, "export", "/app", "--dir", "/dev/null/x") == 1
    assert "it cannot be made" in run.err


def test_a_name_that_no_file_can_have_is_said(hosts: str, run: Run, tmp_path: Path) -> None:
    does(hosts, lambda zk: zk.create("/long"))
    does(hosts, lambda zk: zk.create("/long/" + "x" * 300))
    assert run("-s", hosts, "export", "/long", "--dir", tmp_path / "dir") == 1
    assert "File name too long; without --dir it can" in run.err
    assert run("-s", hosts, "export", "/long") == 0


def test_wrong_usage_is_2(run: Run, tmp_path: Path) -> None:
    assert run("import", "--merge", "--replace", tmp_path) == 2
