"""createIfNotExists between our client and our servers, which have it switched on."""

from collections.abc import Iterator

import pytest
import trio

from tests.cli.commands import Run
from tests.rigs.in_process import members_here
from zab.client import (
    Acl,
    BadArgumentsError,
    NoAuthError,
    NoNodeError,
    Permission,
    UnimplementedError,
    connect,
)
from zab.testing.ensemble import Ensemble

CONFIGURATION = {"tickTime": 200, "minSessionTimeout": 400, "maxSessionTimeout": 20_000}


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    """Three running servers."""
    with members_here(3, {**CONFIGURATION, "createIfNotExistsEnabled": "true"}) as servers:
        yield servers


async def test_a_znode_is_created_once_whichever_server_is_asked(ensemble: Ensemble) -> None:
    for index, host in enumerate(ensemble.hosts.split(",")):
        with trio.fail_after(60):
            async with connect(host) as zk:
                await zk.sync("/")
                assert await zk.create("/once", b"%d" % index, if_not_exists=True) == "/once"
                data, stat = await zk.get("/once")
                assert (data, stat.version) == (b"0", 0)


async def test_below_a_chroot_and_in_a_transaction(ensemble: Ensemble) -> None:
    with trio.fail_after(60):
        async with connect(ensemble.hosts) as zk:
            await zk.create("/root")
        async with connect(ensemble.hosts + "/root") as zk:
            async with zk.transaction() as t:
                t.create("/a", b"1", if_not_exists=True)
                t.create("/a", b"2", if_not_exists=True)
                t.create("/a/b", ephemeral=True, if_not_exists=True)
                t.check("/a", 0)
            assert t.results == ["/a", "/a", "/a/b", None]
            assert (await zk.get("/a"))[0] == b"1"
            stat = await zk.exists("/a/b")
            assert stat is not None
            assert stat.ephemeral_owner


async def test_it_is_refused_as_a_create_is(ensemble: Ensemble) -> None:
    closed = (Acl(Permission.READ, "world", "anyone"),)
    with trio.fail_after(60):
        async with connect(ensemble.hosts) as zk:
            await zk.create("/closed")
            await zk.create("/closed/there")
            await zk.set_acl("/closed", closed)
            for path in ("/closed/there", "/closed/new"):
                with pytest.raises(NoAuthError):
                    await zk.create(path, if_not_exists=True)
            with pytest.raises(NoNodeError):
                await zk.create("/missing/a", if_not_exists=True)
            for mode in ({"sequence": True}, {"container": True}, {"ttl_ms": 5}):
                with pytest.raises(BadArgumentsError, match="plain or an ephemeral"):
                    await zk.create("/a", if_not_exists=True, **mode)


def test_the_command(ensemble: Ensemble, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(capsys)
    for data in ("one", "two"):
        assert run("-s", ensemble.hosts, "create", "/command", data, "--if-not-exists") == 0, run.err
        assert run.out == "/command exists\n"
    assert run("-s", ensemble.hosts, "create", "/command", "three", "--if-not-exists", "--json") == 0
    assert run.out == '{"path": "/command", "stat": null}\n'
    assert run("-s", ensemble.hosts, "get", "/command") == 0
    assert run.out == "one\n"


async def test_a_server_that_has_it_off_does_not_know_it() -> None:
    with members_here(1, CONFIGURATION) as ensemble, trio.fail_after(60):
        async with connect(ensemble.hosts) as zk:
            with pytest.raises(UnimplementedError):
                await zk.create("/a", if_not_exists=True)
        async with connect(ensemble.hosts) as zk:
            assert await zk.exists("/a") is None
