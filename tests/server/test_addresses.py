"""Members with several addresses, and with addresses of IPv6: which is dialled, and where they are listened for."""

from __future__ import annotations

import contextlib
import json
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.cli.commands import call
from tests.host.loop.far_server import SECRET
from tests.rigs.relay import network
from tests.rigs.zab_server import unstarted
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember
from tests.server.transfers import served_by
from zab.host.loop.dial import Address, address_of, dial, first_of
from zab.host.loop.greeting import Greeting
from zab.host.loop.listener import open_listener
from zab.member.membership.greeting import PURPOSES, Purpose, party
from zab.member.settings.zoo_cfg import parse
from zab.server.binding import bind
from zab.server.quorum_host import quorum_addresses
from zab.server.snapshot_transfer import TransferServer
from zab.service.failure import ServerFailedError
from zab.simulator.world.disk import FaultyDisk
from zab.testing.kit.ports import free_ports

LONG = 3600.0


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")


# ------------------------------------------------------------------------------------------------- which one is dialled


class Stream(trio.abc.AsyncResource):
    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_closed = False

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        self.is_closed = True


class Dials:
    """What becomes of each port, as a test says."""

    def __init__(self, *, refused: tuple[int, ...] = (), silent: tuple[int, ...] = ()) -> None:
        self.refused, self.silent = refused, silent
        self.begun: list[int] = []
        self.opened: list[Stream] = []

    async def __call__(self, address: Address) -> Stream:
        self.begun.append(address.port)
        if address.port in self.silent:
            await trio.sleep_forever()
        if address.port in self.refused:
            raise ConnectionRefusedError(f"port {address.port}")
        self.opened.append(Stream(address))
        return self.opened[-1]


def three() -> Address:
    return address_of([("a", 1), ("b", 2), ("c", 3)])


async def reached(dials: Dials, next_after_seconds: float) -> int:
    return (await first_of(three(), dials, next_after_seconds, Stream.close)).address.port


async def test_first_in_the_line_that_is_reached_is_used() -> None:
    dials = Dials()
    assert await reached(dials, LONG) == 1
    assert dials.begun == [1]


async def test_one_that_refuses_is_not_waited_for(autojump_clock) -> None:  # type: ignore[no-untyped-def]
    began = trio.current_time()
    assert await reached(Dials(refused=(1, 2)), LONG) == 3
    assert trio.current_time() == began


async def test_one_that_is_silent_is_waited_for_as_long_as_was_said(autojump_clock) -> None:  # type: ignore[no-untyped-def]
    dials = Dials(silent=(1, 2))
    began = trio.current_time()
    with trio.fail_after(LONG):
        assert await reached(dials, 1.5) == 3
    assert trio.current_time() - began == 3.0


async def test_without_a_wait_all_are_dialled_at_once(autojump_clock) -> None:  # type: ignore[no-untyped-def]
    dials = Dials(silent=(1, 2))
    began = trio.current_time()
    assert await reached(dials, 0.0) == 3
    assert sorted(dials.begun) == [1, 2, 3]
    assert trio.current_time() == began


async def test_where_none_is_reached_it_is_said_of_the_first() -> None:
    with pytest.raises(ConnectionRefusedError, match="port 1"):
        await reached(Dials(refused=(1, 2, 3)), LONG)


async def test_of_two_that_are_open_at_the_same_time_one_is_closed() -> None:
    opened: list[Stream] = []
    together = trio.Event()

    async def connect(address: Address) -> Stream:
        if len(opened) < 2:
            with trio.CancelScope(shield=True):
                opened.append(Stream(address))
                if len(opened) == 2:
                    together.set()
                await together.wait()
            return opened[-1] if address.port == 2 else opened[0]
        raise ConnectionRefusedError

    used = await first_of(address_of([("a", 1), ("b", 2)]), connect, 0.0, Stream.close)
    [other] = [each for each in opened if each is not used]
    assert other.is_closed
    assert not used.is_closed


async def test_what_is_open_is_closed_when_nobody_waits_any_more() -> None:
    opened: list[Stream] = []
    with trio.CancelScope() as scope:

        async def connect(address: Address) -> Stream:
            opened.append(Stream(address))
            scope.cancel()
            return opened[-1]

        await first_of(three(), connect, 0.0, Stream.close)
    assert scope.cancelled_caught
    assert opened
    assert all(each.is_closed for each in opened)


async def test_one_that_takes_connections_and_is_silent_is_passed() -> None:
    """A relay before a dead server does so."""
    transfers = TransferServer(FaultyDisk(), 1, LONG, lambda _agreed: True)
    patient = party(2, [SECRET], is_open=False)
    asking = Greeting(PURPOSES, lambda: [1], lambda: patient, lambda *_: None, next_address_after_seconds=0.01)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        silent = Address("127.0.0.1", mute.getsockname()[1])
        async with served_by(transfers) as there:
            with trio.fail_after(60):
                both = Address(silent.host, silent.port, (there,))
                talk, _ = await asking.reach(both, Purpose.SNAPSHOT, 1)
            assert isinstance(talk.stream, trio.SocketStream)
            assert talk.stream.socket.getpeername()[1] == there.port
            assert talk.agreed.sid == 1
            await talk.stream.aclose()


