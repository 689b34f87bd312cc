"""The znode commands against running servers: what they print, and their exit codes."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from tests.cli.commands import Result, call, started
from tests.client.running import KINDS, running
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.cli.main import main
from zab.client import connect


@pytest.fixture(scope="module", params=KINDS)
def hosts(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param, 1, {}) as servers:
        yield servers.hosts


@pytest.fixture
def zab(hosts: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Runs one command below a chroot of the test's own."""
    chroot = "/" + request.node.name.partition("[")[0]

    async def make() -> None:
        async with connect(hosts) as zk:
            if await zk.exists(chroot) is None:
                await zk.create(chroot)

    trio.run(make)

    return lambda *words: call(capsys, "-s", hosts + chroot, *words)


def test_create_get_set_delete(zab: Callable[..., Result]) -> None:
    assert zab("create", "/a", "one") == (0, "Created /a\n", "")
    assert zab("get", "/a") == (0, "one\n", "")
    assert zab("set", "/a", "two", "-v", "0") == (0, "", "")
    assert zab("get", "/a").out == "two\n"
    assert zab("delete", "-v", "1", "/a") == (0, "", "")
    assert zab("get", "/a").code == 1


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["get", "/none"], "NONODE /none"),
        (["stat", "/none"], "NONODE /none"),
        (["ls", "/none"], "NONODE /none"),
        (["ls", "-R", "/none"], "NONODE /none"),
        (["delete", "-R", "/none"], "NONODE /none"),
        (["delete", "-R", "/"], "BADARGUMENTS /"),
        (["set", "/none", "x"], "NONODE /none"),
        (["create", "/none/a"], "NONODE /none/a"),
        (["create", "/a", "x", "auth::ra"], "INVALIDACL /a"),
        (["get", "none"], "BADARGUMENTS none"),
        (["listquota", "/none"], "NONODE /none: there is no quota"),
        (["setquota", "-n", "1", "/none"], "NONODE /none"),
        (["--auth", "nonsense:x", "get", "/"], "AUTHFAILED"),
    ],
)
def test_refusals_are_1_and_name_the_error(zab: Callable[..., Result], words: list[str], name: str) -> None:
    code, out, err = zab(*words)
    assert (code, out) == (1, "")
    assert f"\nzab: {name}" in f"\n{err}"


@pytest.mark.parametrize(
    "words",
    [
        ["set", "/a"],
        ["set", "/a", "x", "--file", "-"],
        ["set", "-b", "/a", "%"],
        ["create", "/a", "x", "nonsense"],
        ["delete", "-R", "-v", "1", "/a"],
        ["setquota", "/a"],
        ["setquota", "-n", "1", "-b", "1", "/a"],
        ["ls", "-R", "-w", "/"],
        ["--auth", "nonsense", "get", "/"],
    ],
)
def test_wrong_usage_is_2(zab: Callable[..., Result], words: list[str]) -> None:
    assert zab(*words).code == 2


def test_no_server_is_3(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["--wait", "2", "ls", "/", "--server", "127.0.0.1:1"])
    assert ending.value.code == 3
    told = capsys.readouterr().err
    assert "] Connection refused\nthe servers tried are 127.0.0.1:" in told
    assert told.endswith("; -s HOST:PORT, or ZAB_HOSTS, names others\n")


def test_malformed_hosts_are_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["-s", "host:nonsense", "ls", "/"])
    assert ending.value.code == 2
    assert "not a port" in capsys.readouterr().err


