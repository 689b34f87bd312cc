"""Real ensembles of the test kit: how they begin, what is done to them, and what is left of them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
import trio
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.waiting import until
from zab.client import Client, ConnectionLossError, NotConnectedError, SessionExpiredError, State, connect
from zab.member.storage.events import StorageFailed
from zab.server.server import Server
from zab.testing import Ensemble, EnsembleError, Member, MemberFailedError, free_ports
from zab.testing.expiry import session_of
from zab.testing.kit.journals import LINES_MAX, Lines
from zab.testing.settings import SIZE_MAX

QUICK = {"syncLimit": 4, "tickTime": 100}
"""Cut off members notice after 400 ms."""


@contextlib.contextmanager
def kazoo(hosts: str) -> Iterator[KazooClient]:
    with kazoo_client(hosts, connection_retry={"max_tries": -1, "delay": 0.01, "max_delay": 0.1}) as client:
        yield client


async def get_at_last(zk: Client, path: str) -> bytes | None:
    """How much is left, from a member that knows."""
    while True:
        with contextlib.suppress(ConnectionLossError, NotConnectedError):
            return (await zk.get(path))[0]


# ----------------------------------------------------------------------------------------------------------- beginnings


@pytest.mark.parametrize(("size", "calls_max"), [(1, 6_000), (3, 60_000)])
def test_members_are_ready_within_few_calls(size: int, calls_max: int) -> None:
    """4,000 of a member alone, 40,000 of three: 20 ms and 150 ms of the processor."""
    with Ensemble(size):
        pass  # whatever is imported late
    calls = itertools.count()

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            next(calls)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with Ensemble(size):
            took = next(calls)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    assert calls_max / 10 < took <= calls_max


def test_any_client_is_served_in_plain_code() -> None:
    with Ensemble() as e, kazoo(e.hosts) as client:
        client.create("/greeting", b"hello")
        assert client.get("/greeting")[0] == b"hello"
        assert e.hosts == e.members[1].hosts == f"127.0.0.1:{e.members[1].client_port}"
        assert e.leader is e.members[1]


def test_its_client_is_there_in_plain_code() -> None:
    with Ensemble() as e, e.connect(session_timeout_ms=5000) as zk:
        zk.create("/greeting", b"hello")
        assert zk.get("/greeting")[0] == b"hello"
        e.expire(zk)
        with pytest.raises(SessionExpiredError):
            zk.retrying().get("/greeting")


async def test_a_client_that_blocks_is_refused_in_asynchronous_code() -> None:
    connecting = Ensemble().connect(hosts="127.0.0.1:1")
    with pytest.raises(RuntimeError, match="write `async with`"), connecting:
        pass


async def test_it_is_there_in_trio_and_its_client_too() -> None:
    async with Ensemble(3) as e, e.connect() as zk:
        await zk.create("/greeting", b"hello")
        async with connect(e.hosts) as other:
            await other.sync()
            assert (await other.get("/greeting"))[0] == b"hello"


def test_it_is_there_in_asyncio() -> None:
    async def main() -> bytes:
        async with Ensemble(3) as e:
            await e.until_serving(1, 2, 3)
            async with e.connect() as zk:
                await zk.create("/greeting", b"hello")
                assert (await zk.get("/greeting"))[0] == b"hello"
            reader, writer = await asyncio.open_connection("127.0.0.1", e.members[1].client_port)
            writer.write(b"ruok")
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer

    assert asyncio.run(main()) == b"imok"


@pytest.mark.usefixtures("own_temporary_directory")
def test_who_is_cancelled_while_it_begins_in_asyncio_leaves_nothing() -> None:
    async def main() -> None:
        task = asyncio.create_task(Ensemble(3).__aenter__())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    before = what_there_is()
    asyncio.run(main())
    assert what_there_is() == before


@pytest.mark.usefixtures("own_temporary_directory")
async def test_who_is_cancelled_while_it_begins_in_trio_leaves_nothing() -> None:
    before = what_there_is()
    with trio.CancelScope() as scope:
        scope.cancel()
        async with Ensemble(3) as e:
            assert e.leader is not None, "it was begun to its end"
            await trio.lowlevel.checkpoint()
            raise AssertionError
    assert scope.cancelled_caught
    assert what_there_is() == before


def test_observers_are_members_that_do_not_vote() -> None:
    with Ensemble(3, observers=1) as e:
        assert list(e.members) == [1, 2, 3, 4]
        with kazoo(e.members[4].hosts) as client:
            client.create("/seen", b"")
            assert client.exists("/seen")
        e.members[4].kill()
        e.wait_until_serving(1, 2, 3)


def test_keys_are_those_of_the_configuration() -> None:
    with Ensemble(1, {"znode.container.checkIntervalMs": 50}, tickTime=150, createIfNotExistsEnabled=True) as e:
        config = ask(e.members[1], b"conf")
        assert "tickTime=150\n" in config
        assert "minSessionTimeout=300\n" in config


@pytest.mark.parametrize(
    ("arguments", "keys", "said"),
    [
        ((0,), {}, "1 to 9 members, not 0"),
        ((SIZE_MAX + 1,), {}, "1 to 9 members"),
        ((8,), {"observers": 2}, "1 to 9 members"),
        ((1,), {"observers": 1}, "one member alone"),
        ((1, {"clientPort": 2181}), {}, "clientPort is for the ensemble to decide"),
        ((3, {"server.4": "there:1:2"}), {}, "server.4 is for the ensemble to decide"),
        ((3, {"quorum.secretFile": "mine"}), {}, "quorum.secretFile is for the ensemble"),
        ((1,), {"dataDir": "/tmp"}, "dataDir is for the ensemble"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments, keys, said) -> None:
    with pytest.raises(ValueError, match=said):
        Ensemble(*arguments, **keys)


@pytest.mark.usefixtures("own_temporary_directory")
def test_a_value_that_the_configuration_refuses_is_named() -> None:
    before = what_there_is()
    with pytest.raises(ValueError, match="tickTime"), Ensemble(3, tickTime="never"):
        pass
    with pytest.raises(ValueError, match="initLimit"), Ensemble(3, initLimit="1\ndataDir=/elsewhere"):
        pass
    assert what_there_is() == before


def test_members_prove_to_each_other_who_they_are() -> None:
    with Ensemble(3) as e:
        assert "members are not authenticated" not in e.journal
        assert "listening" in e.members[2].journal


def ask(member: Member, word: bytes) -> str:
    """The answer to a four-letter word."""
    with socket.create_connection(("127.0.0.1", member.client_port), 60) as connection:
        connection.sendall(word)
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


# ------------------------------------------------------------------------------------------------- members come and go


@pytest.mark.slow
def test_a_killed_leader_is_replaced_and_comes_back() -> None:
    with Ensemble(3) as e, kazoo(e.hosts) as client:
        client.create("/kept", b"1")
        leader = e.leader
        assert leader is not None
        leader.kill()
        assert leader.state == "down"
        assert not leader.is_serving
        e.wait_until_serving()
        assert e.leader not in (None, leader)
        until(lambda: client.state == KazooState.CONNECTED)
        assert client.retry(client.get, "/kept")[0] == b"1"
        leader.start()
        e.wait_until_serving(1, 2, 3)
        assert [member.state for member in e.members.values()].count("leading") == 1


@pytest.mark.parametrize("end", [Member.stop, Member.kill])
def test_what_was_acknowledged_is_there_after_a_start(end) -> None:
    with Ensemble() as e:
        member = e.members[1]
        with kazoo(e.hosts) as client:
            client.create("/kept", b"1")
        for _ in range(2):  # the second time there is nothing to do
            end(member)
        assert not member.is_running
        for _ in range(2):
            member.start()
        e.wait_until_serving()
        with kazoo(e.hosts) as client:
            assert client.get("/kept")[0] == b"1"


def test_a_killed_member_writes_nothing_more() -> None:
    """Its log goes on where it was cut off; after a stop there is nothing to look at."""
    with Ensemble() as e:
        member = e.members[1]
        sizes = []
        for end in (Member.stop, Member.kill):
            closed: list[bool] = []
            assert member.life is not None
            member.life.ask(lambda server, closed=closed: note_close(server, closed))
            end(member)
            sizes.append(closed)
            member.start()
            e.wait_until_serving()
        assert sizes == [[True], []]


def note_close(server: Server, closed: list[bool]) -> None:
    close = server.storage.close

    def noted() -> None:
        closed.append(True)
        close()

    server.storage.close = noted  # type: ignore[method-assign]


@pytest.mark.slow
def test_a_member_that_stands_still_is_left_and_follows_again() -> None:
    with Ensemble(3, QUICK) as e:
        leader = e.leader
        assert leader is not None
        leader.pause()
        leader.pause()
        assert leader.state == "paused"
        until(lambda: e.leader not in (None, leader), "another leader")
        e.wait_until_serving()
        assert e.leader is not None
        with kazoo(e.leader.hosts) as client:
            client.create("/meanwhile", b"")
        leader.resume()
        assert not leader.is_paused
        until(lambda: leader.state == "serving", "following")
        with kazoo(leader.hosts) as client:
            client.sync("/")
            assert client.exists("/meanwhile")


def test_a_member_that_stands_still_can_be_killed() -> None:
    with Ensemble(3) as e:
        e.members[1].pause()
        e.members[1].kill()
        e.members[1].start()
        e.members[2].pause()
        e.members[3].stop()
        # The end of the block finds one of each.


# ----------------------------------------------------------------------------------------------------------- partitions


@pytest.mark.slow
async def test_a_leader_that_is_cut_off_serves_no_more_and_comes_back() -> None:
    async with Ensemble(3, QUICK) as e:
        old = e.leader
        assert old is not None
        async with connect(old.hosts, session_timeout_ms=60_000) as cut_off:
            await cut_off.create("/before", b"1")
            e.partition({old.sid})
            others = [sid for sid in e.members if sid != old.sid]
            await e.until_serving(*others)
            await trio.to_thread.run_sync(until, lambda: old.state == "looking")
            assert e.leader is not None
            assert e.leader.sid in others
            async with connect(",".join(e.members[sid].hosts for sid in others)) as zk:
                await zk.set("/before", b"2")
            e.heal()
            await e.until_serving()
            assert old.is_serving
            await cut_off_sync(cut_off)
            assert await get_at_last(cut_off, "/before") == b"2"


async def cut_off_sync(zk: Client) -> None:
    while True:
        with contextlib.suppress(ConnectionLossError, NotConnectedError):
            return await zk.sync()


@pytest.mark.slow
def test_without_a_majority_nobody_serves_until_it_is_healed() -> None:
    with Ensemble(3, QUICK) as e:
        e.partition({1}, {2}, {3})
        assert e.leader is None, "whatever the one that led believes"
        until(lambda: not any(member.is_serving for member in e.members.values()))
        assert e.leader is None
        with pytest.raises(EnsembleError, match="nobody could end session 0x7"):
            e.expire(7, seconds=0.1)
        with pytest.raises(EnsembleError, match=r"not serving after 0.2 s[\s\S]*looking[\s\S]*member 3: "):
            e.wait_until_serving(seconds=0.2)
        e.heal()
        e.wait_until_serving(1, 2, 3)


def test_a_new_partition_takes_the_place_of_the_old_one() -> None:
    with Ensemble(3) as e:
        e.partition({1}, {2, 3})
        e.partition({1, 2, 3})
        e.members[1].kill()
        e.members[1].start()
        e.wait_until_serving(1, 2, 3)


def test_partitions_that_make_no_sense_are_refused() -> None:
    with Ensemble(3) as e:
        with pytest.raises(ValueError, match="there is no member 4: there are 1, 2, 3"):
            e.partition({4})
        with pytest.raises(ValueError, match="member 2 is in two groups"):
            e.partition({1, 2}, {2, 3})
        with pytest.raises(ValueError, match="there is no member 9"):
            e.wait_until_serving(9)


# ------------------------------------------------------------------------------------------------------------- sessions


@pytest.mark.slow
async def test_a_session_is_expired_and_its_client_hears_of_it() -> None:
    async with Ensemble(3) as e, e.connect(session_timeout_ms=60_000) as zk:
        await zk.create("/mine", ephemeral=True)
        states = zk.states()
        e.expire(zk)
        async with e.connect() as other:
            await other.sync()
            assert await other.exists("/mine") is None
        assert [state async for state in states][-1] is State.EXPIRED
        with pytest.raises(ValueError, match="there is no session"):
            e.expire(zk.session_id)


def test_an_expired_session_is_over_on_every_member_that_serves() -> None:
    """Or its client might be served once more, by a follower that has not applied the end yet."""
    with Ensemble(3, **QUICK) as e, kazoo(e.hosts) as client:
        session, leader = client.client_id[0], e.leader
        [follower, other] = [member for member in e.members.values() if member is not leader]
        until(lambda: serves(follower, session), "that the follower has the session")
        e.partition({follower.sid}, {leader.sid, other.sid})
        e.expire(session)
        assert not serves(follower, session), "it is served until the follower notices that it is cut off"


def serves(member: Member, session: int) -> bool:
    """Whether a member takes requests, and does not know that this session is over."""
    return member.is_serving and bool(member.life.ask(lambda server: session in server.member.tree.sessions))


async def test_a_local_session_is_expired_by_the_member_that_knows_it() -> None:
    async with Ensemble(3, localSessionsEnabled=True) as e, e.connect(session_timeout_ms=60_000) as zk:
        await zk.create("/a")
        states = zk.states()
        e.expire(zk)
        with trio.fail_after(30):
            assert [state async for state in states][-1] is State.EXPIRED
        with pytest.raises(ValueError, match="there is no session"):
            e.expire(zk.session_id)


async def test_a_connection_is_closed_and_its_session_goes_on() -> None:
    async with Ensemble(3) as e, e.connect(session_timeout_ms=60_000) as zk:
        session, states = zk.session_id, zk.states()
        e.disconnect(zk)
        e.disconnect(12345)
        # Its own pings would find it out after 40 s.
        with trio.fail_after(30):
            assert [await anext(states) for _ in range(3)] == [State.CONNECTED, State.CONNECTING, State.CONNECTED]
        assert zk.session_id == session


async def test_what_is_restored_is_as_new() -> None:
    async with Ensemble(3) as e, e.connect() as zk:
        await zk.create("/a", b"1", ttl_ms=None)
        await zk.create("/a/b", b"2", container=True)
        await zk.create("/mine", ephemeral=True)
        e.members[2].stop()
        e.members[3].pause()
        e.restore()
        assert [member.is_serving for member in e.members.values()] == [True] * 3
        assert [state async for state in zk.states()][-1] is State.EXPIRED
        async with e.connect() as other:
            assert await other.get_children("/") == ["zookeeper"]


def test_a_session_of_kazoo_is_expired() -> None:
    with Ensemble() as e, kazoo(e.hosts) as client:
        client.create("/mine", ephemeral=True)
        heard = threading.Event()
        client.add_listener(lambda state: heard.set() if state == KazooState.LOST else None)
        e.expire(client)
        assert heard.wait(60)
        with kazoo(e.hosts) as other:
            assert other.exists("/mine") is None


def test_a_session_is_an_id_or_a_client_that_has_one() -> None:
    class Ours:
        session_id = 5

    class Kazoos:
        client_id = (6, b"")

    class Unconnected:
        client_id = None

    assert [session_of(each) for each in (4, Ours(), Kazoos())] == [4, 5, 6]
    assert session_of(0x9000_0000_0000_0001) == 0x9000_0000_0000_0001 - (1 << 64)
    for wrong in (0, None, True, "0x5", Unconnected(), object()):
        with pytest.raises(ValueError, match="is no session"):
            session_of(wrong)


# ------------------------------------------------------------------------------------------------------ what goes wrong


def test_a_member_that_cannot_start_says_why() -> None:
    with Ensemble() as e:
        member = e.members[1]
        member.kill()
        with socket.create_server(("127.0.0.1", member.client_port)):
            with pytest.raises(MemberFailedError, match=r"member 1 ended: cannot listen on 127.0.0.1:\d+"):
                member.start()
            for blocked in (member.kill, e.heal, e.wait_until_serving):
                with pytest.raises(MemberFailedError, match="cannot listen"):
                    blocked()
        member.start()
        e.wait_until_serving()


def fail(member: Member) -> None:
    """Have its disk fail."""
    life = member.life
    assert life is not None
    life.ask(lambda server: server.mailbox.put(StorageFailed("it burns")))
    until(lambda: life.has_ended)


def test_a_member_that_fails_fails_the_block() -> None:
    with pytest.raises(MemberFailedError, match=r"member 2 ended:.*it burns") as raised, Ensemble(3) as e:
        fail(e.members[2])
    assert raised.value.sid == 2


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("siez", "siez is no argument of an ensemble, and no key of zoo.cfg. Did you mean size?"),
        ("tikTime", "tikTime is no argument .* Did you mean tickTime?"),
        ("wombat", "wombat is no argument of an ensemble, and no key of zoo.cfg$"),
    ],
)
def test_what_nobody_would_read_is_refused(argument: str, said: str) -> None:
    with pytest.raises(ValueError, match=said), Ensemble(1, **{argument: 5}):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_member_that_fails_while_it_ends_fails_the_test(end: str) -> None:
    def failing() -> None:
        with Ensemble(3) as e:
            life = e.members[2].life
            assert life is not None
            assert life.service is not None
            closes = life.service.close

            def burn(*, drops: bool) -> None:
                closes(drops=drops)
                raise ZeroDivisionError("it burns")

            life.service.close = burn  # type: ignore[method-assign]
            with pytest.raises(MemberFailedError):
                getattr(e.members[2], end)()

    with pytest.raises(MemberFailedError, match=r"member 2 ended:.*it burns"):
        failing()


def test_what_the_block_raises_stays_what_it_is() -> None:
    def fail_twice() -> None:
        with Ensemble(3) as e:
            fail(e.members[2])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        fail_twice()
    assert "it burns" in raised.value.__notes__[0]


def test_an_ensemble_is_opened_once_and_closed_for_good() -> None:
    e = Ensemble()
    with pytest.raises(EnsembleError, match="is not open"):
        e.heal()
    with e, pytest.raises(EnsembleError, match="opened once"), e:
        pass
    for late in (e.heal, e.wait_until_serving, e.members[1].start, lambda: e.expire(1)):
        with pytest.raises(EnsembleError, match=r"closed|not open"):
            late()
    assert "listening" in e.journal


# --------------------------------------------------------------------------------------------------------- what is left


def what_there_is() -> tuple[list[str], int, list[str], object]:
    """Threads, descriptors, temporary directories, and the state of logging. The threads of trio's pool end by
    themselves; the descriptors of a garbage coroutine are nobody's."""
    logger = logging.getLogger("zab")
    threads = sorted(each.name for each in threading.enumerate() if not each.name.startswith("Trio thread"))
    directories = sorted(path.name for path in Path(os.environ.get("TMPDIR", "/tmp")).glob("zab-testing-*"))
    return (
        threads,
        len(os.listdir("/dev/fd")),
        directories,
        (logger.level, logger.propagate, list(logger.handlers)),
    )


