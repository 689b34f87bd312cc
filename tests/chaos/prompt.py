"""Members that notice soon what goes wrong, on the loopback or on machines of their own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from tests.rigs.namespaces import Namespaces
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble

PROMPT: Final = {"tickTime": 500, "initLimit": 40, "syncLimit": 4}
"""Two seconds of silence end a role, so that a trouble of some seconds does."""


def prompt_members(size: int, directory: Path, net: Namespaces | None) -> AbstractContextManager[ZooKeeperEnsemble]:
    """As `zab_servers`. net: they are on its machines from 1 on."""
    lines = [] if net is None else _lines_on(net, size)
    return zab_servers(size, directory=directory, configuration=PROMPT, each=lines, on=net)


def _lines_on(net: Namespaces, size: int) -> list[dict[str, str | int]]:
    """The lines of each member's file alone."""
    numbers = range(1, size + 1)
    shared = {f"server.{number}": f"{net.address(number)}:2888:3888" for number in numbers}
    shared["quorum.insecure"] = "true"
    return [{**shared, "clientPortAddress": net.address(number), "clientPort": 2181} for number in numbers]
