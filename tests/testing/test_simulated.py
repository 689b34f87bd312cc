"""Programs against simulated ensembles: the same each time, in a time of their own, and what is done to members."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio
import trio._core._run as scheduler
from trio.testing import wait_all_tasks_blocked

from zab.client import (
    BadVersionError,
    Client,
    ConnectionLossError,
    NodeExistsError,
    NotConnectedError,
    RequestError,
    SessionExpiredError,
    State,
)
from zab.testing import FAULTS, EnsembleError, SimulatedEnsemble, free_ports, simulate
from zab.testing.kit.scheduling import pinned

LOST = (ConnectionLossError, NotConnectedError)


async def read(zk: Client, path: str) -> bytes | None:
    """How much is left, from a member that knows."""
    while True:
        try:
            await zk.sync()
            return (await zk.get(path))[0]
        except LOST:
            await trio.sleep(0.1)


async def count(e: SimulatedEnsemble) -> list[str]:
    """Three clients that count together: each goes to every number, in whatever order."""
    order: list[str] = []

    async def one(name: str) -> None:
        async with e.connect() as zk:
            for _ in range(4):
                while True:
                    try:
                        data, stat = await zk.get("/count")
                        await zk.set("/count", b"%d" % (int(data or b"0") + 1), stat.version)
                    except (BadVersionError, *LOST):
                        continue
                    break
                order.append(name)
                await trio.sleep(e.random.random())

    async with e.connect() as zk:
        await zk.create("/count", b"0")
        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(one, name)
        assert int(await read(zk, "/count") or b"") >= 12, "a worker that lost an answer counts twice"
    return order


# --------------------------------------------------------------------------------------------------- the same each time


def test_one_seed_is_one_run_and_another_seed_is_another() -> None:
    runs = []
    for seed in (3, 3, 4):
        lines: list[str] = []
        run = simulate(count, seed=seed, faults=["kill", "disconnect"], every_seconds=0.5, trace=lines.append)
        runs.append((run.value, run.hash, run.seconds, lines))
    assert runs[0] == runs[1]
    assert runs[0][1] != runs[2][1]
    assert runs[0][0] != runs[2][0]
    assert len(runs[0][3]) > 100
    assert simulate(count, seed=3, faults=["disconnect", "kill"], every_seconds=0.5).hash == runs[0][1]


@pytest.mark.slow
def test_a_run_is_the_same_in_every_process() -> None:
    program = (
        "from tests.testing.test_simulated import count; from zab.testing import FAULTS, simulate; "
        "print(simulate(count, seed=5, faults=['pause', 'partition', 'disconnect']).hash)"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in ("1", "2")
    }
    assert len(hashes) == 1


def test_the_choices_of_the_scheduler_are_those_of_the_seed_and_differ_between_seeds() -> None:
    async def race(e: SimulatedEnsemble) -> str:
        winners: list[str] = []

        async def one(name: str) -> None:
            winners.append(name)

        async with trio.open_nursery() as nursery:
            for name in "abcdef":
                nursery.start_soon(one, name)
        return "".join(winners)

    assert simulate(race, seed=1).value == simulate(race, seed=1).value
    assert len({simulate(race, seed=seed).value for seed in range(6)}) > 1


def test_a_lost_update_is_found_by_some_seed_and_again_by_the_same() -> None:
    async def careless(e: SimulatedEnsemble) -> bytes | None:
        async def one() -> None:
            async with e.connect() as zk:
                await trio.sleep(e.random.random() / 50)
                data, _ = await zk.get("/count")
                await zk.set("/count", b"%d" % (int(data or b"0") + 1))

        async with e.connect() as zk:
            await zk.create("/count", b"0")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one)
                nursery.start_soon(one)
            return (await zk.get("/count"))[0]

    found = {seed: simulate(careless, seed=seed).value for seed in range(12)}
    assert set(found.values()) == {b"1", b"2"}
    assert all(simulate(careless, seed=seed).value == value for seed, value in list(found.items())[:3])


def test_other_runs_of_trio_are_scheduled_as_ever() -> None:
    before = scheduler._r, scheduler._ALLOW_DETERMINISTIC_SCHEDULING
    own = before[0].getstate()

    async def while_another_one_runs(e: SimulatedEnsemble) -> None:
        thread = threading.Thread(target=trio.run, args=(trio.sleep, 0))
        thread.start()
        thread.join()

    run = simulate(while_another_one_runs)
    assert (scheduler._r, scheduler._ALLOW_DETERMINISTIC_SCHEDULING) == before
    assert scheduler._r.getstate() != own, "the other one has chosen for itself"

    async def alone(e: SimulatedEnsemble) -> None:
        pass

    assert run.seconds == simulate(alone).seconds


async def test_a_run_does_not_begin_where_trio_runs() -> None:
    with pytest.raises(EnsembleError, match="call it from plain code"):
        simulate(count)


def test_runs_do_not_begin_within_each_other() -> None:
    with pinned(Random(1)), pytest.raises(EnsembleError, match="within another one"):
        simulate(count)


# ----------------------------------------------------------------------------------------------------------------- time


def test_an_hour_is_over_in_a_moment() -> None:
    async def wait(e: SimulatedEnsemble) -> float:
        began = e.clock.current_time()
        await trio.sleep(1800)
        with trio.move_on_after(600):
            await trio.sleep_forever()
        return trio.current_time() - began

    run = simulate(wait, configuration={"tickTime": 20_000})
    assert run.value == pytest.approx(2400)
    assert run.seconds >= 2400


def test_no_time_passes_while_a_task_may_run_or_waits_for_all_to_wait() -> None:
    async def busy(e: SimulatedEnsemble) -> float:
        began = trio.current_time()
        for _ in range(100):
            await trio.lowlevel.checkpoint()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1e-3)
            await wait_all_tasks_blocked()
            assert trio.current_time() == began
        return trio.current_time() - began

    assert simulate(busy).value == pytest.approx(1e-3, abs=2e-6)


def test_a_run_that_does_not_end_is_ended() -> None:
    async def wait(e: SimulatedEnsemble) -> None:
        await trio.sleep_forever()

    with pytest.raises(EnsembleError, match=r"seed 9: it is not over after 30 s .*1: \w+, 2: \w+, 3: \w+") as raised:
        simulate(wait, seed=9, limit_seconds=30)
    assert "seed=9" in raised.value.__notes__[0]


def test_the_clients_of_a_run_that_is_ended_close_their_sessions() -> None:
    """Which takes time of the world, when no more is left to the program."""

    async def wait(e: SimulatedEnsemble) -> None:
        async with e.connect() as zk:
            await zk.create("/a")
            await trio.sleep_forever()

    with pytest.raises(EnsembleError, match="it is not over after 30 s"):
        simulate(wait, limit_seconds=30)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_a_program_that_goes_on_though_it_is_ended_is_torn_down() -> None:
    async def insist(e: SimulatedEnsemble) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()

    with pytest.raises(trio.TrioInternalError) as raised:
        simulate(insist, limit_seconds=30)
    assert "though it was cancelled 60 s before" in str(raised.value.__cause__)
    # What was torn down says so, here and not in another test.
    del raised
    gc.collect()


def test_what_the_program_raises_says_its_seed() -> None:
    async def fail(e: SimulatedEnsemble) -> None:
        await trio.sleep(2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        simulate(fail, seed=11)
    assert "seed=11), after 2." in raised.value.__notes__[0]


# ------------------------------------------------------------------------------------------- what has a time of its own


async def waits_for_a_thread(e: SimulatedEnsemble) -> None:
    done = threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, done.wait, 60)
        try:
            await trio.sleep_forever()
        finally:
            done.set()


async def waits_for_a_socket(e: SimulatedEnsemble) -> None:
    one, two = socket.socketpair()
    with one, two:
        await trio.lowlevel.wait_readable(one)


async def waits_for_a_short_thread(e: SimulatedEnsemble) -> None:
    await trio.to_thread.run_sync(time.sleep, 0.01)


async def waits_for_a_file(e: SimulatedEnsemble) -> None:
    await trio.Path(__file__).read_text()


async def waits_for_a_socket_beside_a_client(e: SimulatedEnsemble) -> None:
    async with e.connect():
        await waits_for_a_socket(e)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (waits_for_a_thread, "waits for a thread"),
        (waits_for_a_short_thread, "waits for a thread"),
        (waits_for_a_file, "waits for a thread"),
        (waits_for_a_socket, "waits for a file or a socket"),
        (waits_for_a_socket_beside_a_client, "waits for a file or a socket"),
    ],
)
def test_what_no_seed_decides_ends_the_run(program, said) -> None:
    with pytest.raises(EnsembleError, match=said):
        simulate(program)


def test_hosts_of_this_world_are_all_there_are() -> None:
    async def connect_elsewhere(e: SimulatedEnsemble) -> None:
        async with e.connect(hosts=f"127.0.0.1:{free_ports(1)[0]}"):
            pass

    with pytest.raises(NotConnectedError, match=r"no member of this ensemble: there are 10.0.0.1:2181"):
        simulate(connect_elsewhere)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"size": 0}, "1 to 9 members, not 0"),
        ({"size": 10}, "1 to 9 members"),
        ({"size": 5, "observers": 5}, "1 to 9 members, not 5 and 5 observers"),
        ({"observers": -1}, "1 to 9 members"),
        ({"size": 1, "observers": 1}, "one member alone has no observers"),
        ({"faults": ["kil"]}, r"no fault is named 'kil'; there are .*disconnect, .*expire"),
        ({"faults": "kill"}, r"a list of names, such as \['kill'\]"),
        ({"faults": ["silent"]}, "no fault is named 'silent'"),
        ({"every_seconds": 0}, "more than 0"),
        ({"configuration": {"clientPort": 1}}, "clientPort is for the ensemble to decide"),
        ({"configuration": {"tickTime": "never"}}, "are whole numbers"),
        ({"configuration": {"syncLimit": 0}}, "at least 1"),
        ({"configuration": {"snapCount": "never"}}, "snapCount"),
    ],
)
def test_what_cannot_be_simulated_is_refused(arguments, said) -> None:
    with pytest.raises(ValueError, match=said):
        simulate(count, **arguments)


# ----------------------------------------------------------------------------------------------------- what a test does


@asynccontextmanager
async def serving(e: SimulatedEnsemble) -> AsyncIterator[Client]:
    async with e.connect(session_timeout_ms=60_000) as zk:
        await zk.create("/a", b"1")
        yield zk


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("end", ["kill", "stop", "lose_power"])
def test_a_member_that_ended_stays_down_until_it_is_started(size: int, end: str) -> None:
    async def main(e: SimulatedEnsemble) -> None:
        async with serving(e) as zk:
            leader = e.leader
            assert leader is not None
            assert leader.state == "leading"
            for _ in range(2):  # the second time there is nothing to do
                getattr(leader, end)()
            await trio.sleep(120)
            assert leader.state == "down"
            assert (e.leader is None) == (size == 1)
            for _ in range(2):
                leader.start()
            await e.until_serving(*e.members)
            assert await read(zk, "/a") == b"1"

    simulate(main, size=size)


def test_observers_serve_clients_and_count_for_no_majority() -> None:
    async def main(e: SimulatedEnsemble) -> None:
        assert list(e.members) == [1, 2, 3, 4, 5]
        async with e.connect(hosts=e.members[5].hosts, session_timeout_ms=60_000) as zk:
            await zk.create("/a", b"1")
            for _ in range(3):
                assert e.leader is not None
                assert e.leader.sid <= 3
                e.leader.kill()
                await trio.sleep(10)
                await e.until_serving()
                for sid in (1, 2, 3):
                    e.members[sid].start()
                await e.until_serving(*e.members)
                assert await read(zk, "/a") == b"1"
            for sid in (1, 2):
                e.members[sid].kill()
            await trio.sleep(10)
            assert [member.state for member in e.members.values()] == ["down", "down", *["looking"] * 3]

    simulate(main, observers=2)


@pytest.mark.parametrize("seed", range(2))
def test_observers_see_what_voters_see_whatever_goes_wrong(seed: int) -> None:
    assert simulate(count, seed=seed, observers=2, faults=["kill", "partition", "disconnect"], every_seconds=0.5).value


def test_a_member_that_stands_still_is_left_and_follows_again() -> None:
    async def main(e: SimulatedEnsemble) -> None:
        async with serving(e) as zk:
            old = e.leader
            assert old is not None
            old.pause()
            assert (old.state, old.is_serving) == ("paused", True)
            await trio.sleep(10)
            await e.until_serving()
            assert e.leader not in (None, old)
            assert await read(zk, "/a") == b"1"
            old.resume()
            await e.until_serving(old.sid)
            assert old.state == "serving"

    simulate(main)


def test_a_leader_that_is_cut_off_serves_no_more_and_comes_back() -> None:
    async def main(e: SimulatedEnsemble) -> None:
        async with serving(e) as zk:
            old = e.leader
            assert old is not None
            e.partition({old.sid})
            await e.until_serving(*(e.members.keys() - {old.sid}))
            await trio.sleep(10)
            assert old.state == "looking"
            e.partition({1}, {2}, {3})
            await trio.sleep(10)
            assert e.leader is None
            with pytest.raises(EnsembleError, match="not serving after 1 s"):
                await e.until_serving(seconds=1)
            e.heal()
            await e.until_serving(1, 2, 3)
            assert await read(zk, "/a") == b"1"
            with pytest.raises(ValueError, match="there is no member 4"):
                e.partition({4})
            with pytest.raises(ValueError, match="there is no member 4"):
                await e.until_serving(4)

    simulate(main)


def test_a_session_is_expired_though_its_client_is_there() -> None:
    async def main(e: SimulatedEnsemble) -> None:
        async with serving(e) as zk, e.connect() as other:
            await zk.create("/mine", ephemeral=True)
            e.expire(zk)
            assert [state async for state in zk.states()][-1] is State.EXPIRED
            with pytest.raises(SessionExpiredError):
                await zk.get("/a")
            await other.sync()
            assert await other.exists("/mine") is None
            with pytest.raises(ValueError, match="there is no session"):
                e.expire(zk.session_id)

    simulate(main)


def test_a_local_session_is_expired_by_the_member_that_knows_it() -> None:
    async def main(e: SimulatedEnsemble) -> None:
        async with serving(e) as zk:
            await zk.create("/own")
            e.expire(zk)
            assert [state async for state in zk.states()][-1] is State.EXPIRED
            with pytest.raises(ValueError, match="there is no session"):
                e.expire(zk.session_id)

    simulate(main, configuration={"localSessionsEnabled": True})


def test_a_session_is_expired_once_somebody_leads() -> None:
    async def main(e: SimulatedEnsemble) -> None:
        async with serving(e) as zk:
            e.partition({1}, {2}, {3})
            await trio.sleep(10)
            e.expire(zk)
            e.heal()
            assert [state async for state in zk.states()][-1] is State.EXPIRED

    simulate(main)


def test_a_connection_is_lost_and_the_session_goes_on() -> None:
    async def main(e: SimulatedEnsemble) -> list[State]:
        async with serving(e) as zk:
            session = zk.session_id
            states = zk.states()
            e.disconnect(zk)
            e.disconnect(12345)
            seen = [await anext(states) for _ in range(3)]
            assert await read(zk, "/a") == b"1"
            assert zk.session_id == session
            return seen

    assert simulate(main).value == [State.CONNECTED, State.CONNECTING, State.CONNECTED]


# ----------------------------------------------------------------------------------------------- what goes wrong itself


async def keeps_its_promises(e: SimulatedEnsemble) -> None:
    """What was acknowledged is there in the end, whatever goes wrong meanwhile."""
    acknowledged: list[str] = []
    lost_count = 0
    with trio.move_on_after(60):
        while True:
            try:
                async with e.connect(session_timeout_ms=4000) as zk:
                    while True:
                        path = f"/n{len(acknowledged) + lost_count}"
                        try:
                            await zk.create(path)
                        except NodeExistsError:
                            pass
                        except LOST:
                            lost_count += 1
                            continue
                        acknowledged.append(path)
                        await trio.sleep(0.1)
            except (SessionExpiredError, RequestError):
                pass
    e.calm()
    await e.until_serving(*e.members)
    async with e.connect() as zk:
        await zk.sync()
        there = {f"/{name}" for name in await zk.get_children("/")}
    assert len(acknowledged) > 20
    assert set(acknowledged) <= there


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_goes_wrong_at_random_costs_nothing_that_was_acknowledged(seed: int) -> None:
    lines: list[str] = []
    wanted = ["kill", "power", "pause", "partition", "reset", "disconnect", "expire"]
    simulate(keeps_its_promises, seed=seed, faults=wanted, every_seconds=3, trace=lines.append)
    happened = {line.split()[2] for line in lines if line.split()[1] == "!"}
    assert len(happened & set(wanted)) > 3


@pytest.mark.parametrize("fault", ["disconnect", "expire"])
def test_what_goes_wrong_for_clients_stops_when_it_is_calm(fault: str) -> None:
    async def main(e: SimulatedEnsemble) -> tuple[int, int]:
        async with e.connect() as zk:
            changes = zk.states()
            await trio.sleep(30)
            e.calm()
            await trio.sleep(5)
            before = len(list(changes._states))
            await trio.sleep(60)
            return before, len(list(changes._states))

    before, after = simulate(main, faults=[fault], every_seconds=2).value
    assert before > 1
    assert before == after


def test_all_faults_that_there_are_can_be_asked_for() -> None:
    async def main(e: SimulatedEnsemble) -> None:
        await trio.sleep(5)
        e.calm()
        await e.until_serving()

    for name in sorted(FAULTS):
        simulate(main, seed=1, faults=[name], every_seconds=2)