@pytest.fixture
def own_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that tests beside this one do not make some meanwhile."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.mark.usefixtures("own_temporary_directory")
@pytest.mark.parametrize("size", [1, 3])
def test_nothing_is_left_behind(size: int) -> None:
    before = what_there_is()
    with Ensemble(size) as e:
        assert what_there_is() != before
        e.members[1].kill()
        e.members[1].start()
    assert what_there_is() == before

    def fail_inside() -> None:
        with Ensemble(size) as e:
            e.partition({1})
            e.members[1].pause()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert what_there_is() == before


@pytest.mark.usefixtures("own_temporary_directory")
def test_nothing_is_left_of_what_could_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(count: int) -> list[int]:
        return [listener.getsockname()[1], *free_ports(count - 1)]

    before = what_there_is()
    monkeypatch.setattr("zab.testing.ensemble.free_ports", taken)
    refused = pytest.raises(MemberFailedError, match="cannot listen")
    with socket.create_server(("127.0.0.1", 0)) as listener, refused, Ensemble(3, electionPortBindRetry=1):
        pass
    assert what_there_is() == before


def test_what_members_say_is_kept_apart_from_what_others_log(caplog: pytest.LogCaptureFixture) -> None:
    with Ensemble() as e:
        logging.getLogger("zab.client").warning("mine")
        logging.getLogger("zab.client").info("not asked for")
        with Ensemble():
            pass
    assert [record.getMessage() for record in caplog.records] == ["mine"]
    assert "listening" in e.members[1].journal
    assert "mine" not in e.journal


def test_of_a_journal_the_newest_lines_are_kept() -> None:
    lines = Lines()
    for number in range(LINES_MAX + 3):
        lines.append(str(number))
    kept = str(lines).splitlines()
    assert (len(kept), kept[0], kept[-1]) == (LINES_MAX, "3", str(LINES_MAX + 2))


@pytest.mark.slow
def test_a_forgotten_ensemble_does_not_hold_the_interpreter() -> None:
    program = "from zab.testing import Ensemble; e = Ensemble(3); e.__enter__(); print(e.leader.state)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "leading\n")


def test_the_kit_is_imported_when_it_is_used() -> None:
    program = "import sys, zab.testing; zab.testing.free_ports; print(sorted({'trio', 'pytest'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    import zab.testing

    with pytest.raises(AttributeError, match="no attribute 'Cluster'"):
        _ = zab.testing.Cluster
