"""docs/reference/json.md: every command with `--json` has its row, and prints exactly the fields that it names."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import typer

from datatree.record import Txn
from datatree.zookeeper.log import LOG_HEADER, encode_record
from tests.cli.commands import Run, leaves, run, started
from tests.cli.files.damaged_files import lived
from tests.cli.files.member_files import RARE
from tests.cli.json_page import FIELDS, PAGE, check, check_values, table
from tests.cli.servers.journal_lines import client_port
from tests.client.running import running
from tests.datatree.histories import snapshot
from tests.datatree.zookeeper.histories import history
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.cli.commands import COMMANDS
from zab.cli.json_form import acl_entry, data_fields, hexadecimal, owner_or_none, time_text
from zab.cli.servers.local_ensemble import LocalEnsemble
from zab.client import connect
from zab.host.storage.disk import RealDisk
from zab.simulator.world.verdict import SafetyError
from zab.testing.kit.ports import free_ports

__all__ = ["run"]


WITHOUT = {
    "shell": "its commands have it",
    "secret": "prints nothing",
    "service": "prints a unit of systemd",
    "user": "prints nothing",
    "pipeline": "has --format",
    "completion": "prints a script",
    "touch": "prints nothing",
    "lock": "its command prints",
    "elect": "its command prints",
    "edit": "prints nothing",
    "export": "prints JSON as it is",
}
"""Commands without `--json`, and why."""

LEDGER_LOG = ("create", "append", "read", "tail", "list", "info", "cursors", "trim", "offload", "terminate", "delete")
LEDGER = ["format", "create", "append", "read", "tail", "close", "recover", "delete", "list", "show", "check", "seal"]

ZNODES = {
    "create": "create --json /made x",
    "get": "get --json /rows",
    "set": "set --json /rows y",
    "ls": "ls --json /rows",
    "ls -R": "ls -R --json /rows",
    "ls --page": "ls --page 1 --json /rows",
    "stat": "stat --json /rows",
    "changes": "changes --json --since 0 --count 3",
    "acl get": "acl get --json /rows",
    "acl set": "acl set --json /rows world:anyone:cdrwa",
    "quota set": "quota set --json -n 10 /rows",
    "quota list": "quota list --json /rows",
    "quota delete": "quota delete --json -n /rows",
    "count": "count --json /rows",
    "tree": "tree --json /rows",
    "find": "find --json /rows",
    "du": "du --json /rows",
    "cp": "cp --json /rows /copied",
    "mv": "mv --json /copied /moved",
    "import": "import --json --merge FILE /imported",
    "multi": "multi --json LINES",
    "wait": "wait --json --exists /rows",
    "ephemerals": "ephemerals --json /",
    "sync": "sync --json",
    "whoami": "whoami --json",
    "config": "config --json",
    "4lw": "4lw --json srvr",
    "delete": "delete --json -R /rows",
}
"""In their order, in which each finds what it wants. FILE is an export, LINES are operations."""


SNAPSHOT_LINES = table("Lines of `zab snapshot`")
LOG_LINES = table("Lines of `zab log`")


def with_json(name: str) -> Iterator[str]:
    """The command, or those below it, that have `--json`."""
    app = typer.Typer()
    COMMANDS[name].add_to(app, name)
    app.command("another")(lambda: None)
    found: Any = typer.main.get_command(app)
    for words, command in leaves(name, found.commands[name]):
        if any("--json" in param.opts for param in command.params):
            yield words


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"pipeline"}))
def test_each_command_has_a_row_or_a_reason(name: str) -> None:
    found = set(with_json(name))
    rows = {re.sub(" (-R|--to|--page|--plan|--check)$", "", row) for row in FIELDS if row.split(" ")[0] == name}
    assert found == rows
    assert bool(found) != (name in WITHOUT)


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with running("zab", 1, {}) as servers:
        yield servers.hosts


def test_znode_commands_print_the_fields_of_their_rows(hosts: str, run: Run, tmp_path: Path) -> None:
    assert run("-s", hosts, "create", "/rows", "x") == 0
    assert run("-s", hosts, "create", "/rows/below") == 0
    assert run("-s", hosts, "export", "/rows") == 0
    (tmp_path / "file").write_text(run.out)
    (tmp_path / "lines").write_text("create /multi x\nset /multi y\ncheck /multi\ndelete /multi\n")
    files = {"FILE": tmp_path / "file", "LINES": tmp_path / "lines"}
    for name, words in ZNODES.items():
        assert run("-s", hosts, *(files.get(word, word) for word in words.split())) == 0, (words, run.err)
        lines = run.out.splitlines()
        assert lines, words
        for line in lines:
            check(name, json.loads(line))


def test_every_row_is_run() -> None:
    elsewhere = {
        "watch",
        "snapshot",
        "log",
        "log --to",
        "segment",
        "restore",
        "recover",
        "fsck",
        "certs",
        "ensemble",
        "simulate",
    }
    elsewhere |= {"explore", "lead", "reconfig show"}
    elsewhere |= {f"reconfig {each}{plan}" for each in ("add", "remove", "set") for plan in ("", " --plan")}
    elsewhere |= {"status", "server --check", "doctor", "backup take", "backup list"}
    elsewhere |= {f"topic {each}" for each in ("create", "list", "describe", "alter", "delete")}
    elsewhere |= {f"group {each}" for each in ("list", "describe", "reset", "delete")}
    elsewhere |= {"produce", "consume", "broker list", "broker drain"}  # tests/cli/brokers
    elsewhere |= {f"broker acl {each}" for each in ("add", "list", "remove")}
    elsewhere |= {f"broker quota {each}" for each in ("list", "set", "remove")}
    elsewhere |= {"bookie inspect"}  # tests/cli/files
    elsewhere |= {"backup verify", "backup prune", "support"}  # tests/cli/operations
    elsewhere |= {f"ledger {each}" for each in LEDGER}  # tests/cli/ledger
    elsewhere |= {f"ledger-log {each}" for each in LEDGER_LOG}
    elsewhere |= {"bookie list", "bookie show", "audit status", "audit records"}  # tests/cli/ledger
    assert {*ZNODES, *elsewhere} == FIELDS.keys()


def test_values_that_are_none_are_null(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "create", "/null") == 0
    assert run("-s", hosts, "get", "--json", "/null") == 0
    found = json.loads(run.out)
    assert (found["data"], found["encoding"], found["stat"]["ephemeral_owner"]) == (None, None, None)
    assert run("-s", hosts, "quota", "set", "--json", "-N", "3", "/null") == 0
    assert json.loads(run.out)["limits"] == {"count": None, "bytes": None, "count_hard": 3, "bytes_hard": None}
    assert run("-s", hosts, "quota", "delete", "--json", "/null") == 0
    assert json.loads(run.out) == {"path": "/null", "limits": None}
    assert run("-s", hosts, "acl", "set", "--json", "-R", "/null", "world:anyone:cdrwa") == 0
    assert json.loads(run.out) == {"path": "/null", "count": 1, "stat": None}


def test_events_are_objects(hosts: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the one that a `-w` waits for."""
    from zab.cli.znodes import caller

    next_change = caller.next_change

    async def change(watcher: Any, who: Any) -> Any:
        async with connect(hosts) as zk:
            await zk.set("/watched", b"x")
        return await next_change(watcher, who)

    trio.run(_create, hosts, "/watched")
    monkeypatch.setattr(caller, "next_change", change)
    monkeypatch.setattr("zab.cli.znodes.znode.next_change", change)
    assert run("-s", hosts, "get", "-w", "--json", "/watched") == 0
    answer, event = map(json.loads, run.out.splitlines())
    check("get", answer)
    check("watch", event)
    assert run("-s", hosts, "watch", "-n", "1", "--json", "/watched") == 0
    check("watch", json.loads(run.out))


