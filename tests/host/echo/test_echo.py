"""The echo service, by itself and on the real host: with TLS, logins, links, metrics and an audit log.

Its simulated host is in `tests/simulator/world/test_echo.py`.
"""

import shutil
import ssl
import threading
from contextlib import asynccontextmanager
from random import Random
from struct import unpack

import httpx
import pytest
import trio

from tests.host.echo.echo import (
    CLOSED_AT_ONCE,
    CLOSED_WHEN_SENT,
    DIAL_AGAIN_MS,
    ENTRY_BYTES_MAX,
    IDLE_MS,
    NEVER,
    REALM,
    UNSENT_BYTES_MAX,
    URI,
    WAITING_MAX,
    Connection,
    DialFailed,
    Durable,
    Echo,
    LinkDown,
    LinkUp,
    Told,
)
from tests.host.echo.echo_log import LOG_FILE, EchoLog
from tests.host.echo.service import HOST, Config, serve
from tests.rigs.certificates import Certificates
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.configuration.fields import read
from zab.host.files.secret_file import make_secret_file
from zab.host.storage.disk import RealDisk
from zab.service.audit import Refusal
from zab.service.failure import ServerFailedError
from zab.testing.kit.ports import free_ports
from zab.wire.client_protocol import ClientBytes, ClientClosed, ClientConnected
from zab.wire.frames import FrameReader, frame
from zab.wire.login.digest_md5 import key_of, respond


def an_echo(count=0, *, users=None, dials=()):
    return Echo(count, Random(1), users or {}, dials)


def answers_in(payloads):
    return [(unpack(">Q", payload[:8])[0], payload[8:]) for payload in payloads]


def frames_of(connection):
    return FrameReader(1 << 24).feed(b"".join(connection.take_output()))


def replies(connection):
    return answers_in(frames_of(connection))


def connected(echo, count=1):
    connections = [Connection("127.0.0.1") for _ in range(count)]
    assert echo.step(0, map(ClientConnected, connections)).append == []
    return connections


# ------------------------------------------------------------------------------------------------------------- the step


def test_nothing_is_answered_before_it_is_durable():
    echo = an_echo(7)
    [connection] = connected(echo)
    assert echo.step(1, [ClientBytes(connection, frame(b"a") + frame(b"b"))]).append == [b"a", b"b"]
    assert connection.out == []
    assert list(echo.step(2, [Durable(8)]).dirty) == [connection]
    assert replies(connection) == [(8, b"a")]
    echo.step(3, [Durable(9)])
    assert replies(connection) == [(9, b"b")]


def test_a_turn_is_one_append_and_each_gets_its_own_answers():
    echo = an_echo(0)
    one, other = connected(echo, 2)
    effects = echo.step(
        1, [ClientBytes(one, frame(b"1")), ClientBytes(other, frame(b"2")), ClientBytes(one, frame(b"3"))]
    )
    assert effects.append == [b"1", b"2", b"3"]
    echo.step(2, [Durable(3)])
    assert (replies(one), replies(other)) == ([(1, b"1"), (3, b"3")], [(2, b"2")])


def test_a_connection_that_closed_keeps_its_place_in_the_log():
    echo = an_echo(0)
    one, other = connected(echo, 2)
    echo.step(1, [ClientBytes(one, frame(b"1")), ClientBytes(other, frame(b"2")), ClientClosed(one)])
    echo.step(2, [ClientBytes(one, frame(b"late")), Durable(2)])
    assert replies(other) == [(2, b"2")]


def test_a_bad_length_closes_after_the_answers_to_what_came_before():
    echo = an_echo(0)
    [connection] = connected(echo)
    assert echo.step(1, [ClientBytes(connection, frame(b"x") + b"\xff" * 4)]).append == [b"x"]
    assert connection.closing == CLOSED_WHEN_SENT


def test_a_connection_with_too_much_on_its_way_is_paused_until_some_is_durable():
    echo = an_echo(0)
    [connection] = connected(echo)
    echo.step(1, [ClientBytes(connection, frame(b"x") * (WAITING_MAX + 2))])
    assert connection.paused
    echo.step(2, [Durable(1)])
    assert connection.paused
    assert list(echo.step(3, [Durable(2)]).dirty) == [connection]
    assert not connection.paused


