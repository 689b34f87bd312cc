"""`zab lock` and `zab elect`: who runs when, what the command is told, and how it ends."""

import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from tests.cli.commands import Run, run, started
from tests.client.running import KINDS_OF_LONGEST, running_processes
from tests.rigs.waiting import PATIENCE_SECONDS, until
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.client import connect
from zab.client.recipes import Lock

__all__ = ["run"]

LONG = f"echo ready; exec sleep {PATIENCE_SECONDS}"
ZAB = [sys.executable, "-m", "zab.cli.main"]


@pytest.fixture(scope="module", params=KINDS_OF_LONGEST)
def servers(request: pytest.FixtureRequest) -> Iterator[ZooKeeperEnsemble]:
    with running_processes(request.param, 1, {"tickTime": 500}) as ensemble:
        yield ensemble


@pytest.fixture
def path(tmp_path: Path) -> str:
    return f"/{tmp_path.name}"


def shown(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ZAB, *map(str, words)], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def children(hosts: str, path: str) -> list[str]:
    async def ask() -> list[str]:
        async with connect(hosts) as zk:
            return [] if await zk.exists(path) is None else await zk.get_children(path)

    return trio.run(ask)


async def delete(hosts: str, path: str) -> None:
    async with connect(hosts) as zk:
        await zk.delete(path)


@pytest.mark.parametrize("command", ["lock", "elect"])
def test_the_command_runs_with_a_token_that_grows(servers: ZooKeeperEnsemble, path: str, command: str) -> None:
    tokens = []
    for _ in range(2):
        done = shown("-s", servers.hosts, command, path, "--", "sh", "-c", 'echo "$ZAB_FENCING_TOKEN"')
        assert (done.returncode, done.stderr) == (0, "")
        tokens.append(int(done.stdout))
    assert 0 < tokens[0] < tokens[1]
    assert children(servers.hosts, path) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["/none/command"], 127),
        (["/dev/null"], 126),
    ],
)
def test_its_exit_code_is_ours(servers: ZooKeeperEnsemble, path: str, words: list[str], code: int) -> None:
    done = shown("-s", servers.hosts, "lock", path, "--", *words)
    assert done.returncode == code
    assert ("cannot be run" in done.stderr) == (code in (126, 127))
    assert children(servers.hosts, path) == []


def test_standard_input_is_the_commands(servers: ZooKeeperEnsemble, path: str) -> None:
    done = subprocess.run(
        [*ZAB, "-s", servers.hosts, "lock", path, "--", "cat"], input=b"\xff\n", capture_output=True, check=False
    )
    assert (done.stdout, done.stderr) == (b"\xff\n", b"")


@pytest.mark.parametrize("command", ["lock", "elect"])
def test_who_comes_later_waits(servers: ZooKeeperEnsemble, path: str, command: str) -> None:
    with (
        started("-s", servers.hosts, command, path, "--", "sh", "-c", "echo ready; read line") as first,
        started("-s", servers.hosts, command, path, "--", "echo", "second") as second,
    ):
        # Either may be the first, and the other waits for it.
        until(lambda: len(children(servers.hosts, path)) == 2 or second.poll() is not None)
        late = shown("-s", servers.hosts, command, path, "--wait", "0.3", "--", "echo", "third")
        if second.poll() is None:
            assert (late.returncode, late.stdout) == (75, "")
            assert late.stderr == f"zab: {path}: it did not come within 0.3 s\n"
        out, err = first.communicate("\n", timeout=PATIENCE_SECONDS)
        assert (first.returncode, out, err) == (0, "ready\n", "")
        out, err = second.communicate(timeout=PATIENCE_SECONDS)
        assert (second.returncode, out, err) == (0, "second\n", "")


def test_nobody_is_waited_for_with_wait_0(servers: ZooKeeperEnsemble, path: str) -> None:
    with started("-s", servers.hosts, "lock", path, "--", "sh", "-c", LONG) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        assert shown("-s", servers.hosts, "lock", path, "--wait", "0", "--", "true").returncode == 75
        holder.send_signal(signal.SIGTERM)
        assert holder.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM
    assert shown("-s", servers.hosts, "lock", path, "--wait", "0", "--", "true").returncode == 0


