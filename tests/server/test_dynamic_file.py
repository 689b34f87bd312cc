"""The files of a server's configuration after a reconfiguration: read again they say what is in force."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zab.configuration.dynamic import Ensemble
from zab.configuration.reconfiguration import ensemble_of
from zab.member.settings.zoo_cfg import ConfigError
from zab.server import dynamic_file
from zab.server.config_file import load
from zab.server.dynamic_file import write_configuration

OF_FILE = """# Of the operator
tickTime=500
initLimit=10
syncLimit=5
clientPort=2181
server.1=127.0.0.1:2881:3881
server.2=127.0.0.1:2882:3882
server.3=127.0.0.1:\\
   2883:3883
# The end
"""


def in_force(version: int, ports: str = ";127.0.0.1:400{sid}") -> Ensemble:
    lines = [f"server.{sid}=127.0.0.1:288{sid}:388{sid}:participant" + ports.format(sid=sid) for sid in (1, 2, 4)]
    return ensemble_of("\n".join([*lines, f"version={version:x}"]).encode())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "myid").write_text("1")
    path = tmp_path / "zoo.cfg"
    path.write_text(f"dataDir={tmp_path}\n{OF_FILE}")
    path.chmod(0o640)
    return path


def test_the_file_names_what_is_in_force_and_keeps_all_other_lines(file: Path) -> None:
    before = file.read_text()
    ensemble = in_force(0x1_0000_0007)
    path = write_configuration(str(file), ensemble, 1)
    assert path == f"{file}.dynamic.100000007"
    config = load(file)
    assert config.ensemble == ensemble
    assert config.ensemble.version == 0x1_0000_0007
    assert config.client_address == ("127.0.0.1", 4001)
    assert config.timing.tick_time_ms == 500
    text = file.read_text()
    assert "# Of the operator\n" in text
    assert "# The end\n" in text
    assert "clientPort" not in text
    assert file.stat().st_mode & 0o777 == 0o640
    assert Path(f"{file}.bak").read_text() == before


def test_client_ports_of_the_file_stay_where_the_line_has_none(file: Path) -> None:
    write_configuration(str(file), in_force(7, ""), 1)
    assert load(file).client_address == ("0.0.0.0", 2181)


def test_a_second_one_leaves_what_was_there_before_the_first(file: Path) -> None:
    before = file.read_text()
    write_configuration(str(file), in_force(7), 1)
    assert write_configuration(str(file), in_force(7), 1) is None
    assert write_configuration(str(file), in_force(8), 1) == f"{file}.dynamic.8"
    assert load(file).ensemble.version == 8
    assert file.read_text().count("dynamicConfigFile") == 1
    assert Path(f"{file}.bak").read_text() == before


@pytest.mark.parametrize("step", range(9))
def test_the_file_can_be_read_wherever_writing_ends(file: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Each step of it is the last in turn."""
    left = [step]

    def until_then(call):
        def called(*arguments):
            if not left[0]:
                raise OSError(28, "No space left on device")
            left[0] -= 1
            return call(*arguments)

        return called

    for name in ("replace", "fsync", "fchmod"):
        monkeypatch.setattr(dynamic_file.os, name, until_then(getattr(os, name)))
    with pytest.raises(OSError, match="No space"):
        write_configuration(str(file), in_force(7), 1)
    assert load(file).ensemble.version in (0, 7)
    assert not [name for name in os.listdir(file.parent) if name.startswith(".")]


def test_a_file_that_is_none_any_more_stays_as_it_is(file: Path) -> None:
    file.write_text("a=\\u12")
    with pytest.raises(ConfigError):
        write_configuration(str(file), in_force(7), 1)
    assert file.read_text() == "a=\\u12"