def test_hosts_come_from_the_environment(
    hosts: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ZAB_HOSTS", hosts)
    with pytest.raises(SystemExit) as ending:
        main(["ls", "/zookeeper"])
    assert not ending.value.code
    assert capsys.readouterr().out == "[config, quota]\n"


def test_kinds_of_znode(zab: Callable[..., Result]) -> None:
    assert zab("create", "-s", "/s-", "x").out == "Created /s-0000000000\n"
    assert zab("create", "-s", "-e", "/s-").out == "Created /s-0000000001\n"
    assert zab("create", "-c", "/c").out == "Created /c\n"
    assert zab("create", "-t", "60000", "/t").out == "Created /t\n"
    assert zab("create", "-p", "/x/y/z").out == "Created /x/y/z\n"
    # The ephemeral one went with the session of its command.
    assert zab("ls", "/").out == "[c, s-0000000000, t, x]\n"


def test_listings(zab: Callable[..., Result]) -> None:
    for path in ("/b", "/a", "/a/x"):
        zab("create", path)
    assert zab("ls", "/").out == "[a, b]\n"
    assert zab("ls", "-1", "/").out == "a\nb\n"
    assert zab("ls", "-1", "/b").out == ""
    assert zab("ls", "-R", "/").out == "/\n/a\n/a/x\n/b\n"
    assert zab("ls", "-s", "/").out.startswith("[a, b]\ncZxid = 0x")
    assert zab("count", "/").out == "3\n"
    listing = json.loads(zab("ls", "--json", "/").out)
    assert (listing["children"], listing["stat"]["num_children"]) == (["a", "b"], 2)
    assert json.loads(zab("ls", "-R", "--json", "/a").out)["paths"] == ["/a", "/a/x"]


def test_data_that_is_no_text(zab: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"\x00\xff")
    zab("create", "/a", "--file", str(tmp_path / "data"))
    assert zab("get", "-b", "/a").out == "AP8=\n"
    assert zab("get", "-x", "/a").out == "00 ff\n"
    assert json.loads(zab("get", "--json", "/a").out)["data"] == "AP8="
    zab("set", "-b", "/a", "AQI=")
    assert zab("get", "-x", "/a").out == "01 02\n"
    zab("create", "/null")
    assert zab("get", "/null").out == "null\n"
    assert json.loads(zab("get", "--json", "/null").out)["data"] is None


def test_data_from_standard_input_and_back(hosts: str) -> None:
    zab = [sys.executable, "-m", "zab.cli.main", "-s", hosts]
    data = b"\xfe\n\xff"
    subprocess.run([*zab, "create", "/stdin", "--file", "-"], input=data, capture_output=True, check=True)
    done = subprocess.run([*zab, "get", "--raw", "/stdin"], capture_output=True, check=True)
    assert done.stdout == data


def test_stat(zab: Callable[..., Result]) -> None:
    zab("create", "/a", "xyz")
    assert "dataLength = 3\nnumChildren = 0\n" in zab("stat", "/a").out
    assert "dataVersion = 1\n" in zab("set", "-s", "/a", "x").out
    assert json.loads(zab("stat", "--json", "/a").out)["stat"]["version"] == 1
    assert json.loads(zab("set", "--json", "/a", "x").out)["stat"]["version"] == 2


def test_whole_subtrees(zab: Callable[..., Result]) -> None:
    for path in ("/a", "/a/b", "/a/b/c", "/a/d", "/e"):
        zab("create", path)
    assert zab("delete", "/a").err.startswith("zab: NOTEMPTY /a")
    assert zab("deleteall", "-b", "2", "/a") == (0, "", "")
    assert zab("ls", "/").out == "[e]\n"


def test_acls(zab: Callable[..., Result]) -> None:
    zab("create", "/a", "x", "world:anyone:cdrwa")
    zab("create", "/a/b")
    assert zab("getAcl", "/a").out == "'world,'anyone\n: cdrwa\n"
    assert zab("setAcl", "-s", "/a", "world:anyone:ra").out.count("aclVersion = 1\n") == 1
    assert json.loads(zab("acl", "get", "--json", "/a").out)["acl"] == [
        {"scheme": "world", "id": "anyone", "permissions": "ra"}
    ]
    assert zab("set", "/a", "y").err.startswith("zab: NOAUTH /a")
    assert zab("acl", "set", "-R", "/a", "world:anyone:cra").code == 0
    assert zab("getAcl", "/a/b").out.endswith(": cra\n")
    assert zab("setAcl", "-v", "7", "/a", "world:anyone:ra").err.startswith("zab: BADVERSION /a")


ADMIN_ENTRY = "digest:admin:fvr2cB/fjGeAiX8g1aGhUm3ZICk="


@pytest.mark.parametrize(
    ("acl", "reason"),
    [
        ("digest:alice:pw:r", "digest:alice:…: a password stands where its hash belongs"),
        ("world:anyone:cdrwa,digest:alice:pw:cdrwa", "digest:alice:…: a password stands where its hash belongs"),
        (f"{ADMIN_ENTRY}:cdrwa", "the ACL gives you no permission (zab whoami says who you are)"),
        ("ip:192.0.2.0/24:cdrwa", "the ACL gives you no permission"),
        ("world:anyone:", "the ACL gives you no permission"),
        ("world:anyone:r", "the ACL gives nobody ADMIN, so only the superuser could change it again"),
        (f"world:anyone:cdrw,{ADMIN_ENTRY}:cdrw", "the ACL gives nobody ADMIN"),
    ],
)
def test_an_acl_that_locks_its_caller_out_is_refused_unless_forced(
    zab: Callable[..., Result], acl: str, reason: str
) -> None:
    zab("create", "/own", "x")
    for words in (["create", "/locked", "x", acl], ["acl", "set", "/own", acl], ["acl", "set", "-R", "/own", acl]):
        code, out, err = zab(*words)
        assert (code, out) == (1, "")
        assert err.startswith(f"zab: {reason}")
        assert "nothing was changed; --force sets it all the same" in err
    assert zab("get", "/locked").err.startswith("zab: NONODE")
    assert zab("getAcl", "/own").out == "'world,'anyone\n: cdrwa\n"
    if acl != "world:anyone:":  # servers refuse it
        assert zab("create", "--force", "/locked", "x", acl).code == 0
        assert zab("acl", "set", "--force", "/own", acl).code == 0
        assert zab("acl", "get", "--json", "/own").err.startswith("zab: NOAUTH") or acl.startswith("world")
    zab("delete", "/locked")
    zab("delete", "/own")


@pytest.mark.parametrize(
    "acl", [f"{ADMIN_ENTRY}:a,world:anyone:r", "ip:127.0.0.0/8:cdrwa", "ip:127.0.0.1:ra", "auth::cdrwa"]
)
def test_an_acl_that_its_caller_matches_is_set(zab: Callable[..., Result], acl: str) -> None:
    words = ["--auth", "digest:bob:pw"]
    assert zab(*words, "create", "/own", "x", acl).code == 0
    assert zab("delete", "/own").code == 0


def test_a_user_sets_an_acl_of_its_own_hash(zab: Callable[..., Result]) -> None:
    user = ["--auth", "digest:admin:admin"]
    assert zab(*user, "create", "/own", "x", f"{ADMIN_ENTRY}:cdrwa").code == 0


def test_identities(zab: Callable[..., Result]) -> None:
    assert zab("whoami").out == "Auth scheme: User\nip: 127.0.0.1\n"
    out = zab("--auth", "digest:bob:pw", "whoami", "--json").out
    assert {"scheme": "digest", "user": "bob"} in json.loads(out)["identities"]
    zab("--auth", "digest:bob:pw", "create", "/mine", "secret", "auth::cdrwa")
    assert zab("get", "/mine").err.startswith("zab: NOAUTH /mine")
    assert zab("--auth", "digest:bob:pw", "get", "/mine").out == "secret\n"


def test_sync_and_config(zab: Callable[..., Result]) -> None:
    assert zab("sync") == (0, "", "")
    assert zab("config").code == 0


def test_quotas(hosts: str, zab: Callable[..., Result], capsys: pytest.CaptureFixture[str]) -> None:
    """Quotas are outside of a chroot, so the whole tree is used here."""

    def run(*words: str) -> Result:
        with pytest.raises(SystemExit) as ending:
            main(["-s", hosts, *words])
        captured = capsys.readouterr()
        return Result(ending.value.code or 0, captured.out, captured.err)  # type: ignore[arg-type]

    top = "/test_quotas/q"
    run("create", top, "12345")
    run("create", f"{top}/below")
    assert run("setquota", "-n", "5", top) == (0, "", "")
    assert run("setquota", "-B", "100", top) == (0, "", "")
    listed = run("listquota", top).out.splitlines()
    assert listed[0] == f"absolute path is /zookeeper/quota{top}/zookeeper_limits"
    assert listed[1] == f"Output quota for {top} count=5,bytes=-1=;byteHardLimit=100;countHardLimit=-1"
    assert listed[2].startswith(f"Output stat for {top} count=2,bytes=5")
    assert "above it, has a quota" in run("setquota", "-n", "1", f"{top}/below").err
    assert "below it, has a quota" in run("setquota", "-n", "1", "/test_quotas").err
    assert "no quota can be set here" in run("setquota", "-n", "1", "/zookeeper/quota").err
    assert run("delquota", "-B", top).code == 0
    assert run("listquota", top).out.splitlines()[1] == f"Output quota for {top} count=5,bytes=-1"
    assert run("delquota", top).code == 0
    assert run("listquota", top).code == 1
    assert run("delquota", top).code == 1
    assert run("get", "/zookeeper/quota/test_quotas").code == 1


# Commands that wait run as processes, while the test changes the tree.


def test_watch_follows_a_subtree(hosts: str, zab: Callable[..., Result]) -> None:
    chroot = "/test_watch_follows_a_subtree"
    with started("-s", hosts + chroot, "watch", "--recursive", "-n", "3", "/") as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert process.stderr.readline() == "watching /\n"
        zab("create", "/a")
        zab("set", "/a", "x")
        zab("delete", "/a")
        lines = process.stdout.read().splitlines()
        assert process.wait(PATIENCE_SECONDS) == 0
    assert [line.rpartition(" zxid=")[0] for line in lines] == ["CREATED /a", "DATA_CHANGED /a", "DELETED /a"]


def test_an_interrupt_ends_a_watch(hosts: str) -> None:
    with started("-s", hosts, "watch", "/") as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 130
        assert "Traceback" not in process.stderr.read()


def test_a_one_shot_watch_waits_for_its_event(hosts: str, zab: Callable[..., Result]) -> None:
    chroot = "/test_a_one_shot_watch_waits_for_its_event"
    zab("create", "/a", "before")
    with started("-s", hosts + chroot, "get", "-w", "/a") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "before\n"
        zab("set", "/a", "after")
        out = process.stdout.read()
        assert process.wait(PATIENCE_SECONDS) == 0
    assert "type:NodeDataChanged path:/a" in out


def test_a_reader_that_has_enough_is_no_crash(hosts: str, zab: Callable[..., Result]) -> None:
    with started("-s", hosts, "watch", "/") as process:
        assert process.stderr is not None
        assert process.stdout is not None
        process.stderr.readline()
        process.stdout.close()
        zab("create", "/a")
        deadline = time.monotonic() + PATIENCE_SECONDS
        number = 0
        # The root's own children change only here.
        while process.poll() is None and time.monotonic() < deadline:
            trio.run(_touch, hosts, f"/test_pipe_{number}")
            number += 1
            # An event is enough to notice by; the process only has to come to it.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
        assert process.wait(PATIENCE_SECONDS) == 1
        assert "Traceback" not in process.stderr.read()


async def _touch(hosts: str, path: str) -> None:
    async with connect(hosts) as zk:
        await zk.create(path)
        await zk.delete(path)


@pytest.mark.parametrize("words", [["-R", "--page", "1"], ["-w", "--after", "x"], ["-R", "--prefix", "x"]])
def test_pages_are_of_the_names_of_one_znode(zab: Callable[..., Result], words: list[str]) -> None:
    assert zab("ls", *words, "/").code == 2


def test_ls_page_by_page(zab: Callable[..., Result], hosts: str, request: pytest.FixtureRequest) -> None:
    zab("create", "/d")
    if "zookeeper" in request.node.name:
        code, out, err = zab("ls", "--page", "2", "/d")
        assert (code, out) == (1, "")
        assert "this server has no pages of children" in err
        return
    for name in ("a-1", "a 2", "b-1", "b-2"):
        zab("create", f"/d/{name}")
    assert zab("ls", "--page", "2", "/d") == (0, "[a 2, a-1]\n", "zab: more follow: --after a-1\n")
    assert zab("ls", "--page", "1", "/d") == (0, "[a 2]\n", "zab: more follow: --after 'a 2'\n")
    assert zab("ls", "--page", "2", "--after", "a-1", "/d") == (0, "[b-1, b-2]\n", "")
    assert zab("ls", "-1", "--prefix", "b", "/d") == (0, "b-1\nb-2\n", "")
    assert zab("ls", "--after", "a-1", "--prefix", "a", "/d") == (0, "[]\n", "")
    row = json.loads(zab("ls", "--json", "--page", "3", "/d").out)
    assert (row["children"], row["more"], row["stat"]["num_children"]) == (["a 2", "a-1", "b-1"], True, 4)
    assert zab("ls", "--page", "0", "/d").code == 2
