"""`zab changes`: what it prints, where it begins, and how it ends."""

import json
import signal
from collections.abc import Iterator

import pytest
import trio

from tests.cli.commands import started
from tests.client.running import running
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.cli.main import main
from zab.cli.znodes.changes import change_line
from zab.cli.znodes.json_values import change_fields
from zab.client import Change, ChangeKind, connect

CREATED = Change(0x100000005, 2, 1_795_212_016_123, -1, ChangeKind.CREATED, "/a", b"x", 0, 7)


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with running("zab", 1, {}) as servers:
        yield servers.hosts


async def change(hosts: str, root: str) -> int:
    """Some changes; the zxid before them."""
    async with connect(hosts) as zk:
        await zk.create(root)
        since = zk.last_zxid
        await zk.create(f"{root}/a", b"hello")
        await zk.set(f"{root}/a", b"\xff\n")
        await zk.delete(f"{root}/a")
        return since


def test_a_change_is_a_line() -> None:
    assert change_line(CREATED) == (
        "CREATED /a zxid=0x100000005 part=2 time=2026-11-20T22:00:16.123Z session=0xffffffffffffffff version=0 "
        'ephemeral data="x"'
    )
    deleted = CREATED._replace(kind=ChangeKind.DELETED, data=None, version=-1, ephemeral_owner=0)
    assert change_line(deleted).endswith("session=0xffffffffffffffff")
    nothing = CREATED._replace(kind=ChangeKind.DATA_CHANGED, data=None, version=-3, time=1 << 62)
    assert change_line(nothing).endswith("version=-3 ephemeral data=null")
    hostile = CREATED._replace(data=b"\x1b]0;x\x07\xff\n\x9b", path="/\u009b")
    assert change_line(hostile).isprintable()


@pytest.mark.parametrize(
    ("data", "text", "encoding"), [(b"x", "x", "utf-8"), (None, None, None), (b"\xff", "/w==", "base64")]
)
def test_a_change_is_an_object(data: bytes | None, text: str | None, encoding: str | None) -> None:
    assert change_fields(CREATED._replace(data=data)) == {
        "zxid": "0x100000005",
        "part": 2,
        "time": "2026-11-20T22:00:16.123Z",
        "session": "0xffffffffffffffff",
        "kind": "CREATED",
        "path": "/a",
        "data": text,
        "encoding": encoding,
        "version": 0,
        "ephemeral_owner": "0x7",
    }
    deleted = change_fields(CREATED._replace(kind=ChangeKind.DELETED, session=0, version=-1, ephemeral_owner=0))
    names = ("data", "encoding", "session", "version", "ephemeral_owner")
    assert [deleted[name] for name in names] == [None] * 5, "it is there, with null for what it has not"


@pytest.mark.parametrize("form", [hex, str])
def test_changes_after_a_zxid(hosts: str, form, capsys: pytest.CaptureFixture[str]) -> None:
    root = f"/after-{form.__name__}"
    since = trio.run(change, hosts, root)
    with pytest.raises(SystemExit) as ending:
        main(["-s", hosts, "changes", "--since", form(since), "--prefix", root, "--count", "3"])
    assert not ending.value.code
    captured = capsys.readouterr()
    assert captured.err == f"following {root} from {since:#x}\n"
    lines = captured.out.splitlines()
    assert [line.split(" zxid=")[0] for line in lines] == [
        f"CREATED {root}/a",
        f"DATA_CHANGED {root}/a",
        f"DELETED {root}/a",
    ]
    assert lines[1].endswith('version=1 data="\\\\xff\\n"')


def test_changes_as_they_come_until_ctrl_c(hosts: str) -> None:
    with started("-s", hosts, "changes", "--json") as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert process.stderr.readline().startswith("following / from 0x")
        trio.run(change, hosts, "/live")
        told = [json.loads(process.stdout.readline()) for _ in range(4)]
        assert [(each["kind"], each["path"]) for each in told] == [
            ("CREATED", "/live"),
            ("CREATED", "/live/a"),
            ("DATA_CHANGED", "/live/a"),
            ("DELETED", "/live/a"),
        ]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 130
        assert process.stdout.read() == ""
        assert "Traceback" not in process.stderr.read()


def test_a_zxid_from_the_future_is_refused_in_a_sentence(hosts: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["-s", hosts, "changes", "--since", "0x700000000"])
    assert ending.value.code == 1
    assert "zab: the changes after zxid 0x700000000 cannot be told: the history ends at" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--since", "x"], ["--since", "-1"], ["--since", str(1 << 63)], ["-n", "0"]])
def test_wrong_usage_is_2(hosts: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["-s", hosts, "changes", *words])
    assert ending.value.code == 2
    assert capsys.readouterr().out == ""


@pytest.mark.java
def test_zookeeper_has_no_such_feed(capsys: pytest.CaptureFixture[str]) -> None:
    with running("zookeeper", 1, {}) as servers, pytest.raises(SystemExit) as ending:
        main(["-s", servers.hosts, "changes"])
    assert ending.value.code == 1
    assert "zab: UNIMPLEMENTED: this server has no feed of changes" in capsys.readouterr().err
