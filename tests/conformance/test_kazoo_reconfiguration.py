"""Reconfiguration as kazoo asks for it: the scenarios of its own suite, and a watch on the configuration."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadArgumentsError, BadVersionError, NoAuthError
from kazoo.protocol.states import EventType

from datatree.acl import digest_identity
from tests.rigs.kazoo_client import Recorder, kazoo_client
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.testing.kit.ports import free_ports

SUPER = "super:test"


@pytest.fixture(scope="module")
def ensemble() -> Iterator[ZooKeeperEnsemble]:
    _, hashed = digest_identity(SUPER.encode(), "sha1")
    key = "DigestAuthenticationProvider.superDigest"
    with zab_servers(3, configuration={"reconfigEnabled": "true", key: hashed.decode()}) as ensemble:
        yield ensemble


@pytest.fixture
def zk(ensemble: ZooKeeperEnsemble) -> Iterator[KazooClient]:
    """A port that nobody has."""
    with kazoo_client(ensemble.hosts) as kazoo:
        yield kazoo


@pytest.fixture
def superuser(ensemble: ZooKeeperEnsemble) -> Iterator[KazooClient]:
    with kazoo_client(ensemble.hosts, auth_data=[("digest", SUPER)]) as kazoo:
        yield kazoo


def observer(sid: int) -> str:
    """The line of one that does not run."""
    quorum, election, port = free_ports(3)
    return f"server.{sid}=127.0.0.1:{quorum}:{election}:observer;127.0.0.1:{port}"


def test_nobody_may(zk: KazooClient) -> None:
    with pytest.raises(NoAuthError):
        zk.reconfig(joining=observer(99), leaving=None, new_members=None)


def test_an_observer_joins_and_leaves(zk: KazooClient, superuser: KazooClient) -> None:
    joining = observer(100)
    data, _ = superuser.reconfig(joining=joining, leaving=None, new_members=None)
    assert joining.encode() in data
    shown, stat = superuser.get("/zookeeper/config")
    assert shown == data
    assert f"version={stat.mzxid:x}".encode() in data
    data, _ = superuser.reconfig(joining=None, leaving="100", new_members=None)
    assert joining.encode() not in data
    version = int(data.decode().rpartition("version=")[2], 16)
    with pytest.raises(BadVersionError):
        zk.reconfig(joining=joining, leaving=None, new_members=None, from_config=version + 1)


def test_what_is_no_server_is_refused(zk: KazooClient) -> None:
    with pytest.raises(BadArgumentsError):
        zk.reconfig(joining="some thing", leaving=None, new_members=None)


def test_all_at_once_and_a_watch_tells_of_it(superuser: KazooClient) -> None:
    seen = Recorder()
    data, _ = superuser.get("/zookeeper/config", watch=seen)
    members = data.decode().rpartition("\nversion=")[0]
    after, _ = superuser.reconfig(joining=None, leaving=None, new_members=members)
    assert after.decode().rpartition("\nversion=")[0] == members
    assert after != data
    assert seen.wait() == [(EventType.CHANGED, "/zookeeper/config")]