async def _create(hosts: str, path: str) -> None:
    async with connect(hosts) as zk:
        await zk.create(path)


def test_lines_of_a_snapshot(run: Run, tmp_path: Path) -> None:
    _, tree = history(4, 200)
    path = snapshot(RealDisk(str(tmp_path)), tree, bytes(16))
    assert run("snapshot", "--json", tmp_path / path) == 0
    lines = [json.loads(line) for line in run.out.splitlines()]
    for line in lines:
        assert list(line) == SNAPSHOT_LINES[line["type"]]
        check_values(line)
    assert {line["type"] for line in lines} == SNAPSHOT_LINES.keys()
    counts = [sum(line["type"] == kind for line in lines) for kind in ("znode", "session")]
    assert [lines[-1]["znode_count"], lines[-1]["session_count"]] == counts


def test_lines_of_a_log(run: Run, tmp_path: Path) -> None:
    parts = tuple((txn.type, txn.number, txn.path, txn.data, txn.rest) for txn in RARE if txn.type in (1, 2, 5))
    more = Txn(15, 1_763_700_000_000, 0x55, 1, 14, 0, b"", None, parts)
    path = tmp_path / "log.1"
    path.write_bytes(LOG_HEADER + b"".join(map(encode_record, [*RARE, more])) + bytes(500))
    assert run("log", "--json", path) == 0
    lines = [json.loads(line) for line in run.out.splitlines()]
    common = FIELDS["log"][:-1]
    for line in lines:
        assert list(line) == [*common, *LOG_LINES[line["type"]]]
        check_values(line)
    for part in lines[-1]["parts"]:
        assert list(part) == ["type", *LOG_LINES[part["type"]]]
    assert len(lines[-1]["parts"]) == 4
    # An ensemble of one logs no check outside of a multi, and its create2 is the create of a multi.
    assert {line["type"] for line in lines} >= LOG_LINES.keys() - {"check", "create"}


