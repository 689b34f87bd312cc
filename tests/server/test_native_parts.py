"""A server uses what is compiled of the tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from datatree.compiled import USED
from zab.native import load
from zab.server import __main__ as program


def test_what_is_compiled_is_used_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def run_service(*_arguments: Any, **_options: Any) -> int:
        found.append((USED.tree, USED.writes))
        return 0

    monkeypatch.setattr(program, "run_service", run_service)
    file = tmp_path / "zoo.cfg"
    file.write_text(f"dataDir={tmp_path}\nclientPort=2181\n")
    assert program.main([str(file)]) == 0
    assert found == [(load("tree"), load("writes"))]
    assert (USED.tree, USED.writes) == (None, None)
