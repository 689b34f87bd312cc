"""The load generator and the page it fills: counting, errors and arithmetic.

How fast anything is, is not tested.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cells import Cell, Result, all_cells
from bench.table import Comparison, Measured, markdown, quartiles
from datatree.opcodes import OpCode
from datatree.request_decoding import decode
from datatree.requests import Multi, SetData
from tests.bench.generator import echoing, needs_compiler, programs

__all__ = ["programs"]


@pytest.fixture
def echo_port(programs: Path) -> Iterator[int]:
    with echoing(programs) as port:
        yield port


def load(programs: Path, port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [programs / "load", "--servers", f"127.0.0.1:{port},127.0.0.1:{port}", "--warmup", "0"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=120)


@needs_compiler
@pytest.mark.parametrize("operation", ["set", "get", "create", "mix", "children", "multi"])
@pytest.mark.parametrize(("connections", "flight"), [(1, 1), (7, 3), (3, 100)])
def test_every_operation_runs_against_the_echo_server(
    programs: Path, echo_port: int, operation: str, connections: int, flight: int
) -> None:
    options = ["--op", operation, "--connections", str(connections), "--flight", str(flight)]
    done = load(programs, echo_port, *options, "--operations", "250")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["op"], result["connections"], result["flight"], result["size"]) == (
        operation,
        connections,
        flight,
        100,
    )
    assert result["operations"] == 250 * connections
    assert result["errors"] == 0
    assert 0 < result["p50_us"] <= result["p99_us"] <= result["max_us"] * 1.01
    assert result["per_second"] == pytest.approx(result["operations"] / result["seconds"], rel=0.05)


@needs_compiler
def test_values_larger_than_the_socket_buffers_pass(programs: Path, echo_port: int) -> None:
    done = load(programs, echo_port, "--op", "set", "--flight", "30", "--size", "500000", "--operations", "60")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["operations"] == 60


@needs_compiler
def test_a_run_ends_when_its_time_is_over(programs: Path, echo_port: int) -> None:
    done = load(programs, echo_port, "--op", "get", "--seconds", "0.05")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["seconds"] >= 0.05


class ScriptedServer:
    """Answers whatever one connection sends; setData with an error now and then, out of order, or byte by byte."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.frames: list[bytes] = []
        self.error_every = 0
        self.xid_shift = 0
        self.piecewise = False
        self.timeout_ms = 30_000
        self.holds_back = False
        """Answers a setData when it is pinged."""
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        with self.listener, self.listener.accept()[0] as connection, connection.makefile("rb") as stream:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            held: list[bytes] = []
            # Who ends before it has read everything resets the connection.
            with contextlib.suppress(OSError):
                while prefix := stream.read(4):
                    frame = stream.read(struct.unpack(">i", prefix)[0])
                    self.frames.append(frame)
                    answer = self._answer(len(self.frames), frame)
                    if self.holds_back and len(self.frames) > 1 and struct.unpack_from(">i", frame, 4)[0] == 5:
                        held.append(answer)
                        continue
                    self._send(connection, answer)
                    while held:
                        self._send(connection, held.pop())

    def _answer(self, index: int, frame: bytes) -> bytes:
        if index == 1:
            return struct.pack(">iiqi16sb", 0, self.timeout_ms, 1, 16, bytes(16), 0)
        xid, operation = struct.unpack_from(">ii", frame)
        failed = self.error_every and operation == 5 and index % self.error_every == 0
        return struct.pack(">iqi", xid + (self.xid_shift if operation == 5 else 0), index, -101 if failed else 0)

    def _send(self, connection: socket.socket, body: bytes) -> None:
        message = struct.pack(">i", len(body)) + body
        for start in range(len(message)) if self.piecewise else [0]:
            connection.sendall(message[start : start + 1] if self.piecewise else message)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    scripted = ScriptedServer()
    yield scripted
    scripted.thread.join(60)
    assert not scripted.thread.is_alive()


@needs_compiler
def test_replies_with_an_error_are_counted(programs: Path, server: ScriptedServer) -> None:
    server.error_every = 2
    result = json.loads(load(programs, server.port, "--op", "set", "--operations", "40").stdout)
    assert (result["operations"], result["errors"]) == (40, 20)


@needs_compiler
def test_replies_that_come_byte_by_byte_are_put_together(programs: Path, server: ScriptedServer) -> None:
    server.piecewise = True
    done = load(programs, server.port, "--op", "set", "--flight", "3", "--operations", "20")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["operations"] == 20


@needs_compiler
def test_a_session_is_kept_while_nothing_is_sent(programs: Path, server: ScriptedServer) -> None:
    server.timeout_ms, server.holds_back = 300, True
    done = load(programs, server.port, "--op", "set", "--operations", "3")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["operations"] == 3
    pings = [frame for frame in server.frames[1:] if struct.unpack(">ii", frame[:8]) == (-2, OpCode.PING)]
    assert len(pings) >= 3


@needs_compiler
def test_a_reply_out_of_order_ends_the_run(programs: Path, server: ScriptedServer) -> None:
    server.xid_shift = 1
    done = load(programs, server.port, "--op", "set")
    assert done.returncode == 1
    assert "where 1 was due" in done.stderr


