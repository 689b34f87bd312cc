"""`zab server --check`: all that is wrong with a configuration, and nothing besides."""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path

import pytest

from tests.cli.commands import Run, run
from tests.cli.json_page import table
from zab.member.settings.zoo_cfg import Config, ConfigError
from zab.server.config_check import check
from zab.server.config_file import load
from zab.server.start import open_disk
from zab.service.failure import ServerFailedError

__all__ = ["run"]

MEMBERS = ("server.1=127.0.0.1:2888:3888", "server.2=127.0.0.1:2889:3889", "server.3=127.0.0.1:2890:3890")
ENSEMBLE = ("initLimit=10", "syncLimit=5", "clientPort=2181", *MEMBERS)


def written(directory: Path, *lines: str, my_id: str | None = "1") -> str:
    data = directory / "data"
    data.mkdir(exist_ok=True)
    if my_id is not None:
        (data / "myid").write_text(my_id)
    file = directory / "zoo.cfg"
    file.write_text("".join(f"{line}\n" for line in (f"dataDir={data}", *lines)))
    return str(file)


def found(path: str) -> list[tuple[str, int | None]]:
    return [(Path(fault.file).name, fault.line) for fault in check(path).faults]


def test_a_good_one_is_good(tmp_path: Path) -> None:
    checked = check(written(tmp_path, *ENSEMBLE))
    assert (checked.faults, checked.warnings, checked.exit_code) == ((), (), 0)
    assert checked.config is not None
    assert checked.config.server_id == 1


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (("tickTime=x", *ENSEMBLE), [2]),
        (("tickTime=x", "maxCnxns=lots", *ENSEMBLE, "jute.maxbuffer=many"), [2, 3, 10]),
        (("minSessionTimeout=50000", "maxSessionTimeout=40000", "sslquorum=true", *ENSEMBLE), [3, 4]),
        # One refusal goes over two lines of the file.
        (("tickTime=\\", "  x", "maxCnxns=lots", *ENSEMBLE), [2, 4]),
        ((*ENSEMBLE, "server.4=nowhere"), [8]),
        (("a=\\u00", "tickTime=x", *ENSEMBLE), [2, 3]),
        (("ssl.keyStore.location=/nowhere.pem", *ENSEMBLE), [2]),
        (MEMBERS[:2], [None, None]),
        # The value of one is the key of the other.
        (("tickTime=x", "maxCnxns=tickTime", *ENSEMBLE), [2, 3]),
        # Among the lines of members.
        ((*ENSEMBLE, "server.4=nowhere", "server.x=127.0.0.1:1:2", "server.5=127.0.0.1:2888:3888"), [8, 9, 10, 10]),
        ((*ENSEMBLE[1:], "server.4=nowhere"), [7, None]),
        ((*ENSEMBLE, "server.4=nowhere", "group.1=1:2:9", "weight.8=1"), [8, None, None, None]),
        ((*ENSEMBLE, "group.1=1:1", "group.2=x"), [8, 9]),
        # A rule is broken with each port that may be meant.
        (("secureClientPort=x", *ENSEMBLE), [2, 2, 2]),
        (("sslQuorum=true", *ENSEMBLE), [2, 2]),
        (("tickTime=\\u00", "maxCnxns=\\u", *ENSEMBLE), [2, 3]),
    ],
)
def test_every_error_has_its_line(tmp_path: Path, lines: tuple[str, ...], wrong: list[int | None]) -> None:
    path = written(tmp_path, *lines)
    assert [line for _, line in found(path)] == wrong
    with pytest.raises(ConfigError) as first:
        load(path)
    assert (first.value.line, first.value.reason) in [(fault.line, fault.reason) for fault in check(path).faults]


def test_a_library_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    [fault] = check(written(tmp_path, "tracing.sampleRatio=1", *ENSEMBLE)).faults
    assert (fault.line, fault.exit_code) == (2, 2)
    assert "needs pip install 'zab[tracing]'" in fault.reason
    assert check(written(tmp_path, "tracing.sampleRatio=0", *ENSEMBLE)).faults == ()


