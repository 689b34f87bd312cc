"""Three real members, each on a machine of its own, of which some do not reach others: `python -m tests.chaos.parted`.

To be run in a namespace (`rigs.namespaces`): the network is made here. Exit code 1, and why, where anything that
clients were told does not hold.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.chaos.faults import Disturbances, Partitions
from tests.chaos.survival import survived
from tests.rigs.namespaces import Namespaces, namespaces
from tests.rigs.zab_server import zab_servers

SIZE = 3
# Two seconds of silence end a role, so that a trouble of some seconds does.
PROMPT = {"tickTime": 500, "initLimit": 40, "syncLimit": 4, "quorum.insecure": "true"}
QUORUM_PORT, ELECTION_PORT = 2888, 3888


def lines(net: Namespaces, own: int) -> dict[str, str]:
    """A line in the file of one member."""
    servers = {f"server.{sid}": f"{net.address(sid)}:{QUORUM_PORT}:{ELECTION_PORT}" for sid in range(1, SIZE + 1)}
    return {**servers, "clientPortAddress": net.address(own)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--disturbed", action="store_true", help="packets are late and lost, too (`can_disturb`)")
    given = parser.parse_args()
    with namespaces(SIZE) as net:
        each = [lines(net, sid) for sid in range(1, SIZE + 1)]
        with zab_servers(SIZE, directory=given.directory, configuration=PROMPT, each=each, on=net) as ensemble:
            survived(ensemble, given.seconds, (Disturbances if given.disturbed else Partitions)(net))


if __name__ == "__main__":
    main()