def test_restored_and_recovered(run: Run, tmp_path: Path) -> None:
    for name in ("backup", "member"):
        (tmp_path / name).mkdir()
        lived(tmp_path / name)
    assert run("restore", tmp_path / "backup", "--json", "--to", tmp_path / "new") == 0, run.err
    check("restore", json.loads(run.out))
    assert run("recover", "--json", tmp_path / "member") == 0
    said = json.loads(run.out)
    check("recover", said)
    assert said["new_ensemble"] is None
    assert run("recover", "--json", "--force", tmp_path / "member") == 0
    done = json.loads(run.out)
    check("recover", done)
    assert (done["zxid"], done["znode_count"]) == (said["zxid"], said["znode_count"])
    assert all(Path(place).is_dir() for place in done["old_files"])
    assert Path(done["path"]).is_file()


def test_lines_of_a_directory_that_is_damaged(run: Run, tmp_path: Path) -> None:
    fields = table("Lines of `zab fsck`")
    for number, (name, at) in enumerate((("log.200000001", 200), ("currentEpoch", 0))):
        member = tmp_path / str(number)
        member.mkdir()
        lived(member)
        path = member / "version-1" / name
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)
        assert run("fsck", "--json", member) == 1
        for line in map(json.loads, run.out.splitlines()):
            assert list(line) == fields[line["type"]]
            check_values(line)


def test_lines_of_certificates(run: Run, tmp_path: Path) -> None:
    fields = table("Lines of `zab certs`")
    place = tmp_path / "certs"
    found = []
    for words in (["--host", "localhost"], ["--add-client", "alice"], ["--renew"], ["--revoke-client", "alice"]):
        assert run("certs", "--json", place, *words) == 0, run.err
        found += [json.loads(line) for line in run.out.splitlines()]
    for line in found:
        assert list(line) == fields[line["type"]]
    assert {line["type"] for line in found} == fields.keys()
    assert all(Path(line["directory"]).is_dir() for line in found if "directory" in line)
    check_values({"time": found[1]["until"]})


def test_simulated_and_explored(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["--seed", "3"], ["--seed", "3", "--seeds", "2", "--jobs", "1"]):
        assert run("simulate", "--json", *words) == 0
        lines = [json.loads(line) for line in run.out.splitlines()]
        for line in lines:
            check("simulate", line)
        assert lines[0]["result"] == "good"
    assert [line["seed"] for line in lines] == [3, 4]
    assert run("explore", "--json", "--writes", "0", "--breaks", "0", "--epochs", "1") == 0
    check("explore", json.loads(run.out))
    partition = ("explore", "--partitions", "--json", "--voters", "2", "--epochs", "1")
    assert run(*partition) == 0
    check("explore", json.loads(run.out))
    assert run("simulate", "--json", "--trace") == 2

    def broken(seed: int, *_: object) -> None:
        raise SafetyError("agreement", f"of {seed}")

    monkeypatch.setattr("zab.cli.servers.simulate.run", broken)
    assert run("simulate", "--json") == 3
    [line] = run.out.splitlines()
    check("simulate", json.loads(line))
    assert json.loads(line)["result"] == "safety"