def test_who_does_not_take_answers_is_closed():
    echo = an_echo(0)
    [connection] = connected(echo)
    echo.step(1, [ClientBytes(connection, frame(bytes(ENTRY_BYTES_MAX)))])
    connection.unsent_bytes = UNSENT_BYTES_MAX
    echo.step(2, [Durable(1)])
    assert connection.closing == CLOSED_AT_ONCE


def test_who_is_silent_is_closed_in_time():
    echo = an_echo(0)
    one, other = connected(echo, 2)
    echo.step(5, [ClientBytes(one, b"\0")])
    assert echo.next_deadline() == IDLE_MS
    echo.step(IDLE_MS, [])
    assert (one.closing, other.closing) == (0, CLOSED_AT_ONCE)
    assert echo.next_deadline() == IDLE_MS + 5
    echo.step(IDLE_MS + 5, [])
    assert one.closing == CLOSED_AT_ONCE
    assert echo.next_deadline() == NEVER


def test_who_logs_in_may_send_and_the_server_proves_itself_too():
    echo = an_echo(users={"al": key_of("al", REALM, "pw")})
    [connection] = connected(echo)
    [challenge] = frames_of(connection)
    said = respond(challenge, user="al", password="pw", cnonce=b"c", uri=URI)
    effects = echo.step(1, [ClientBytes(connection, frame(said.message) + frame(b"a"))])
    assert (effects.append, effects.refusals) == ([b"a"], [])
    [proof] = frames_of(connection)
    assert said.is_answered_by(proof)


@pytest.mark.parametrize(("user", "password"), [("al", "no"), ("bo", "pw")])
def test_who_cannot_log_in_is_closed_and_audited_and_nothing_of_it_is_logged(user, password):
    echo = an_echo(users={"al": key_of("al", REALM, "pw")})
    [connection] = connected(echo)
    [challenge] = frames_of(connection)
    said = respond(challenge, user=user, password=password, cnonce=b"c", uri=URI)
    effects = echo.step(1, [ClientBytes(connection, frame(said.message) + frame(b"a"))])
    assert effects.append == []
    assert connection.closing == CLOSED_AT_ONCE
    [refusal] = effects.refusals
    assert isinstance(refusal, Refusal)
    assert (refusal.operation, refusal.host) == ("login", "127.0.0.1")


def test_servers_tell_each_other_how_many_entries_they_have():
    echo = an_echo(5, dials=[1])
    assert echo.step(0, []).dials == [1]
    assert echo.step(1, [LinkUp(7, 1)]).tells == {7: 5}
    echo.step(2, [Told(7, 9)])
    assert [(figure.name, figure.value, figure.key) for figure in echo.figures()][-1] == ("entries_of", 9, "1")
    [connection] = connected(echo)
    echo.step(3, [ClientBytes(connection, frame(b"x"))])
    assert echo.step(4, [Durable(6)]).tells == {7: 6}


def test_a_link_that_is_lost_is_dialled_again_by_who_dialled_it():
    echo = an_echo(dials=[1])
    echo.step(0, [])
    echo.step(1, [LinkUp(7, 1), LinkUp(8, 3)])
    assert echo.step(2, [LinkDown(7), LinkDown(8)]).dials == []
    assert echo.next_deadline() == 2 + DIAL_AGAIN_MS
    assert echo.step(2 + DIAL_AGAIN_MS, []).dials == [1]
    assert echo.next_deadline() == NEVER
    echo.step(2 + DIAL_AGAIN_MS, [DialFailed(1)])
    assert echo.next_deadline() == 2 + 2 * DIAL_AGAIN_MS


# -------------------------------------------------------------------------------------------------------------- the log


@pytest.mark.parametrize("tail", [b"", b"\0", bytes(3000), b"\0\0\0\x09\0\0\0\0entry", frame(b"\0\0\0\0other")])
def test_what_follows_the_last_entry_that_checks_is_dropped(tmp_path, tail):
    disk = RealDisk(str(tmp_path))
    log = EchoLog(disk)
    assert log.perform([[b"1", b""], [b"3"]]) == [Durable(3)]
    log.close()
    with (tmp_path / LOG_FILE).open("ab") as file:
        file.write(tail)
    log = EchoLog(disk)
    assert log.entries == [b"1", b"", b"3"]
    assert log.perform([[b"4"]]) == [Durable(4)]
    log.close()
    assert EchoLog(disk).entries == [b"1", b"", b"3", b"4"]
    disk.close()


# ----------------------------------------------------------------------------------------------------------- all of it


