"""`zab restore` to a moment of running ensembles' past: members of ours, and real ones of ZooKeeper, start from it.

What they serve is compared znode by znode with the state at that moment, and written to.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from datatree.acl import explicit, masked
from datatree.log.epochs import load_epochs
from datatree.znode import visible_cversion, visible_owner
from datatree.zookeeper.state import ZooKeeperState
from tests.pipeline.rigs.ensembles import Directories
from tests.pipeline.rigs.trees import local_state
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, zookeeper
from zab.cli.main import main
from zab.host.storage.disk import RealDisk
from zab.pipeline.inventory import inventory
from zab.pipeline.state.local_state import local_moment

pytestmark = pytest.mark.slow

CONFIG = "/zookeeper/config"
REFUSED_SECONDS = 2.0
"""Ten times what it takes to join, once the members have found each other."""
CONFIGURATION = {"tickTime": 300, "maxSessionTimeout": 60_000, "extendedTypesEnabled": "true"}
ZOOKEEPER_CONFIGURATION = {name: value for name, value in CONFIGURATION.items() if name != "extendedTypesEnabled"}


def dirs_of(directories: Directories) -> list[str]:
    return [f"e={member}" for member in directories.members]


def restore(directories: Directories, at: int, to: Path, size: int, kind: str) -> None:
    """Through the command, into the data directories that the servers of tests have."""
    targets = [word for number in range(1, size + 1) for word in ("--to", f"{number}={to}/server{number}/data")]
    with pytest.raises(SystemExit) as ending:
        main(["restore", *dirs_of(directories), "--at", hex(at), "--as", kind, *targets])
    assert not ending.value.code


def served(client: KazooClient) -> dict[str, tuple[Any, ...]]:
    """What a client reads: data, ACL, and the stat."""
    client.sync("/")
    found: dict[str, tuple[Any, ...]] = {}
    paths = ["/"]
    while paths:
        reads = [(p, client.get_async(p), client.get_acls_async(p), client.get_children_async(p)) for p in paths]
        paths = []
        for path, got, acls, children in reads:
            data, stat = got.get()
            acl = tuple((each.perms, each.id.scheme.encode(), each.id.id.encode()) for each in acls.get()[0])
            found[path] = (data, masked(acl), tuple(stat))
            paths += [f"{path.rstrip('/')}/{name}" for name in children.get()]
    del found[CONFIG]
    return found


def expected(state: ZooKeeperState) -> dict[str, tuple[Any, ...]]:
    found = {}
    for path, znode in state.znodes.items():
        count = len(state.children.get(path, ()))
        stat = (
            *(znode.czxid, znode.mzxid, znode.ctime, znode.mtime, znode.version),
            *(visible_cversion(znode.cversion, count), znode.aversion, visible_owner(znode.owner)),
            *(len(znode.data or b""), count, znode.pzxid),
        )
        # Who may not administrate a znode does not see the hashes of passwords.
        found[path.decode()] = (znode.data, masked(explicit(znode.acl)), stat)
    del found[CONFIG]
    return found


def check_served(ensemble: ZooKeeperEnsemble, state: ZooKeeperState, last_zxid: int) -> None:
    """The tree is there, and a write reaches every member, with a zxid that the old ensemble never had."""
    with kazoo_client(ensemble.members[-1].host) as client:
        assert served(client) == expected(state)
        client.create("/restored", b"new")
        assert client.get("/restored")[1].czxid > last_zxid
    for member in ensemble.members:
        with kazoo_client(member.host) as client:
            client.sync("/")
            assert client.get("/restored")[0] == b"new"
            assert len(client.get_children("/")) == len(state.children[b"/"]) + 1


Start = Callable[..., Any]


@pytest.mark.parametrize(
    ("source", "kind", "size"),
    [
        ("zab_directories", "native", 3),
        ("zookeeper_directories", "native", 1),
        pytest.param("zab_directories", "version-2", 1, marks=pytest.mark.java),
        pytest.param("zookeeper_directories", "version-2", 3, marks=pytest.mark.java),
    ],
)
def test_members_serve_what_was_restored(
    request: pytest.FixtureRequest, tmp_path: Path, source: str, kind: str, size: int
) -> None:
    directories: Directories = request.getfixturevalue(source)
    at = directories.killed_zxid
    restore(directories, at, tmp_path, size, kind)
    state = local_state(local_moment(dirs_of(directories), at))
    assert at < directories.last_zxid
    assert any(znode.owner > 0 for znode in state.znodes.values())
    start: Start = zab_servers if kind == "native" else zookeeper
    configuration = CONFIGURATION if kind == "native" else ZOOKEEPER_CONFIGURATION
    properties = {} if kind == "native" else {"properties": {"extendedTypesEnabled": "true"}}
    with start(size, directory=tmp_path, configuration=configuration, **properties) as ensemble:
        check_served(ensemble, state, directories.last_zxid)


def test_restored_directories_are_members_of_one_new_ensemble(zab_directories: Directories, tmp_path: Path) -> None:
    restore(zab_directories, zab_directories.last_zxid, tmp_path, 3, "native")
    (old,) = {member.lineage for member in inventory(dirs_of(zab_directories)).members}
    found = inventory([str(tmp_path)]).members
    assert [member.member for member in found] == ["1", "2", "3"]
    (new,) = {member.lineage for member in found}
    assert new != old
    snapshots = {member.directory.path: (member.directory / member.snapshots[0].name).read() for member in found}
    assert len(set(snapshots.values())) == 1
    again = local_state(local_moment([str(tmp_path)]))
    # While they were stopped one after the other, a session may have expired and another epoch begun.
    state = local_state(local_moment(dirs_of(zab_directories), zab_directories.last_zxid))
    assert expected(again) == expected(state)
    assert again.sessions == state.sessions
    epochs = [load_epochs(RealDisk(str(path), lock=False)) or (0, 0) for path in zab_directories.members]
    assert max(epochs) >= (zab_directories.last_zxid >> 32, 0)
    assert again.zxid == (max(epochs)[0] + 1) << 32 | 1


def test_a_member_of_the_old_ensemble_does_not_mix_in(zab_directories: Directories, tmp_path: Path) -> None:
    """Two restored members and one of the old lineage: the two serve the restored state, without the third."""
    restore(zab_directories, zab_directories.killed_zxid, tmp_path, 2, "native")
    state = local_state(local_moment(dirs_of(zab_directories), zab_directories.killed_zxid))
    names = {name.decode() for name in state.children[b"/"]}
    copy = zab_directories.copy(tmp_path / "old")
    (tmp_path / "server3").mkdir()
    copy.members[2].rename(tmp_path / "server3" / "data")
    with zab_servers(3, directory=tmp_path, configuration=CONFIGURATION, wait=False) as ensemble:
        ensemble.members[2].kill()
        ZooKeeperEnsemble(ensemble.members[:2]).wait()
        ensemble.members[2].start()
        with kazoo_client(ensemble.members[0].host) as client:
            client.create("/only-here", b"")
            deadline = time.monotonic() + PATIENCE_SECONDS
            while "link is up" not in ensemble.members[2].log_text():
                assert time.monotonic() < deadline, ensemble.members[2].log_text()
                time.sleep(0.02)
            time.sleep(REFUSED_SECONDS)
            assert ensemble.members[2].mode() == ""
            assert client.get("/only-here")[0] == b""
            assert set(client.get_children("/")) == {"only-here", *names}