@contextmanager
def heeded(number: signal.Signals) -> Iterator[None]:
    """What is started in the block has it as usual, also where these tests were started with nohup."""
    before = signal.getsignal(number)
    if before is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        if before is signal.SIG_IGN:
            signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_passed_on(servers: ZooKeeperEnsemble, path: str, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got {name}; exit 5' {name}; echo ready; while :; do sleep 0.1; done"
    with heeded(number), started("-s", servers.hosts, "lock", path, "--", "bash", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        # The shell that is the command says things of its own on standard error.
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (5, f"got {name}\n")
    assert children(servers.hosts, path) == []


@pytest.mark.parametrize("command", ["lock", "elect"])
def test_a_signal_ends_the_wait(servers: ZooKeeperEnsemble, path: str, command: str) -> None:
    with started("-s", servers.hosts, command, path, "--", "sh", "-c", LONG) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        with started("-s", servers.hosts, command, path, "--", "echo", "never") as waiting:
            until(lambda: len(children(servers.hosts, path)) == 2)
            waiting.send_signal(signal.SIGINT)
            out, err = waiting.communicate(timeout=PATIENCE_SECONDS)
        assert (waiting.returncode, out, err) == (130, "", "")
        assert len(children(servers.hosts, path)) == 1


def processes_of(mark: str) -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in each.read_bytes():
                found.append(each.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc")
def test_when_the_lock_is_lost_the_command_is_ended(servers: ZooKeeperEnsemble, path: str, tmp_path: Path) -> None:
    """Somebody deletes the znode. TERM is not heeded, so KILL comes; and to all that the command started."""
    mark = f"sleep-{tmp_path.name}"
    below = f"(trap '' TERM; exec -a {mark} sleep 600) &"
    script = f"trap 'echo got TERM' TERM; {below} echo ready; while :; do sleep 0.1; done"
    with started("-s", servers.hosts, "lock", path, "--grace", "0.5", "--", "bash", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        until(lambda: processes_of(mark))
        [znode] = children(servers.hosts, path)

        trio.run(delete, servers.hosts, f"{path}/{znode}")
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 3
    assert out == "got TERM\n"
    assert err.startswith(f"zab: {path}/{znode} may be lost: bash is ended: its znode is gone\n")
    until(lambda: not processes_of(mark))


# Its child, which it leaves, has standard output, too.
LEAVING = """
import os, signal, sys, time
def clean_up(*_):
    time.sleep(0.5)
    os.write(1, b"cleaned up\\n")
    if sys.argv[1] == "ends": os._exit(0)
if os.fork() == 0:
    signal.signal(signal.SIGTERM, clean_up)
    os.write(1, b"ready\\n")
    while True: time.sleep(600)
time.sleep(600)
"""


@pytest.mark.parametrize("does", ["ends", "stays"])
def test_what_the_command_started_has_the_same_time_to_end(servers: ZooKeeperEnsemble, path: str, does: str) -> None:
    """The command itself is gone with TERM. What stays is killed: only then standard output ends."""
    words = ["lock", path, "--grace", "2", "--", sys.executable, "-c", LEAVING, does]
    with started("-s", servers.hosts, *words) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        [znode] = children(servers.hosts, path)
        trio.run(delete, servers.hosts, f"{path}/{znode}")
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (3, "cleaned up\n")
    assert err.endswith("is ended: its znode is gone\n")


def test_a_signal_that_was_ignored_is_not_passed_on(servers: ZooKeeperEnsemble, path: str) -> None:
    """Started like by nohup."""
    command = shlex.join([*ZAB, "-s", servers.hosts, "lock", path, "--", "sh", "-c", "echo ready; read line"])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["sh", "-c", f"trap '' HUP; exec {command}"], text=True, **pipes) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGHUP)
            process.communicate("\n", timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0


def test_a_grace_that_the_session_does_not_have_is_wrong_usage(servers: ZooKeeperEnsemble, path: str) -> None:
    done = shown("-s", servers.hosts, "--session-timeout", "6", "lock", path, "--grace", "2.5", "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--grace 2.5: it is more than a third of the session's 6 s" in done.stderr
    assert children(servers.hosts, path) == []


def test_when_no_server_is_heard_the_command_is_ended_before_the_session(path: str) -> None:
    with (
        running_processes("zab", 1, {"tickTime": 500}) as servers,
        started("--session-timeout", "2", "-s", servers.hosts, "lock", path, "--", "sh", "-c", LONG) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        [member] = servers.members
        member.kill()
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 3
    assert "may be lost: sh is ended: no server is heard, and the session may soon be over\n" in err


def test_when_its_time_is_over_the_command_is_ended(servers: ZooKeeperEnsemble, path: str) -> None:
    done = shown("-s", servers.hosts, "lock", path, "--timeout", "1", "--", "sleep", "600")
    assert done.returncode == 124
    assert children(servers.hosts, path) == []


def test_at_a_terminal_ctrl_c_reaches_the_command_once(servers: ZooKeeperEnsemble, path: str) -> None:
    script = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, lambda *_: print('got INT', flush=True))\n"
        "print('ready', flush=True)\n"
        "print('read', sys.stdin.readline())"
    )
    words = [*ZAB, "-s", servers.hosts, "lock", path, "--", sys.executable, "-c", script]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, words)
    screen = b""

    def read_until(text: bytes) -> None:
        nonlocal screen
        while text not in screen:
            screen += os.read(terminal, 4096)

    try:
        read_until(b"ready")
        os.write(terminal, b"\x03")
        read_until(b"got INT")
        os.write(terminal, b"a line\n")
        read_until(b"read a line")
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert screen.count(b"got INT") == 1


def test_programs_and_commands_take_turns(servers: ZooKeeperEnsemble, path: str) -> None:
    async def act() -> None:
        async with connect(servers.hosts) as zk, Lock(zk, path):
            done = await trio.to_thread.run_sync(
                lambda: shown("-s", servers.hosts, "lock", path, "--wait", "0", "--", "true")
            )
            assert done.returncode == 75
            assert await Lock(zk, path).contenders() == [""]

    trio.run(act)


@pytest.mark.parametrize("words", [["lock", "/a"], ["elect", "/a"], ["elect", "/a", "--wait", "0", "--", "true"]])
def test_wrong_usage_is_2(run: Run, words: list[str]) -> None:
    assert run(*words) == 2


def test_the_shell_has_neither(servers: ZooKeeperEnsemble) -> None:
    with started("-s", servers.hosts, "shell") as process:
        _, err = process.communicate(f"lock /a -- {shlex.quote('true')}\n", timeout=PATIENCE_SECONDS)
    assert process.returncode == 2
    assert "lock is no command of the shell" in err