def test_what_two_readers_refuse_is_said_once(tmp_path: Path) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text('Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_a="b"; };')
    jaas.chmod(0o644)
    [fault] = check(written(tmp_path, f"java.security.auth.login.config={jaas}", *ENSEMBLE)).faults
    assert fault.line == 2


def test_a_jaas_file_that_says_nothing_is_a_warning(tmp_path: Path) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.touch()
    checked = check(written(tmp_path, f"java.security.auth.login.config={jaas}", *ENSEMBLE))
    assert checked.faults == ()
    [warning] = checked.warnings
    assert (warning.file, warning.key) == (str(jaas), "java.security.auth.login.config")


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        # Without the port there is no TLS, and the store would be idle: that is no second error.
        (("client.portUnification=x", "ssl.keyStore.location=/nowhere.pem", *ENSEMBLE), [2]),
        # A secret, a store and a directory without a value are not looked for elsewhere.
        (
            ("quorum.secretFile=", "sslQuorum=x", "ssl.quorum.keyStore.location=", "dataLogDir=", *ENSEMBLE),
            [2, 3, 4, 5],
        ),
        # It may be large enough.
        (("outputLimitBytes=x", "totalInputLimitBytes=x", *ENSEMBLE), [2, 3]),
        # Without the port, nobody could reach the server.
        (("clientPort=\\u00",), [2]),
        (("version=\\u", "authProvider.1=x", "ensembleAuthName=y", *ENSEMBLE), [2, 3]),
        # One line of a member may be the second participant, or an observer.
        (("standaloneEnabled=false", "clientPort=1", "server.1=127.0.0.1"), [4]),
        (("clientPort=1", *MEMBERS[:1], "server.2=127.0.0.1"), [4]),
        # Without its line, this member is in none.
        (("initLimit=10", "syncLimit=5", "clientPort=2181", "server.1=127.0.0.1", *MEMBERS[1:]), [5]),
        (("initLimit=x", "syncLimit=5", "clientPort=2181", *MEMBERS), [2]),
    ],
)
def test_what_follows_from_an_error_is_none(tmp_path: Path, lines: tuple[str, ...], wrong: list[int]) -> None:
    assert [line for _, line in found(written(tmp_path, *lines))] == wrong


INDEPENDENT = (
    *("tickTime=2s", "maxCnxns=lots", "sslquorum=true", "\\u00=1", "secureClientPort=2181", "server.7=nowhere"),
    *("minSessionTimeout=9\nmaxSessionTimeout=8", "outputLimitBytes=1", "peerType=boss", "zookeeper.skipACL=yes"),
    *("sessionRequireClientSASLAuth=true", "enforce.auth.enabled=true", "quorum.secretFile=/nowhere", "version=x"),
    *("admin.needClientAuth=true", "dataLogDir=/dev/null/log", "server.8=127.0.0.1:2888:9:observer", "weight.1=x"),
    *("sasl.serverconfig=x", "kerberos.removeHostFromPrincipal=true"),
)
FORM = "host:quorumPort:electionPort[:participant|observer] (an IPv6 address is written in brackets)"
ORACLE = "an oracle may tell both of two members to go on alone: add a third voter"
SUSPICIOUS = ("initLimitt=3", "forceSync=no", "globalOutstandingLimitt=1", "preAllocSize=64", "preAllocSize=65")


def test_no_error_hides_another_one(tmp_path: Path) -> None:
    def told(*lines: str) -> set[str]:
        checked = check(written(tmp_path, *ENSEMBLE, *lines))
        return {fault.reason for fault in checked.faults} | {each.reason for each in checked.warnings}

    alone = {line: told(line) for line in INDEPENDENT}
    assert all(alone.values())
    for one, other in itertools.combinations(INDEPENDENT, 2):
        missing = (alone[one] | alone[other]) - told(one, other)
        assert not missing, (one, other)


@pytest.mark.parametrize("wrong", ["", *INDEPENDENT, "dynamicConfigFile=/nowhere", "dataDir="])
def test_no_error_hides_a_warning(tmp_path: Path, wrong: str) -> None:
    members = () if wrong.startswith("dynamicConfigFile") else MEMBERS
    checked = check(written(tmp_path, *ENSEMBLE[:3], wrong, *SUSPICIOUS, *members))
    keys = ["initLimitt", "forceSync", "globalOutstandingLimitt", "preAllocSize"]
    assert [each.key for each in checked.warnings if each.key in keys] == keys
    assert len(set(checked.warnings)) == len(checked.warnings)


