"""The ports of a server follow the configuration that is in force, and so does its file."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio
import trio.testing

from tests.rigs.waiting import PATIENCE_SECONDS
from zab.configuration.dynamic import Ensemble
from zab.configuration.reconfiguration import ensemble_of
from zab.host.loop.listener import open_listener
from zab.member.settings.config import Config
from zab.member.settings.zoo_cfg import parse
from zab.server import own_configuration
from zab.server.binding import Sockets, bind
from zab.server.config_file import load
from zab.server.dynamic_file import write_configuration
from zab.server.own_configuration import OwnConfiguration, Port, files_say
from zab.server.quorum_host import quorum_addresses
from zab.testing.kit.ports import free_ports


def ensemble(version: int, quorum: int, election: int, client: int, sid: int = 1) -> Ensemble:
    line = f"server.{sid}=127.0.0.1:{quorum}:{election}:participant;127.0.0.1:{client}"
    other = "server.9=127.0.0.1:1:2:participant"
    return ensemble_of(f"{line}\n{other}\nversion={version:x}".encode())


class Server:
    """Its sockets, and who was told of others."""

    def __init__(self, config: Config, sockets: Sockets) -> None:
        self.sockets = sockets
        self.moved: list[str] = []
        self._has_moved = trio.Event()
        self.written: list[int] = []
        self._has_written = trio.Event()
        ports = {name: self._noting(name) for name in ("client", "quorum", "election")}
        self.own = OwnConfiguration(config, config.ensemble, sockets, ports)

    def _noting(self, name: str) -> Port:
        def listen(sock: socket.socket) -> None:
            self.moved.append(f"{name} {sock.getsockname()[1]}")
            self._has_moved.set()

        return Port(listen, socket.socket.close)

    async def wait_for(self, count: int) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            while len(self.moved) < count:
                self._has_moved = trio.Event()
                await self._has_moved.wait()

    def write(self, file: str, ensemble: Ensemble, server_id: int) -> str | None:
        """In a thread."""
        path = write_configuration(file, ensemble, server_id)
        trio.from_thread.run_sync(self._note_written, ensemble.version)
        return path

    def _note_written(self, version: int) -> None:
        self.written.append(version)
        self._has_written.set()

    async def wait_until_written(self, version: int) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            while version not in self.written:
                self._has_written = trio.Event()
                await self._has_written.wait()


@asynccontextmanager
async def running(path: Path, ports: list[int]) -> AsyncIterator[Server]:
    quorum, election, client = ports
    own = f"dataDir={path}\nreconfigEnabled=true\nquorum.insecure=true\ninitLimit=10\nsyncLimit=5"
    text = f"{own}\n{ensemble(0, quorum, election, client).lines}"
    file = path / "zoo.cfg"
    file.write_text(text)
    config = parse(text, str(file), my_id=1)
    sockets = await bind(config, await quorum_addresses(config))
    try:
        async with trio.open_nursery() as nursery:
            server = Server(config, sockets)
            own_configuration.write_configuration = server.write
            nursery.start_soon(server.own.run)
            yield server
            nursery.cancel_scope.cancel()
    finally:
        own_configuration.write_configuration = write_configuration
        sockets.close()


def reached(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


async def test_ports_that_are_others_are_moved_and_no_others(tmp_path: Path) -> None:
    quorum, election, client, new_client, new_quorum = free_ports(5)
    async with running(tmp_path, [quorum, election, client]) as server:
        server.own.comes_into_force(ensemble(7, new_quorum, election, new_client))
        await server.wait_for(2)
        assert server.moved == [f"client {new_client}", f"quorum {new_quorum}"]
        assert reached(new_client)
        assert not reached(client)
        assert [port for _, port in server.sockets.client] == [new_client]
        await server.wait_until_written(7)


async def test_a_port_that_is_taken_leaves_the_server_where_it_is(
    tmp_path: Path,
) -> None:
    quorum, election, client, taken, new_quorum = free_ports(5)
    with open_listener("127.0.0.1", taken):
        async with running(tmp_path, [quorum, election, client]) as server:
            server.own.comes_into_force(ensemble(7, quorum, election, taken))
            server.own.comes_into_force(ensemble(8, new_quorum, election, taken))
            await server.wait_for(1)
            server.own.comes_into_force(ensemble(9, quorum, election, client))
            await server.wait_for(2)
            assert server.moved == [f"quorum {new_quorum}", f"quorum {quorum}"]
            assert reached(client)


async def test_who_is_in_it_no_more_stays_where_it_is_and_can_be_started_again(tmp_path: Path) -> None:
    quorum, election, client, new_client, *others = free_ports(7)
    (tmp_path / "myid").write_text("1")
    file = tmp_path / "zoo.cfg"
    async with running(tmp_path, [quorum, election, client]) as server:
        before = file.read_text()
        server.own.comes_into_force(ensemble(7, *others, sid=2))
        await trio.testing.wait_all_tasks_blocked()
        assert server.moved == []
        assert file.read_text() == before
        server.own.comes_into_force(ensemble(8, quorum, election, new_client))
        await server.wait_until_written(8)
        assert server.moved == [f"client {new_client}"]
        assert server.written == [8]
        assert load(file).client_address == ("127.0.0.1", new_client)
        written = file.read_text()
        server.own.comes_into_force(ensemble(9, *others, sid=2))
        await trio.testing.wait_all_tasks_blocked()
        assert file.read_text() == written
        assert load(file).ensemble.version == 8


async def test_an_open_server_moves_to_no_address_that_others_reach(tmp_path: Path) -> None:
    """A server that accepts members without proof listens only on addresses of this machine."""
    quorum, election, client, new_client = free_ports(4)
    async with running(tmp_path, [quorum, election, client]) as server:
        own = server.own
        own._config = attrs.evolve(own._config, quorum=attrs.evolve(own._config.quorum, insecure=False))
        elsewhere = ensemble_of(
            str(ensemble(7, quorum, election, new_client)).replace("127.0.0.1:1:", "192.0.2.1:1:").encode()
        )
        own.comes_into_force(elsewhere)
        own.comes_into_force(elsewhere)
        await server.wait_until_written(7)
        assert server.moved == []
        assert reached(client)


def test_whether_the_files_say_what_is_in_force(tmp_path: Path) -> None:
    """They decide where the history has no configuration, as after a restore."""
    file = tmp_path / "zoo.cfg"
    old, new = ensemble(0, 11, 12, 13), ensemble(0x100000005, 11, 12, 14)
    text = f"dataDir={tmp_path}\nreconfigEnabled=true\nquorum.insecure=true\ninitLimit=10\nsyncLimit=5\n{old.lines}"
    file.write_text(text)
    (tmp_path / "myid").write_text("1")
    config = load(file)
    assert files_say(config, config.ensemble)
    assert not files_say(config, new)
    write_configuration(str(file), new, 1)
    assert files_say(config, new)
    Path(f"{file}.dynamic.{new.version:x}").unlink()
    assert not files_say(config, new), "what cannot be read says nothing"
    file.unlink()
    assert not files_say(config, new)
    without = attrs.evolve(config, file="")
    assert files_say(without, old)
    assert not files_say(without, new), "it would start with the configuration that it was made with"