@needs_ipv6
async def test_addresses_of_ipv6_are_dialled() -> None:
    with open_listener("::1", 0) as listening:
        port = listening.getsockname()[1]
        stream = await dial(Address("::1", port), is_local_only=True)
        assert stream.socket.getpeername()[:2] == ("::1", port)
        await stream.aclose()


# --------------------------------------------------------------------------------------------- where it is listened for


def config_of(tmp_path: Path, *lines: str):  # type: ignore[no-untyped-def]
    text = "\n".join(
        [f"dataDir={tmp_path}", "clientPort=0", "initLimit=5", "syncLimit=5", "multiAddress.enabled=true", *lines]
    )
    return parse(f"{text}\nsecureClientPort=1\nssl.keyStore.location=/k\nssl.clientAuth=none\n", "zoo.cfg", my_id=1)


def own_line(*hosts: str) -> tuple[list[int], list[str]]:
    ports = free_ports(2 * len(hosts))
    places = "|".join(f"{host}:{ports[2 * n]}:{ports[2 * n + 1]}" for n, host in enumerate(hosts))
    return ports, [f"server.1={places}", "server.2=127.0.0.1:1:2", "server.3=127.0.0.1:3:4"]


async def bound(config, monkeypatch):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(type(config), "secure_client_address", None)
    sockets = await bind(config, await quorum_addresses(config))
    found = [[each.getsockname()[:2] for each in kind.values()] for kind in (sockets.quorum, sockets.election)]
    sockets.close()
    return found