def test_all_that_is_wrong_in_the_order_of_the_lines(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "zoo.cfg"
    wrong = (
        "dataLogDir=/dev/null",
        "initLimitt=3",
        "tickTime=2s",
        "server.1=a",
        "server.2=127.0.0.1:1:2",
        "oraclePath=/o",
    )
    file.write_text("\n".join(wrong))
    assert run("server", "--check", file) == 2
    assert [line.partition(f" {file}:")[::2] for line in run.out.splitlines()] == [
        ("error:", "1: dataLogDir: /dev/null is no directory"),
        ("error:", "3: tickTime: '2s' is not a whole number"),
        ("error:", f"4: 'a' does not have the form {FORM}"),
        ("error:", " dataDir is not set"),
        ("warning:", "2: initLimitt: the key is unknown and has no effect. Did you mean initLimit?"),
        ("warning:", f"6: oraclePath: the key has no effect: {ORACLE}"),
    ]


def test_each_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "tickTime=x", f"dynamicConfigFile={tmp_path}/a/nowhere", "sslquorum=true", my_id="x")
    assert found(path) == [("zoo.cfg", 2), ("zoo.cfg", 4), ("nowhere", None), ("myid", 1)]


def test_stores_are_read_without_an_id_and_without_each_other(tmp_path: Path) -> None:
    lines = ("sslQuorum=true", "ssl.quorum.keyStore.location=/no.pem", "secureClientPort=1", *ENSEMBLE)
    faults = check(written(tmp_path, *lines, my_id=None)).faults
    assert [(Path(fault.file).name, fault.line) for fault in faults] == [
        *[("zoo.cfg", 2), ("zoo.cfg", 3), ("zoo.cfg", 4), ("zoo.cfg", 4), ("myid", None)],
    ]


BEYOND = ("initLimit=10", "syncLimit=5", "clientPort=2181", *MEMBERS[:2], "server.3=192.0.2.7:2890:3890")


@pytest.mark.parametrize("my_id", ["1", None])
def test_members_on_several_machines_without_a_proof(tmp_path: Path, my_id: str | None) -> None:
    path = written(tmp_path, *BEYOND, my_id=my_id)
    assert found(path)[0] == ("zoo.cfg", 7)
    assert "server.3: 192.0.2.7" in check(path).faults[0].reason
    assert "zab secret" in check(path).faults[0].reason


@pytest.mark.parametrize(
    "lines", [(*BEYOND, "quorum.insecure=true"), (*ENSEMBLE[:3], "server.1=192.0.2.7:2890:3890"), ENSEMBLE]
)
def test_nobody_elsewhere_needs_a_proof(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert found(written(tmp_path, *lines)) == []


def test_a_secret_is_a_proof(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{'ab' * 32}\n")
    secret.chmod(0o600)
    assert found(written(tmp_path, *BEYOND, f"quorum.secretFile={secret}")) == []


def test_a_wrong_line_of_a_dynamic_file(tmp_path: Path) -> None:
    dynamic = tmp_path / "zoo.cfg.dynamic"
    dynamic.write_text("\n".join(("server.9=x", *MEMBERS, "maxCnxns=5")))
    path = written(
        tmp_path, "tickTime=x", "initLimit=10", "syncLimit=5", "clientPort=1", f"dynamicConfigFile={dynamic}"
    )
    assert found(path) == [("zoo.cfg", 2), ("zoo.cfg.dynamic", 1), ("zoo.cfg.dynamic", 5)]


def test_the_files_that_it_names_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, f"quorum.secretFile={tmp_path}/no", f"sasl.usersFile={tmp_path}/no", *ENSEMBLE)
    faults = check(path).faults
    assert [(fault.line, fault.reason.partition(":")[0]) for fault in faults] == [
        (2, "quorum.secretFile"),
        (3, "sasl.usersFile"),
    ]


@pytest.mark.parametrize("my_id", [None, "x", "7"])
def test_without_a_usable_id_the_rest_is_checked(tmp_path: Path, my_id: str | None) -> None:
    checked = check(written(tmp_path, "initLimitt=3", *ENSEMBLE, my_id=my_id))
    assert len(checked.faults) == 1
    assert checked.exit_code == 2
    if my_id != "7":
        assert [warning.key for warning in checked.warnings] == ["initLimitt"]


def test_a_directory_that_cannot_be_used_is_exit_code_3(tmp_path: Path) -> None:
    path = written(tmp_path, "clientPort=1", "datadir.autocreate=false", f"dataLogDir={tmp_path}/data/myid/log")
    checked = check(path)
    assert (checked.exit_code, [fault.line for fault in checked.faults]) == (3, [4])
    assert "is no directory" in checked.faults[0].reason


def test_each_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "clientPort=1", "tickTime=x", "dataLogDir=/dev/null/log", "dataDir=/dev/null/data")
    assert (found(path), check(path).exit_code) == ([("zoo.cfg", 3), ("zoo.cfg", 4), ("zoo.cfg", 5)], 2)


