"""Whose packages `datatree` and `session` are."""

import sys
from pathlib import Path

import pytest

import zab
from zab.host.process import refusal as server
from zab.host.process.refusal import foreign_packages, refusal


def test_packages_are_our_own() -> None:
    assert foreign_packages() == []


def test_a_package_overwritten_in_place_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed from wheels, both packages have one directory, and the last one's `__init__` is there."""
    for name in ("zab", "datatree", "session"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text('"""An array."""\n')
    monkeypatch.setattr(zab, "__file__", str(tmp_path / "zab" / "__init__.py"))
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("datatree", "session"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert [name in problem for name, problem in zip(("datatree", "session"), foreign_packages(), strict=True)]


def test_a_server_is_refused_with_every_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal() is None
    monkeypatch.setattr(server, "foreign_packages", lambda: ["one", "two"])
    assert refusal() == "one; two; install zab into an environment of its own"