@needs_compiler
def test_what_is_created_has_paths_of_its_own_and_is_deleted_again(programs: Path, server: ScriptedServer) -> None:
    done = load(programs, server.port, "--op", "create", "--flight", "5", "--operations", "20")
    assert done.returncode == 0, done.stderr
    paths = {1: list[bytes](), 2: list[bytes]()}
    for frame in server.frames[1:]:
        operation = struct.unpack_from(">i", frame, 4)[0]
        if operation in paths:
            paths[operation].append(frame[12 : 12 + struct.unpack_from(">i", frame, 8)[0]])
    created, deleted = paths[1], paths[2]
    assert created[:3] == [b"/bench", b"/bench/c00000", b"/bench/c00000/00000000"]
    assert len(set(created)) == len(created) == 22
    assert sorted(deleted) == sorted(created)


def paths_of(frames: list[bytes], operation: int) -> list[bytes]:
    """The requests with that opcode, in order."""
    found = [frame for frame in frames[1:] if struct.unpack_from(">i", frame, 4)[0] == operation]
    return [frame[12 : 12 + struct.unpack_from(">i", frame, 8)[0]] for frame in found]


@needs_compiler
def test_with_keep_nothing_is_deleted_and_among_goes_to_what_is_there(programs: Path, server: ScriptedServer) -> None:
    kept = ["--keep", "--root", "/tree", "--among", "50"]
    done = load(programs, server.port, "--op", "set", *kept, "--flight", "7", "--operations", "400")
    assert done.returncode == 0, done.stderr
    assert paths_of(server.frames, OpCode.CREATE) == [b"/tree", b"/tree/c00000"]
    assert set(paths_of(server.frames, OpCode.SET_DATA)) == {b"/tree/c00000/%08x" % n for n in range(50)}
    assert not paths_of(server.frames, OpCode.DELETE)


@needs_compiler
def test_the_parts_of_a_multi_are_sets_of_the_own_znode(programs: Path, server: ScriptedServer) -> None:
    done = load(programs, server.port, "--op", "multi", "--parts", "3", "--size", "5", "--operations", "2")
    assert done.returncode == 0, done.stderr
    sent = [frame[8:] for frame in server.frames[1:] if struct.unpack_from(">i", frame, 4)[0] == OpCode.MULTI]
    part = (int(OpCode.SET_DATA), SetData(b"/bench/c00000", b"x" * 5, -1))
    assert [decode(OpCode.MULTI, body) for body in sent] == [Multi((part, part, part))] * 2


@needs_compiler
def test_everybody_lists_the_children_of_the_first(programs: Path, server: ScriptedServer) -> None:
    done = load(programs, server.port, "--op", "children", "--operations", "2")
    assert done.returncode == 0, done.stderr
    assert paths_of(server.frames, OpCode.GET_CHILDREN) == [b"/bench/c00000"] * 2


@needs_compiler
@pytest.mark.parametrize(
    "arguments",
    [
        ["--op", "sett"],
        ["--op", "delete"],
        ["--op", "create", "--among", "3"],
        ["--root", "bench"],
        ["--parts", "0"],
        ["--flight", "0"],
        ["--seconds"],
        ["--operations", "-1"],
        ["--color", "red"],
        ["--tls-cert", "c.pem"],
    ],
)
def test_wrong_usage_has_exit_code_2(programs: Path, arguments: list[str]) -> None:
    done = load(programs, 1, *arguments)
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_the_cells_are_those_of_the_table_each_once() -> None:
    keys = [cell.key for cell in all_cells()]
    assert len(keys) == len(set(keys)) == 4 * (3 * 2 + 2) + 1
    assert {"set:1x1:leader", "get:300x1:follower", "mix:3x100:all", "set:30x100:all:1024"} <= set(keys)


def test_quartiles_of_rounds() -> None:
    assert quartiles([3, 1, 2, 5, 4]) == (2, 3, 4)
    assert quartiles([7]) == (7, 7, 7)


def test_the_page_shows_medians_ratios_and_errors() -> None:
    measured = Measured(
        Cell("set", 1, 1, "leader"),
        [Result(100, 10, 20, 0), Result(200, 10, 20, 0), Result(100, 30, 50, 0)],
        [Result(200, 5, 6, 0), Result(200, 5, 6, 3), Result(300, 7, 9, 0)],
        1_000_000,
    )
    text = markdown(Comparison(["2 cores"], [measured], {"fresh": ([100, 120, 110], [20, 22, 24])}, ([0.4], [0.1])))
    assert "- 2 cores" in text
    row = next(line for line in text.splitlines() if line.startswith("| set"))
    assert re.split(r" *\| *", row)[1:-1] == [
        "set, 1 x 1, on the leader (3 errors)",
        "100",
        "200",
        "**2.00** (1.50-2.50)",
        "10 · 5",
        "20 · 6",
        "1,000,000",
    ]
    assert "| fresh | 100 · 120 · 110 | 20 · 22 · 24 | **0.20** |" in text
    assert "| median of 1 (quartiles) | 0.400 (0.400-0.400) | 0.100 (0.100-0.100) | **0.25** |" in text