def test_a_directory_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Config) -> None:
        raise PermissionError("no")

    monkeypatch.setattr("zab.server.config_check.of_zookeeper", refused)
    [fault] = check(written(tmp_path, *ENSEMBLE)).faults
    assert (fault.exit_code, fault.reason) == (3, "no")


@pytest.mark.parametrize("key", ["dataDir", "dataLogDir"])
def test_a_directory_of_zookeeper_is_not_begun_in(tmp_path: Path, key: str) -> None:
    of_zookeeper = tmp_path / ("data" if key == "dataDir" else "log") / "version-2"
    path = written(tmp_path, *ENSEMBLE, f"dataLogDir={of_zookeeper.parent}")
    of_zookeeper.mkdir(parents=True)
    assert check(path).faults == ()
    (of_zookeeper / "log.100000001").touch()
    [fault] = check(path).faults
    assert (fault.exit_code, "zab restore" in fault.reason) == (3, True)
    with pytest.raises(ServerFailedError) as failure:
        open_disk(load(path))
    assert (failure.value.exit_code, failure.value.reason) == (3, fault.reason)
    assert not (tmp_path / "data" / "version-1").exists()
    (tmp_path / "data" / "version-1").mkdir()
    (tmp_path / "data" / "version-1" / "acceptedEpoch").touch()
    assert check(path).faults == (), "who has begun here goes on, also without a member record"


def test_few_descriptors_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.server.config_check.resource.getrlimit", lambda _: (256, 256))
    [fault] = check(written(tmp_path, *ENSEMBLE)).faults
    assert "256 file descriptors" in fault.reason


def tree(directory: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in directory.rglob("*")}


def test_the_command_starts_and_writes_nothing(tmp_path: Path, run: Run) -> None:
    path = written(tmp_path, "initLimitt=3", *ENSEMBLE)
    before = tree(tmp_path)
    assert run("server", "--check", path) == 0
    assert run.out.splitlines() == [
        f"warning: {path}:2: initLimitt: the key is unknown and has no effect. Did you mean initLimit?",
        f"{path}: a server would start with it, server 1 of 3, if its ports are free",
    ]
    assert tree(tmp_path) == before
    assert not (tmp_path / "data" / "version-1").exists()


def test_the_lines_of_json(tmp_path: Path, run: Run) -> None:
    fields = table("Lines of `zab server --check`")
    path = written(tmp_path, "initLimitt=3", "quorum.secretFile=/nowhere", *ENSEMBLE)
    assert run("server", "--check", "--json", path) == 2
    lines = [json.loads(line) for line in run.out.splitlines()]
    assert [line["type"] for line in lines] == ["error", "warning", "configuration"]
    assert all(list(line) == fields[line["type"]] for line in lines)
    assert (lines[-1]["is_good"], lines[-1]["exit_code"]) == (False, 2)


def test_wrong_usage_and_a_file_that_is_not_there(tmp_path: Path, run: Run) -> None:
    assert run("server", "--json", os.devnull) == 2
    assert run("server", "--check", tmp_path / "no") == 2
    assert run.out == f"error: {tmp_path / 'no'}: it cannot be read: No such file or directory\n"
