"""Three members, and nodes of one kind (brokers or bookies) that depend on them, as processes.

    with Brokers.serving(directory, net) as found:      `net`: a machine for each, or None: everything on the loopback
        found.nodes[1].kill()

What is done to them is in `faults`.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final, Generic, Protocol, Self, TypeVar

from attrs import define

from tests.chaos.prompt import prompt_members
from tests.rigs.namespaces import Namespaces
from tests.rigs.processes import GuardedProcess, ended
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.testing.kit.ports import HOST, free_ports

MEMBERS: Final = 3
SESSION_SECONDS: Final = 2.0
PROBE_SECONDS: Final = 0.1


class Node(GuardedProcess):
    """One node. machine: its number among those of the network. Its files stay when it is started again."""

    number: int
    machine: int

    def configure(self, hosts: str) -> Path:
        """Write its file. hosts: a connection string."""
        raise NotImplementedError


N = TypeVar("N", bound=Node)


class MakesNode(Protocol):
    """A kind of node. address: where it listens."""

    def __call__(self, number: int, directory: Path, address: tuple[str, int]) -> Node: ...


@define
class Cluster(Generic[N]):
    """All of it. net: the members are on the machines 1 to 3, the nodes on those after them."""

    noun: ClassVar[str]
    count: ClassVar[int]
    port: ClassVar[int]
    """On a machine of its own."""
    node: ClassVar[MakesNode]
    program: ClassVar[Sequence[str]]
    """What Python runs with the file of a node after it."""

    ensemble: ZooKeeperEnsemble
    nodes: dict[int, N]
    net: Namespaces | None = None

    def prepare(self) -> None:
        """Make what nodes need before the first one starts."""

    def is_whole(self) -> bool:
        """Whether every node serves."""
        raise NotImplementedError

    def state(self) -> str:
        """What is told when it does not become whole."""
        raise NotImplementedError

    @property
    def hosts(self) -> str:
        return self.ensemble.hosts

    def start_all(self) -> None:
        """Start whatever has ended, and wait until everything is whole."""
        _start_again(self.ensemble.members)
        _start_again(self.nodes.values())
        self.ensemble.wait()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.is_whole():
            # One that was killed may meet its old session, or a full disk.
            _start_again(self.nodes.values())
            assert time.monotonic() < deadline, f"not whole: {self.state()}"
            time.sleep(PROBE_SECONDS)

    @classmethod
    @contextlib.contextmanager
    def serving(cls, directory: Path, net: Namespaces | None, program: Sequence[str] = ()) -> Iterator[Self]:
        """All serve; all are killed when the block is left. program: a variant of a node; empty: the node itself."""
        with prompt_members(MEMBERS, directory, net) as ensemble:
            found = cls(ensemble, {}, net)
            found.prepare()
            for number, port in enumerate(free_ports(cls.count), start=1):
                machine = MEMBERS + number
                address = (HOST, port) if net is None else (net.address(machine), cls.port)
                node = cls.node(number, directory / f"{cls.noun}{number}", address)
                node.machine = machine
                command = [sys.executable, *(program or cls.program), str(node.configure(ensemble.hosts))]
                node.command = command if net is None else net.command(machine, command)
                found.nodes[number] = node
            with ended(found.nodes.values()):
                found.start_all()
                yield found


def _start_again(processes: Iterable[GuardedProcess]) -> None:
    """Start the processes that have ended."""
    for process in processes:
        if not process.running:
            process.kill()
            process.start()