class Client:
    def __init__(self, stream):
        self.stream = stream
        self.frames = FrameReader(1 << 24)
        self.payloads = []

    async def say(self, *entries):
        await self.stream.send_all(b"".join(map(frame, entries)))

    async def hear(self, count):
        return answers_in(await self.frames_heard(count))

    async def frames_heard(self, count):
        with trio.fail_after(PATIENCE_SECONDS):
            while len(self.payloads) < count:
                data = await self.stream.receive_some()
                assert data, "closed"
                self.payloads += self.frames.feed(bytes(data))
        heard, self.payloads = self.payloads[:count], self.payloads[count:]
        return heard


class Server:
    """One server of the service, as its file describes it."""

    def __init__(self, directory, lines="", log_of=EchoLog):
        directory.mkdir(parents=True, exist_ok=True)
        self.port, self.metrics_port = free_ports(2)
        ports = f"clientPort={self.port}\nmetrics.httpPort={self.metrics_port}\nmetrics.httpHost={HOST}\n"
        self.config = read(Config, f"dataDir={directory}\n{ports}{lines}")
        self.log = None
        self.is_up = trio.Event()
        self.streams = []
        self._log_of = log_of

    async def run(self):
        await serve(self.config, self, log_of=self._opened)

    def _opened(self, disk):
        self.log = self._log_of(disk)
        return self.log

    # As `zab.host.process.run_service.Supervised`.

    def opened(self, _loop):
        pass

    def ready(self):
        self.is_up.set()

    async def connect(self, context=None):
        with trio.fail_after(PATIENCE_SECONDS):
            stream = await trio.open_tcp_stream(HOST, self.port)
        self.streams.append(stream)
        return Client(stream if context is None else trio.SSLStream(stream, context, server_hostname="localhost"))

    async def metrics(self):
        async with httpx.AsyncClient() as client:
            return (await client.get(f"http://{HOST}:{self.metrics_port}/metrics")).text

    async def metrics_with(self, *lines):
        """Metrics that have all these lines."""
        with trio.fail_after(PATIENCE_SECONDS):
            while True:
                text = await self.metrics()
                if set(lines) <= set(text.splitlines()):
                    return text
                await trio.sleep(0.01)


@asynccontextmanager
async def running(*servers):
    """These servers, until the block ends; they listen when it begins."""
    try:
        async with trio.open_nursery() as nursery:
            for server in servers:
                nursery.start_soon(server.run)
                with trio.fail_after(PATIENCE_SECONDS):
                    await server.is_up.wait()
            yield
            nursery.cancel_scope.cancel()
    finally:
        for server in servers:
            for stream in server.streams:
                stream.socket.close()


async def test_entries_are_echoed_with_their_numbers_and_a_restart_goes_on(tmp_path):
    server = Server(tmp_path)
    async with running(server):
        assert server.log.entries == []
        client = await server.connect()
        await client.say(b"one", b"", b"three" * 100_000)
        assert await client.hear(3) == [(1, b"one"), (2, b""), (3, b"three" * 100_000)]
    server = Server(tmp_path)
    async with running(server):
        assert server.log.entries == [b"one", b"", b"three" * 100_000]
        client = await server.connect()
        await client.say(b"four")
        assert await client.hear(1) == [(4, b"four")]


async def test_many_clients_share_one_log(tmp_path):
    heard = []

    async def use(server, name):
        client = await server.connect()
        entries = [b"%d of %d" % (number, name) for number in range(50)]
        for entry in entries:
            await client.say(entry)
        answers = await client.hear(50)
        assert [entry for _, entry in answers] == entries
        heard.extend(answers)

    server = Server(tmp_path)
    async with running(server), trio.open_nursery() as nursery:
        for name in range(10):
            nursery.start_soon(use, server, name)
    assert sorted(number for number, _ in heard) == list(range(1, 501))
    server = Server(tmp_path)
    async with running(server):
        assert [entry for _, entry in sorted(heard)] == server.log.entries


async def test_what_was_answered_is_in_a_copy_of_the_files_at_that_moment(tmp_path):
    """As after a kill: nothing is written down later that an answer promised."""
    first, copy = tmp_path / "running", tmp_path / "copy"
    server = Server(first)
    async with running(server):
        client = await server.connect()
        for number in range(1, 21):
            await client.say(b"%d" % number)
            assert await client.hear(1) == [(number, b"%d" % number)]
        shutil.copytree(first, copy)
    server = Server(copy)
    async with running(server):
        assert server.log.entries == [b"%d" % number for number in range(1, 21)]


