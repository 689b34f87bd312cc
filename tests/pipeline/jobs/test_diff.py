"""What differs between two states, and the commands that make one out of the other, run against a real ensemble."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.client import KazooClient

from datatree.zookeeper.snapshot import SnapshotZnode
from datatree.zookeeper.state import ZooKeeperState
from tests.pipeline.rigs.txn_rows import moment, znode_frame
from tests.rigs.zab_server import zab_servers
from zab.pipeline.decoding.acl_text import acl_text, parse_acl_text
from zab.pipeline.jobs.diff import DIFF, Change, _can_say, lines_of_creations, lines_of_deletions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPEN = "world:anyone:cdrwa"
CONTAINER = -(1 << 63)
TTL_MINUTE = -(1 << 56) + 60_000
DIGEST = "digest:ann:6DY5WhzOfGsWQ1XFuIyzxkpwdPo=:r,world:anyone:cdrwa"


def created(path: str, data: bytes | None = b"x", acl: str = OPEN, owner: int = 0) -> Change:
    return Change(path, "created", [], None, data, acl, None, owner, None, 0)


def changed(path: str, *fields: str, data: bytes | None = b"x", acl: str = OPEN, **more: Any) -> Change:
    given = {"owner_before": 0, "owner_after": 0, "children_before": 0, "children_after": 0} | more
    return Change(path, "changed", list(fields), b"old", data, acl, **given)


def deleted(path: str, owner: int = 0) -> Change:
    return Change(path, "deleted", [], b"x", None, None, owner, None, 0, None)


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (created("/a", b"hello world"), ["zab create -- /a 'hello world'"]),
        (created("/it's", b""), ["zab create -- '/it'\"'\"'s' ''"]),
        (created("/a", b"-x"), ["zab create -- /a -x"]),
        (created("/a", "dätä".encode()), ["zab create -- /a 'dätä'"]),
        (created("/a", None), ["zab create -- /a"]),
        (created("/a", b"\x00\xff"), ["zab create --base64 -- /a AP8="]),
        (created("/a", b"two\nlines"), ["zab create --base64 -- /a dHdvCmxpbmVz"]),
        (created("/a", b"x", DIGEST), [f"zab create --force -- /a x {DIGEST}"]),
        (created("/a", None, DIGEST), ["zab create -- /a", f"zab acl set --force -- /a {DIGEST}"]),
        (created("/a", owner=CONTAINER), ["zab create --container -- /a x"]),
        (created("/a", owner=TTL_MINUTE), ["zab create --ttl 60000 -- /a x"]),
        (created("/a", owner=0x1234), ["# /a: an ephemeral of session 0x1234, which alone can make it"]),
        (created("/a", acl=""), ["zab create -- /a x", "# /a: its ACL is '', which no command can set"]),
        (changed("/a", "data", data=b"new"), ["zab set -- /a new"]),
        (changed("/a", "data", data=b"\x7f"), ["zab set --base64 -- /a fw=="]),
        (changed("/a", "acl", acl=DIGEST), [f"zab acl set --force -- /a {DIGEST}"]),
        (changed("/a", "data", "acl", acl=DIGEST), ["zab set -- /a x", f"zab acl set --force -- /a {DIGEST}"]),
        (changed("/a", "acl", acl="world:anyone:33"), ["# /a: its ACL is 'world:anyone:33', which no command can set"]),
        (changed("/a", "acl", acl="x509:a\\,b:r"), ["# /a: its ACL is 'x509:a\\\\,b:r', which no command can set"]),
        (changed("/a", "data", data=None), ["zab delete -- /a", "zab create -- /a"]),
        (
            changed("/a", "data", data=None, children_before=1, children_after=2),
            ["# /a: without data now; a command can only make the data empty", "zab set -- /a ''"],
        ),
        (changed("/a", "owner", owner_after=CONTAINER), ["zab delete -- /a", "zab create --container -- /a x"]),
        (
            changed("/a", "owner", owner_before=0x12, owner_after=0x34),
            ["zab delete -- /a", "# /a: an ephemeral of session 0x34, which alone can make it"],
        ),
        (
            changed("/a", "owner", owner_after=CONTAINER, children_before=1, children_after=1),
            ["# /a: another kind of znode now, which cannot be created again because it keeps children"],
        ),
        (changed("/a"), []),
        (deleted("/a"), ["zab delete -- /a"]),
        (deleted("/a;rm -rf\n"), ["zab delete -- '/a;rm -rf\n'"]),
        (deleted("/a", CONTAINER), ["zab delete -- /a"]),
        (deleted("/a", 0x12), ["# /a: gone then, and it ends with session 0x12"]),
        (deleted("/a", TTL_MINUTE), ["# /a: gone then, and it ends by itself 60000 ms after its last change"]),
    ],
)
def test_lines_of_one_change(change: Change, lines: list[str]) -> None:
    assert [*lines_of_deletions([change]), *lines_of_creations([change])] == lines


def test_what_ends_by_itself_is_deleted_with_its_parent() -> None:
    """Which could not be deleted before."""
    changes = [
        deleted("/p/ttl/mine", 0x12),
        deleted("/p/ttl", TTL_MINUTE),
        deleted("/p/mine", 0x12),
        deleted("/p-q/mine", 0x12),
        deleted("/p"),
        deleted("/", 0x12),
    ]
    assert list(lines_of_deletions(changes)) == [
        *("zab delete -- /p/ttl/mine", "zab delete -- /p/ttl", "zab delete -- /p/mine", "zab delete -- /p"),
        *("# /p-q/mine: gone then, and it ends with session 0x12", "# /: gone then, and it ends with session 0x12"),
    ]


def test_an_escaped_acl_is_not_what_the_command_takes() -> None:
    assert _can_say("digest:ann:r,world:anyone:cdrwa")
    assert not any(map(_can_say, ("", r"digest:a\\b:r", "world:anyone:63")))


def test_notes_stay_on_their_line() -> None:
    (line,) = lines_of_creations([created("/a\nrm -rf x", owner=5)])
    assert "\n" not in line


def znode(path: str, data: bytes | None = b"", acl: str = OPEN, owner: int = 0, zxid: int = 1) -> SnapshotZnode:
    return SnapshotZnode(path.encode(), data, parse_acl_text(acl), zxid, zxid, 5, 5, 0, 0, 0, owner, zxid)


def tree(*znodes: SnapshotZnode) -> list[SnapshotZnode]:
    """These and the reserved ones, by path."""
    all_of_them = {each.path: each for each in (*ZooKeeperState.empty().znodes.values(), *znodes)}
    return [all_of_them[path] for path in sorted(all_of_them)]


BEFORE = tree(
    znode("/keep", b"same"),
    znode("/keep/inside", b"\x00\x01"),
    znode("/change", b"old"),
    znode("/guard", b"g"),
    znode("/gone"),
    znode("/gone/child", b"c"),
    znode("/gone/child/deep"),
    znode("/kind", b"k"),
    znode("/nulled", b"something"),
    znode("/again", b"a"),
    znode("/big", b"b"),
    znode("/mine", b"", owner=0x77),
)
AFTER = tree(
    znode("/keep", b"same"),
    znode("/keep/inside", b"\x00\x01"),
    znode("/change", bytes(range(256)), zxid=9),
    znode("/guard", b"g", acl=DIGEST),
    znode("/kind", b"k", owner=CONTAINER, zxid=9),
    znode("/kind/child", "ünïcödé 'quoted' \"text\" $HOME `x`".encode(), zxid=9),
    znode("/nulled", None, zxid=9),
    znode("/again", b"a", zxid=9),
    znode("/big", bytes(200_000), zxid=9),
    znode("/new", b"-n", acl=DIGEST, zxid=9),
    znode("/new/white space", b"line\nline", zxid=9),
    znode("/new/ttl", b"", owner=TTL_MINUTE, zxid=9),
)


@pytest.mark.spark
def test_rows_say_what_is_different(spark: SparkSession) -> None:
    from zab.pipeline.jobs.diff import diff

    changes = diff(znode_frame(spark, BEFORE, 5), znode_frame(spark, AFTER, 9))
    assert changes.columns == [column.name for column in DIFF]
    rows = {row.path: row for row in changes.collect()}
    kinds = {path: (row.change, row.fields, row.recreated) for path, row in rows.items()}
    assert kinds == {
        "/change": ("changed", ["data"], True),
        "/guard": ("changed", ["acl"], False),
        "/gone": ("deleted", [], False),
        "/gone/child": ("deleted", [], False),
        "/gone/child/deep": ("deleted", [], False),
        "/kind": ("changed", ["owner"], True),
        "/kind/child": ("created", [], False),
        "/nulled": ("changed", ["data"], True),
        "/again": ("changed", [], True),
        "/big": ("changed", ["data"], True),
        "/mine": ("deleted", [], False),
        "/new": ("created", [], False),
        "/new/white space": ("created", [], False),
        "/new/ttl": ("created", [], False),
    }
    assert (rows["/change"].data_before, rows["/change"].zxid) == (b"old", 9)
    assert rows["/change"].time == moment(5).replace(tzinfo=None)
    assert (rows["/guard"].acl_before, rows["/guard"].acl_after) == (OPEN, DIGEST)
    assert (rows["/gone"].children_before, rows["/gone"].children_after) == (1, None)
    assert diff(znode_frame(spark, AFTER, 9), znode_frame(spark, AFTER, 9)).count() == 0


@contextmanager
def living(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts)
    client.start()
    yield client
    client.stop()
    client.close()


def content(hosts: str) -> dict[str, tuple[bytes | None, str]]:
    """Data and ACL of every znode but the reserved ones."""
    found: dict[str, tuple[bytes | None, str]] = {}
    pending = ["/"]
    with living(hosts) as client:
        _walk(client, pending, found)
    return found


def _walk(client: KazooClient, pending: list[str], found: dict[str, tuple[bytes | None, str]]) -> None:
    while pending:
        path = pending.pop()
        pending += [f"{path.rstrip('/')}/{name}" for name in client.get_children(path) if name != "zookeeper"]
        acl = tuple((each.perms, each.id.scheme.encode(), each.id.id.encode()) for each in client.get_acls(path)[0])
        found[path] = (client.get(path)[0], acl_text(acl))


def run_lines(lines: list[str], hosts: str) -> None:
    """A process for each command would take half a second each: `zab shell` runs those that need no pipe."""
    environment = os.environ | {"ZAB_HOSTS": hosts, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    plain = "".join(f"{line.removeprefix('zab ')}\n" for line in lines if not line.startswith("printf"))
    piped = "\n".join(["set -e", *(line for line in lines if line.startswith("printf"))])
    for command, text in ((["zab", "shell"], plain), (["sh"], piped)):
        done = subprocess.run(
            command, input=text, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_commands_make_the_second_state_out_of_the_first(spark: SparkSession) -> None:
    from zab.pipeline.jobs.diff import diff, diff_commands

    empty, before, after = (znode_frame(spark, each, 5) for each in (tree(), BEFORE, AFTER))
    with zab_servers(1, configuration={"extendedTypesEnabled": "true"}) as ensemble, living(ensemble.hosts) as owner:
        for old, new, wanted in ((empty, before, BEFORE), (before, after, AFTER)):
            lines = list(diff_commands(diff(old, new)))
            run_lines(lines, ensemble.hosts)
            if wanted is BEFORE:
                owner.create("/mine", b"", ephemeral=True)
            else:
                assert any(line.startswith("# /mine: gone then") for line in lines)
                owner.delete("/mine")
            names = {each.path.decode() for each in wanted}
            found = content(ensemble.hosts)
            assert found.keys() == {path for path in names if not path.startswith("/zookeeper")}
            for each in wanted:
                path = each.path.decode()
                if path in found:
                    assert found[path][0] == each.data, path
                    assert parse_acl_text(found[path][1]) == each.acl, path
    assert any(line.startswith("# /mine") for line in diff_commands(diff(empty, before)))
    assert any(line.startswith("printf") for line in lines)
