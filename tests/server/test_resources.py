"""What a server has opened when its start fails is closed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from zab.host.storage.disk import RealDisk
from zab.member.settings.zoo_cfg import parse
from zab.server import resources
from zab.server.resources import open_resources
from zab.service.failure import CONFIG_ERROR, ServerFailedError


def fail(*_arguments: Any, **_options: Any) -> None:
    raise ServerFailedError(CONFIG_ERROR, "it cannot be had")


@pytest.mark.parametrize("part", ["open_tracing", "recover_from", "bind"])
def test_a_start_that_fails_is_audited_and_frees_the_data_directory(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, part, fail)
    config = parse(f"dataDir={tmp_path}\nclientPort=2181\naudit.enable=true\n", "zoo.cfg")
    with pytest.raises(ServerFailedError, match="it cannot be had"):
        trio.run(open_resources, config, None)
    assert (tmp_path / "audit.log").read_text().endswith("operation=serverStart\tresult=failure\n")
    RealDisk(str(tmp_path)).close()
