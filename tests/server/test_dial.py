"""How far a member reaches that believes without proof: not beyond its machine."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
import trio

from tests.rigs.zab_server import unstarted
from tests.server.transfers import greeting
from zab.host.loop.dial import Address, BeyondThisMachineError, dial
from zab.host.loop.greeting import Greeting
from zab.host.loop.listener import open_listener
from zab.member.membership.greeting import PURPOSES, party
from zab.member.settings.zoo_cfg import parse
from zab.server.quorum_host import quorum_addresses
from zab.service.failure import ServerFailedError
from zab.testing.kit.ports import free_ports
from zab.wire.handshake import Secret

BEYOND = "192.0.2.7"
"""An address of a network for documentation, which nobody has."""


class Names(trio.abc.HostnameResolver):
    """A name service, in which names may change."""

    def __init__(self, **names: list[str]) -> None:
        self.names = names

    async def getaddrinfo(self, host, port, *_how, **_more):  # type: ignore[no-untyped-def]
        if isinstance(host, bytes):
            host = host.decode()
        if host not in self.names:
            raise socket.gaierror("no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port or 0)) for each in self.names[host]]

    async def getnameinfo(self, sockaddr, flags):  # type: ignore[no-untyped-def]
        raise NotImplementedError


@pytest.mark.parametrize("host", [BEYOND, "other", "both"])
async def test_who_believes_without_proof_dials_no_other_machine(host: str) -> None:
    trio.socket.set_custom_hostname_resolver(Names(other=[BEYOND], both=["127.0.0.1", BEYOND]))
    [port] = free_ports(1)
    with open_listener("127.0.0.1", port), pytest.raises(BeyondThisMachineError, match=f"{host} is not this machine"):
        await dial(Address(host, port), is_local_only=True)


async def test_name_of_this_machine_is_asked_for_at_each_dial() -> None:
    names = Names(one=["127.0.0.9", "127.0.0.1"])
    trio.socket.set_custom_hostname_resolver(names)
    [port] = free_ports(1)
    with open_listener("127.0.0.1", port):
        await (await dial(Address("one", port), is_local_only=True)).aclose()
        names.names["one"] = [BEYOND]
        with pytest.raises(BeyondThisMachineError):
            await dial(Address("one", port), is_local_only=True)
        del names.names["one"]
        with pytest.raises(OSError, match="no such name"):
            await dial(Address("one", port), is_local_only=True)


@pytest.mark.parametrize(
    ("is_open", "is_insecure", "is_local_only"),
    [(True, False, True), (True, True, False), (False, False, False), (False, True, False)],
)
def test_proof_reaches_further_and_so_does_the_word_of_the_operator(
    is_open: bool, is_insecure: bool, is_local_only: bool
) -> None:
    me = party(1, [Secret(bytes(32))], is_open=is_open)
    nobody: Callable[..., None] = lambda *_: None  # noqa: E731
    assert Greeting(PURPOSES, lambda: [2], lambda: me, nobody, is_insecure=is_insecure).is_local_only == is_local_only  # type: ignore[arg-type]
    assert not greeting(1).is_local_only


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"server.9={BEYOND}:2888:3888", rf"server\.9: {BEYOND} is not this machine alone"),
        ("server.9=0.0.0.0:2888:3888", r"server\.9: 0\.0\.0\.0 is not this machine alone"),
        ("server.9=nowhere.invalid:2888:3888", r"nowhere\.invalid has no address \(.+\), so it counts as another"),
        ("quorumListenOnAllIPs=true", "quorumListenOnAllIPs=true"),
    ],
)
async def test_what_reaches_beyond_this_machine_without_proof_is_refused(line: str, reason: str) -> None:
    trio.socket.set_custom_hostname_resolver(Names(**{each: [each] for each in (BEYOND, "0.0.0.0", "127.0.0.1")}))
    servers = [f"server.{sid}=127.0.0.1:{sid}:9{sid}" for sid in (1, 2, 3)]
    text = "\n".join(["dataDir=/d", "clientPort=0", "initLimit=5", "syncLimit=5", *servers, line])
    with pytest.raises(ServerFailedError, match=reason):
        await quorum_addresses(parse(f"{text}\n", "zoo.cfg", my_id=1))


@pytest.mark.slow
def test_such_a_start_is_refused_with_2_and_the_lines_to_add(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with unstarted(tmp_path, 3, f"server.9={BEYOND}:2888:3888") as ensemble:
        member = ensemble.members[0]
        assert member.start().wait() == 2
        assert f"{member.config}: server.9: {BEYOND} is not this machine alone" in member.log_text()
        assert "zab secret FILE" in member.log_text()
        assert "quorum.secretFile=FILE" in member.log_text()
        assert "quorum.insecure=true" in member.log_text()
        with member.config.open("a") as file:
            file.write("quorum.insecure=true\n")
        member.start()
        member.wait_until_it_says("listening")
        member.stop()
