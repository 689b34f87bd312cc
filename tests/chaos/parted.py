"""Three real members, each on a machine of its own, of which some do not reach others: `python -m tests.chaos.parted`.

To be run in a namespace (`rigs.namespaces`): the network is made here. Exit code 1, and why, where anything that
clients were told does not hold.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.chaos.faults import Disturbances, Partitions
from tests.chaos.prompt import prompt_members
from tests.chaos.survival import survived
from tests.rigs.namespaces import namespaces

SIZE = 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--disturbed", action="store_true", help="packets are late and lost, too (`can_disturb`)")
    given = parser.parse_args()
    with namespaces(SIZE) as net, prompt_members(SIZE, given.directory, net) as ensemble:
        survived(ensemble, given.seconds, (Disturbances if given.disturbed else Partitions)(net))


if __name__ == "__main__":
    main()