class HeldLog(EchoLog):
    """Its disk hangs until the test lets it go on, and may fail then."""

    def __init__(self, disk):
        super().__init__(disk)
        self.may_go = threading.Event()
        self.error = None

    def perform(self, effects):
        assert self.may_go.wait(PATIENCE_SECONDS)
        if self.error is not None:
            raise self.error
        return super().perform(effects)


async def test_a_disk_that_hangs_holds_the_answers_and_nothing_else(tmp_path):
    server = Server(tmp_path, log_of=HeldLog)
    async with running(server):
        client, bad = await server.connect(), await server.connect()
        await client.say(b"waits")
        with trio.move_on_after(0.1) as scope:
            await client.hear(1)
        assert scope.cancelled_caught
        await bad.stream.send_all(b"\xff" * 4)
        with trio.fail_after(PATIENCE_SECONDS):
            assert await bad.stream.receive_some() == b""
        server.log.may_go.set()
        assert await client.hear(1) == [(1, b"waits")]


async def test_a_disk_that_fails_ends_the_service_without_an_answer(tmp_path):
    server = Server(tmp_path, log_of=HeldLog)
    with pytest.RaisesGroup(pytest.RaisesExc(ServerFailedError, match="No space"), flatten_subgroups=True):
        async with running(server):
            client = await server.connect()
            await client.say(b"lost")
            server.log.error = OSError(28, "No space left on device")
            server.log.may_go.set()
            with trio.fail_after(PATIENCE_SECONDS):
                assert await client.stream.receive_some() == b""


async def test_users_log_in_inside_of_tls_and_refusals_are_audited(tmp_path):
    certificates = Certificates(tmp_path / "certificates")
    store = certificates.member("localhost")
    users = tmp_path / "users"
    users.write_text("al:pw\n")
    users.chmod(0o600)
    lines = f"ssl.keyStore.location={store}/keystore.pem\nusersFile={users}\naudit.enable=true\n"
    server = Server(tmp_path / "data", lines)
    context = ssl.create_default_context(cafile=str(certificates.client("alice") / "truststore.pem"))
    async with running(server):
        client = await server.connect(context)
        [challenge] = await client.frames_heard(1)
        await client.say(respond(challenge, user="al", password="pw", cnonce=b"c", uri=URI).message, b"one")
        [_, answer] = await client.frames_heard(2)
        assert answers_in([answer]) == [(1, b"one")]
        stranger = await server.connect(context)
        [challenge] = await stranger.frames_heard(1)
        await stranger.say(respond(challenge, user="al", password="no", cnonce=b"c", uri=URI).message)
        with trio.fail_after(PATIENCE_SECONDS), pytest.raises((trio.BrokenResourceError, AssertionError)):
            await stranger.frames_heard(1)
    lines = (tmp_path / "data" / "audit.log").read_text().splitlines()
    operations = [dict(pair.split("=", 1) for pair in line.split("zab.audit: ")[1].split("\t")) for line in lines]
    assert [(each["operation"], each["result"]) for each in operations] == [
        ("serverStart", "success"),
        ("login", "failure"),
        ("serverStop", "invoked"),
    ]


async def test_servers_that_prove_who_they_are_tell_each_other_and_metrics_show_it(tmp_path):
    secret = tmp_path / "secret"
    make_secret_file(str(secret))
    ports = ",".join(map(str, free_ports(2)))
    one, two = (Server(tmp_path / f"{sid}", f"id={sid}\nlinkPorts={ports}\nsecretFile={secret}\n") for sid in (1, 2))
    async with running(one, two):
        await one.metrics_with('entries_of{key="2"} 0.0')
        client = await two.connect()
        await client.say(b"a", b"b")
        await client.hear(2)
        await one.metrics_with('entries_of{key="2"} 2.0')
        text = await two.metrics_with('entries_of{key="1"} 0.0', "entries 2.0")
        assert "append_ms_count 2.0" in text


def test_what_a_file_says_wrong_is_refused_with_its_line():
    with pytest.raises(ValueError, match="line 2: clientPrt is unknown"):
        read(Config, "dataDir=/d\nclientPrt=1\n")
    with pytest.raises(ValueError, match="line 1: clientPort: "):
        read(Config, "clientPort=no\n")
    assert read(Config, "").echo.link_ports == ()