@pytest.mark.process
def test_lines_of_an_ensemble(tmp_path: Path) -> None:
    fields = table("Lines of `zab ensemble`")
    port = client_port(1)
    broker_port, bookie_port = free_ports(2)
    words = ("ensemble", "--json", "--size", "1", "--data", str(tmp_path), "--client-port", str(port))
    words = (*words, "--brokers", "1", "--broker-port", str(broker_port))
    words = (*words, "--bookies", "1", "--bookie-port", str(bookie_port))
    with started(*words) as process:
        assert process.stdout is not None
        serving = json.loads(process.stdout.readline())
        assert list(serving) == fields["serving"]
        assert serving["hosts"] == f"127.0.0.1:{port}"
        brokers = json.loads(process.stdout.readline())
        assert list(brokers) == fields["brokers"]
        assert brokers["hosts"] == f"127.0.0.1:{broker_port}"
        bookies = json.loads(process.stdout.readline())
        assert list(bookies) == fields["bookies"]
        assert bookies["metadata_service_uri"] == f"zk+hierarchical://127.0.0.1:{port}/ledgers"
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_SECONDS)
    assert fields.keys() == {"serving", "brokers", "bookies", "ended", "broker_ended", "bookie_ended"}


@pytest.mark.parametrize(("kind", "who"), [("ended", "member"), ("broker_ended", "broker"), ("bookie_ended", "bookie")])
def test_an_end_of_a_process_is_an_object(tmp_path: Path, kind: str, who: str) -> None:
    broker_port, bookie_port = free_ports(2)
    ensemble = LocalEnsemble(1, tmp_path, client_port(1), 1, broker_port, 1, bookie_port)
    one = {"member": ensemble.members, "broker": ensemble.brokers, "bookie": ensemble.bookies}[who][0]
    one.process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"], stdin=subprocess.PIPE)
    said: list[Any] = []
    trio.run(ensemble._report_end, one, lambda *told: said.append(told))
    one.process.stdin.close()
    [(text, fields)] = said
    assert list(fields) == table("Lines of `zab ensemble`")[kind]
    assert (fields["type"], fields[who], fields["exit_code"]) == (kind, 1, 3)
    again = {"member": "server", "broker": "broker run", "bookie": "bookie run"}[who]
    assert text.startswith(f"{who} 1 ended with exit code 3, see {one.log_path}; ")
    assert text.endswith(f"; zab {again} {one.config_path} starts it again")


def normal(text: str) -> str:
    """Without what is another one each time."""
    text = re.sub(r'"0x[0-9a-f]+"', '"0x…"', text)
    return re.sub(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"', '"TIME"', text)


def test_the_examples_of_the_page(hosts: str, run: Run) -> None:
    [block] = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    steps = [step.partition("\n") for step in block.split("$ ")[1:]]
    assert len(steps) == 6
    for command, _, expected in steps:
        program, *words = shlex.split(command)
        assert program == "zab"
        assert run("-s", hosts, *words) == 0, command
        assert normal(run.out) == normal(expected)


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, None),
        (-(1 << 63), None),
        ((1 << 63) - 1, None),
    ],
)
def test_times(time_ms: int, text: str | None) -> None:
    assert time_text(time_ms) == text


def test_numbers_of_64_bits() -> None:
    assert (hexadecimal(0), hexadecimal(-1), owner_or_none(0)) == ("0x0", "0xffffffffffffffff", None)


def test_data_says_how_it_is_written() -> None:
    assert data_fields(b"") == {"data": "", "encoding": "utf-8"}
    assert data_fields(b"\xed\xa0\x80") == {"data": "7aCA", "encoding": "base64"}, "half of a pair is no UTF-8"


@pytest.mark.parametrize(
    ("bits", "letters"), [(31, "cdrwa"), (1, "r"), (2, "w"), (4, "c"), (8, "d"), (16, "a"), (0, "")]
)
def test_permissions_have_letters(bits: int, letters: str) -> None:
    assert acl_entry(bits, "world", "anyone") == {"scheme": "world", "id": "anyone", "permissions": letters}