async def test_member_listens_on_all_of_its_addresses(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    ports, lines = own_line("127.0.0.1", "localhost")
    found = await bound(config_of(tmp_path, *lines), monkeypatch)
    assert [[port for _, port in kind] for kind in found] == [ports[0::2], ports[1::2]]


async def test_address_that_cannot_be_had_is_done_without(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    ports, lines = own_line("192.0.2.7", "127.0.0.1")
    lines += ["quorum.insecure=true", "electionPortBindRetry=1"]
    found = await bound(config_of(tmp_path, *lines), monkeypatch)
    assert found == [[("127.0.0.1", ports[2])], [("127.0.0.1", ports[3])]]


async def test_member_that_has_none_of_its_addresses_does_not_start(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    _, lines = own_line("192.0.2.7", "192.0.2.8")
    lines += ["quorum.insecure=true", "electionPortBindRetry=1"]
    with pytest.raises(ServerFailedError, match=r"cannot listen on 192\.0\.2\.8"):
        await bound(config_of(tmp_path, *lines), monkeypatch)


async def test_of_the_addresses_of_all_members_none_may_be_of_another_machine(tmp_path) -> None:  # type: ignore[no-untyped-def]
    _, lines = own_line("127.0.0.1")
    lines[1] = "server.2=127.0.0.1:1:2|192.0.2.7:1:2"
    with pytest.raises(ServerFailedError, match=r"server\.2: 192\.0\.2\.7 is not this machine alone"):
        await quorum_addresses(config_of(tmp_path, *lines))


# --------------------------------------------------------------------------------------------------------- real members


@pytest.mark.slow
@pytest.mark.parametrize("how", ["gone", "cut"])
def test_members_go_on_over_the_second_network_when_the_first_is_gone(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each reaches the others through relays at first; then these are gone, or break, and take connections and carry
    nothing."""
    ports = free_ports(12)
    quorum = {sid: (ports[4 * sid - 4], ports[4 * sid - 3]) for sid in (1, 2, 3)}
    second = {sid: (ports[4 * sid - 2], ports[4 * sid - 1]) for sid in (1, 2, 3)}
    more = ["multiAddress.enabled=true", "multiAddress.reachabilityCheckTimeoutMs=200", "syncLimit=10"]
    with network(quorum) as net, unstarted(tmp_path, 3, *more) as ensemble:
        for member in ensemble.members:
            first = net.lines(member.server_id)
            places = {sid: [first[f"server.{sid}"], at(second[sid])] for sid in (1, 2, 3)}
            start_at(member, places)
        ensemble.wait()
        assert net.carried_bytes > 0
        written(capsys, ensemble, "/before")
        if how == "gone":
            net.stop()
        else:
            for one, other in ((1, 2), (1, 3), (2, 3)):
                net.part(one, other)
                net.break_links(one, other)
        carried = net.carried_bytes
        ensemble.wait()
        written(capsys, ensemble, "/after")
        assert net.carried_bytes == carried


@pytest.mark.slow
@pytest.mark.parametrize("how", ["refuses", "is silent"])
@pytest.mark.parametrize("is_first", [True, False])
def test_members_find_each_other_where_one_address_is_dead_from_the_start(
    how: str, is_first: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For each member the others have an address at which nobody listens, or something that takes connections and never
    says a word."""
    ports = free_ports(6)
    more = ["multiAddress.enabled=true", "multiAddress.reachabilityCheckTimeoutMs=200"]
    with contextlib.ExitStack() as stack:
        dead = free_ports(6)
        if how == "is silent":
            mute = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(6)]
            dead = [each.getsockname()[1] for each in mute]
        ensemble = stack.enter_context(unstarted(tmp_path, 3, *more))
        for member in ensemble.members:
            places = {}
            for sid in (1, 2, 3):
                there, not_there = (at((each[2 * sid - 2], each[2 * sid - 1])) for each in (ports, dead))
                both = [not_there, there] if is_first else [there, not_there]
                places[sid] = [there] if sid == member.server_id else both
            start_at(member, places)
        ensemble.wait()
        written(capsys, ensemble, "/found")


def at(ports: tuple[int, int]) -> str:
    return "127.0.0.1:{}:{}".format(*ports)


def start_at(member: ZooKeeperMember, places: dict[int, list[str]]) -> None:
    """With these addresses of each member in its file."""
    lines = [each for each in member.config.read_text().splitlines() if not each.startswith("server.")]
    lines += [f"server.{sid}={'|'.join(each)}" for sid, each in places.items()]
    member.config.write_text("\n".join(lines) + "\n")
    member.start()


def written(capsys: pytest.CaptureFixture[str], ensemble: ZooKeeperEnsemble, path: str) -> None:
    """Retried while the members elect; all show it."""
    assert call(capsys, "--wait", "60", "-s", ensemble.hosts, "create", path, "x").code == 0
    for member in ensemble.members:
        assert call(capsys, "--wait", "60", "-s", f"127.0.0.1:{member.client_port}", "sync", path).code == 0


@needs_ipv6
@pytest.mark.slow
def test_whole_ensemble_on_addresses_of_ipv6(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with on_ipv6(tmp_path) as (ensemble, admin, metrics):
        hosts = ",".join(f"[::1]:{member.client_port}" for member in ensemble.members)
        assert call(capsys, "-s", hosts, "create", "/six", "data").code == 0
        for member in ensemble.members:
            alone = f"[::1]:{member.client_port}"
            assert call(capsys, "-s", alone, "sync", "/six").code == 0
            assert call(capsys, "-s", alone, "get", "/six").out == "data\n"
        assert "server.1=[::1]:" in call(capsys, "-s", hosts, "4lw", "conf").out
        assert call(capsys, "-s", hosts, "4lw", "srvr").out.count("Mode: ") == 3
        status = call(capsys, "-s", alone, "status", "--json")
        assert status.code == 0, status
        assert [f"[::1]:{member.client_port}" in status.out for member in ensemble.members] == [True] * 3
        file = ensemble.members[0].config
        doctor = call(capsys, "doctor", file, "--syncs", "0", "--admin", f"[::1]:{admin}")
        assert doctor.out.count("port [::1]:") == 4, doctor
        assert (doctor.code, "server.1: ::1 is ::1" in doctor.out) == (0, True), doctor
        with urllib.request.urlopen(f"http://[::1]:{admin}/commands/voting_view", timeout=60) as answer:
            view = json.load(answer)["current_config"]["1"]
        assert view["serverAddresses"][0].startswith("[::1]:")
        assert view["electionAddresses"][0].startswith("[::1]:")
        with urllib.request.urlopen(f"http://[::1]:{metrics}/metrics", timeout=60) as answer:
            assert b"znode_count" in answer.read()


@contextlib.contextmanager
def on_ipv6(tmp_path: Path) -> Iterator[tuple[ZooKeeperEnsemble, int, int]]:
    """Three members, and the ports of the first for commands and metrics over HTTP."""
    *ports, admin, metrics = free_ports(8)
    http = [
        "admin.serverAddress=[::1]",
        f"admin.serverPort={admin}",
        "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
        "metricsProvider.httpHost=[::1]",
        f"metricsProvider.httpPort={metrics}",
    ]
    with unstarted(tmp_path, 3) as ensemble:
        for member in ensemble.members:
            lines = [each for each in member.config.read_text().splitlines() if not each.startswith("server.")]
            lines = [each for each in lines if not each.startswith("clientPort")]
            lines += [
                f"server.{n + 1}=[::1]:{ports[2 * n]}:{ports[2 * n + 1]}:participant;[::1]:{other.client_port}"
                for n, other in enumerate(ensemble.members)
            ]
            lines += http if member.server_id == 1 else ["admin.enableServer=false"]
            member.config.write_text("\n".join(lines) + "\n")
            member.start()
        for member in ensemble.members:
            member.wait_until_it_says("serving=true")
        yield ensemble, admin, metrics
