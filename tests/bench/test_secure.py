"""The generator in TLS against a member, and the benchmark of the secret and of TLS: what it does, not how fast."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench import calls, cells, secure
from bench.calls import Counted
from bench.cells import Cell, Result, run_operations
from bench.kinds import KINDS
from bench.table import README, Beside, ratio_table, write_readme
from tests.bench.generator import SOURCES, has_openssl, needs_compiler, programs, tls_programs
from tests.rigs.certificates import Certificates
from tests.rigs.zab_server import zab_servers
from zab.testing.kit.ports import free_ports

__all__ = ["programs", "tls_programs"]

pytestmark = [needs_compiler, pytest.mark.long]


@dataclass(frozen=True)
class Member:
    """Its two ports, and what a client shows and believes."""

    plain: str
    secure: str
    certificates: Certificates
    client: Path

    @property
    def tls(self) -> list[str]:
        return ["--tls-ca", f"{self.client}/truststore.pem", "--tls-cert", f"{self.client}/keystore.pem"]


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    certificates = Certificates(tmp_path_factory.mktemp("certificates"))
    stores = certificates.member("127.0.0.1")
    [port] = free_ports(1)
    lines: dict[str, str | int] = {
        "secureClientPort": port,
        "ssl.keyStore.location": f"{stores}/keystore.pem",
        "ssl.trustStore.location": f"{stores}/truststore.pem",
    }
    with zab_servers(1, configuration=lines) as servers:
        yield Member(servers.members[0].host, f"127.0.0.1:{port}", certificates, certificates.client("alice"))


def load(directory: Path, servers: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [directory / "load", "--servers", servers, "--warmup", "0", "--operations", "40"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("operation", ["set", "get", "create", "mix"])
@pytest.mark.parametrize(("connections", "flight"), [(1, 1), (7, 100)])
def test_every_operation_runs_over_tls(
    tls_programs: Path, member: Member, operation: str, connections: int, flight: int
) -> None:
    options = ["--op", operation, "--connections", str(connections), "--flight", str(flight)]
    done = load(tls_programs, member.secure, *member.tls, *options)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["operations"], result["errors"]) == (40 * connections, 0)


@pytest.mark.parametrize("operation", ["set", "get"])
@pytest.mark.parametrize("is_secure", [False, True])
def test_what_fills_every_buffer_passes_in_part_both_ways(
    tls_programs: Path, member: Member, operation: str, is_secure: bool
) -> None:
    options = ["--op", operation, "--flight", "30", "--size", "500000"]
    servers, tls = (member.secure, member.tls) if is_secure else (member.plain, [])
    done = load(tls_programs, servers, *tls, *options)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["operations"], result["errors"]) == (40, 0)


def test_server_refuses_who_shows_no_certificate(tls_programs: Path, member: Member) -> None:
    done = load(tls_programs, member.secure, *member.tls[:2])
    assert done.returncode == 1
    assert "certificate required" in done.stderr


def test_server_of_another_authority_is_refused(tls_programs: Path, member: Member, tmp_path: Path) -> None:
    other = Certificates(tmp_path).client("alice")
    done = load(tls_programs, member.secure, "--tls-ca", f"{other}/truststore.pem", *member.tls[2:])
    assert done.returncode == 1
    assert re.search(r"TLS with 127\.0\.0\.1: .*certificate", done.stderr)


def test_server_with_a_certificate_for_another_host_is_refused(tls_programs: Path, member: Member) -> None:
    done = load(tls_programs, member.secure.replace("127.0.0.1", "localhost"), *member.tls)
    assert done.returncode == 1
    assert "TLS with localhost: hostname mismatch" in done.stderr


def test_server_without_tls_is_refused(tls_programs: Path, member: Member) -> None:
    done = load(tls_programs, member.plain, *member.tls)
    assert done.returncode == 1
    assert "TLS with 127.0.0.1:" in done.stderr


def test_file_that_is_none_is_named(tls_programs: Path, member: Member, tmp_path: Path) -> None:
    done = load(tls_programs, member.secure, "--tls-ca", str(tmp_path / "none.pem"))
    assert (done.returncode, done.stderr) == (2, f"load: {tmp_path}/none.pem: No such file or directory\n")
    key = ["--tls-key", f"{member.client}/truststore.pem"]
    done = load(tls_programs, member.secure, *member.tls, *key)
    assert done.returncode == 2
    assert f"load: {key[1]}: " in done.stderr


def test_generator_compiled_without_openssl_refuses_in_a_sentence(programs: Path) -> None:
    done = load(programs, "127.0.0.1:1", "--tls-ca", "ca.pem")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("load: no TLS: ")


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_makefile_compiles_tls_where_the_headers_are() -> None:
    wanted = ["make", "--dry-run", "--always-make", "bench/build/load"]
    done = subprocess.run(wanted, cwd=SOURCES.parent, capture_output=True, text=True, check=True)
    assert ("-DWITH_TLS" in done.stdout) == has_openssl()


@pytest.mark.slow
def test_the_smallest_run_compares_every_kind(
    tls_programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked_seconds = []

    def run_few(
        hosts: str, cell: Cell, *, seconds: float, warmup_seconds: float, options: Sequence[str] = ()
    ) -> Result:
        """How many operations a machine does in a moment, nobody knows: so these are counted."""
        asked_seconds.append(seconds)
        return run_operations(hosts, cell, 20, options=options)

    monkeypatch.setattr(cells, "BUILD", tls_programs)
    monkeypatch.setattr(secure, "run_load", run_few)
    smallest = ["--rounds", "1", "--seconds", "0.5", "--operations", "0", "--cells", "set:1x1:*", "--no-readme"]
    monkeypatch.setattr(sys, "argv", ["bench.secure", *smallest])
    assert secure.main() == 0
    assert asked_seconds == [secure.WARMUP_SECONDS] * len(KINDS) + [0.5] * len(KINDS)
    out, err = capsys.readouterr()
    header, _, row = [line for line in out.splitlines() if line.startswith("|")]
    assert [column.strip() for column in header.split("|")[2:-2]] == ["plain/s", *KINDS[1:]]
    assert row.startswith("| set, 1 x 1, on the leader | ")
    assert re.search(
        rf"round 1: set, 1 x 1, on the leader: {', '.join(f'{kind} [1-9][0-9,]*' for kind in KINDS)}\n", err
    )


def test_unknown_cells_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.secure", "--cells", "sett:*"])
    with pytest.raises(SystemExit, match=r"no cell is one of sett:\*"):
        secure.main()


@pytest.mark.slow
@pytest.mark.longest
def test_the_calls_of_an_operation_are_printed_for_every_kind_cell_and_member(
    tls_programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cells, "BUILD", tls_programs)
    monkeypatch.setattr(sys, "argv", ["bench.calls", "--operations", "20", "--top", "1"])
    monkeypatch.setenv("PYTHONPATH", str(SOURCES.parent))
    assert calls.main() == 0
    _, *lines = capsys.readouterr().out.splitlines()
    rows = [(line[:12].strip(), line[13:40].strip(), *line[41:].split()) for line in lines if line[:12].strip()]
    roles = ("follower", "follower", "leader")
    expected = [(kind, cell.title, role) for kind in KINDS for cell in calls.CELLS for role in roles]
    assert sorted(row[:3] for row in rows) == sorted(expected)
    assert all(float(count) > 0 for row in rows if row[2] == "leader" for count in row[3:])
    # The most frequent function of each member is below its row.
    assert len(lines) == 2 * len(rows)


CELL = Cell("set", 1, 1, "leader")


def test_the_page_shows_the_ratios_by_the_first() -> None:
    first = [Result(100, 10, 20, 0), Result(200, 10, 20, 0), Result(100, 30, 50, 0)]
    other = [Result(50, 20, 40, 0), Result(100, 22, 40, 2), Result(75, 30, 50, 0)]
    header, _, row = ratio_table([Beside(CELL, {"plain": first, "secret": other})]).splitlines()
    assert header == "| connections x in flight | plain/s | secret | p50 µs plain · secret |"
    assert row == "| set, 1 x 1, on the leader (2 errors) | 100 | **0.50** (0.50-0.62) | 10 · 22 |"


def test_the_page_shows_the_calls_of_the_leader_and_the_mean_of_the_followers() -> None:
    counts = [
        Counted("plain", cell, role, 10, python, 2 * python, [])
        for cell in (CELL, Cell("get", 1, 1, "leader"))
        for role, python in (("follower", 10.0), ("leader", 1234.0), ("follower", 11.0))
    ]
    _, _, *rows = secure.calls_table(counts).splitlines()
    assert rows == [
        "| set, 1 x 1, on the leader | leader | 1,234.0 · 2,468.0 |",
        "| get, 1 x 1, on the leader | leader | 1,234.0 · 2,468.0 |",
        "| set, 1 x 1, on the leader | follower | 10.5 · 21.0 |",
    ]


def test_each_benchmark_writes_between_its_own_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "README.md"
    page.write_text(README.read_text())
    monkeypatch.setattr("bench.table.README", page)
    write_readme("compared", "make bench")
    write_readme("secured\n", secure.TARGET)
    begin, between, after = page.read_text().partition("<!-- make bench: end -->")
    assert begin.endswith("<!-- make bench: begin -->\n\ncompared\n")
    assert between
    assert after.count("<!-- make bench-secure: begin -->\n\nsecured\n\n<!-- make bench-secure: end -->") == 1
