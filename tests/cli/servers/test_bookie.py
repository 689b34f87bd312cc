"""`zab bookie run`: what `--check` has read and what it leaves out, and what a start says first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Run, run, started
from zab.testing.kit.ports import free_ports

__all__ = ["run"]

FEW = "bookiePort=3184\nadvertisedAddress=127.0.0.1\nledgerDirectories={directory}\nmetadataServiceUri={uri}\n"


def test_a_check_says_that_it_has_read_the_file_alone(run: Run, tmp_path: Path) -> None:
    """No name is looked up, no port is bound, no directory is made: so it does not say that a bookie would start."""
    file, directory = tmp_path / "bk_server.conf", tmp_path / "data"
    file.write_text(FEW.format(directory=directory, uri="zk+hierarchical://nowhere.invalid:9/ledgers"))
    assert run("bookie", "run", "--check", file) == 0
    good, rest = run.out.splitlines()
    assert good == f"{file}: its settings are good: port 3184, data in {directory}"
    assert rest.startswith("not checked: the port, the directories, the metadata ")
    assert f"zab doctor {file}" in rest
    assert not directory.exists()


def test_a_check_names_the_first_error(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bk_server.conf"
    file.write_text("bookiePort=many\n")
    assert run("bookie", "run", "--check", file) == 2
    assert run.out.startswith(f"error: {file}: ")


@pytest.mark.process
def test_a_start_says_at_once_where_it_looks_for_the_coordination_service(tmp_path: Path) -> None:
    """It waits for it without end."""
    file, [port] = tmp_path / "bk_server.conf", free_ports(1)
    text = FEW.format(directory=tmp_path / "data", uri="zk+hierarchical://127.0.0.1:1/ledgers")
    file.write_text(text.replace("3184", str(port)))
    with started("bookie", "run", str(file)) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "coordination" in line)
    assert "looks for the coordination service hosts=127.0.0.1:1" in said
