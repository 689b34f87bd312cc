"""The machines of simulated bookies and of their clients, and the coordination service beside them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from zab.ledger.bookie.cookie_check import CookieError
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.layout import COOKIES
from zab.ledger.metadata.paths import ledger_of
from zab.ledger.metadata.serialized import decode_metadata
from zab.ledger.metadata.underreplication import lock_path
from zab.ledger.store.bookies import format_root
from zab.simulator.coordination.service import CoordinationService
from zab.simulator.ledgers.bookie_judge import BookieJudge
from zab.simulator.ledgers.bookie_process import INSTANCE, BookieProcess, open_bookie, run_at_once
from zab.simulator.ledgers.client_process import ClientProcess
from zab.simulator.ledgers.judge import Judge
from zab.simulator.ledgers.metadata_judge import MetadataJudge
from zab.simulator.ledgers.network import TailedNetwork
from zab.simulator.ledgers.profile import Profile
from zab.simulator.world.cluster import Cluster, process_of
from zab.simulator.world.disk import CAPACITY_BYTES
from zab.simulator.world.machine import Machine, World
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.trace import Trace

PAUSE_US: Final = 2_000 * MS
"""The longest time between the end of a process and the next one."""
CLIENTS_FROM: Final = 101
"""The number of the first client's machine; bookies begin with 1."""
ROOT: Final = "/ledgers"
DECOMMISSION_US: Final = 500 * MS
"""How long an operator needs to bring a bookie that refuses to start back under another name."""


class LedgerCluster(Cluster):
    """See the docstring of the module."""

    def __init__(self, profile: Profile, sink: Callable[[str], None] | None, describe: Callable[[object], str]) -> None:
        seed, schedule = profile.seed, Schedule()
        network = TailedNetwork(
            *(schedule, Random(f"{seed}/network"), profile.latency_us, profile.jitter_us), silences=profile.silences
        )
        network.keeps_order = profile.keeps_order
        super().__init__(
            schedule,
            network,
            Trace(schedule, sink, describe),
            tick_us=profile.tick_us,
            patience_ticks=max(1, profile.session_timeout_ms * MS // profile.tick_us),
            disk_us=profile.disk_us,
            is_merciless=profile.is_merciless,
        )
        self.profile = profile
        self.capacity_bytes = CAPACITY_BYTES
        self._names = {number: BookieId(f"b{number}") for number in range(1, profile.bookies + 1)}
        self._disks_lost = 0
        self._refused: set[BookieId] = set()
        self.judge = Judge()
        self.bookie_judge = BookieJudge(self.judge)
        self.service = CoordinationService(
            *(schedule, network, self.trace, Random(f"{seed}/coordination")),
            operation_us=profile.operation_us,
            count=self.count,
            lag=profile.lag,
        )
        self._format()
        metadata_judge = MetadataJudge(
            self.service.tree, self.judge, partial(ledger_of, ROOT), decode_metadata, partial(lock_path, ROOT)
        )
        self.service.tree.before_write = metadata_judge.before_write
        self.world = World(schedule, network, self.trace, profile.turn_us)
        self.bookies = {number: self._machine(number, self._boot_bookie) for number in range(1, profile.bookies + 1)}
        self.clients: dict[int, Machine] = {}
        self._all_machines = dict(self.bookies)
        self.machines = self._all_machines

    def _format(self) -> None:
        """Make the root, as its operator does before anything runs."""
        run_at_once(self.service.tree, format_root(ROOT, INSTANCE))

    def _machine(self, number: int, boot: Callable[[int], BookieProcess | ClientProcess | None]) -> Machine:
        return Machine(
            self.world,
            number,
            Random(f"{self.profile.seed}/machine {number}"),
            partial(boot, number),
            disk_us=self.profile.disk_us,
            drift_ppm=self.profile.drift_ppm,
            pause_us=PAUSE_US,
        )

    def add_client(self, boot: Callable[[Machine], ClientProcess]) -> Machine:
        """One more machine of a client, whose processes `boot` makes."""
        number = CLIENTS_FROM + len(self.clients)
        machine = self.clients[number] = self._all_machines[number] = self._machine(number, lambda _: boot(machine))
        return machine

    def count(self, what: str, number: int = 1) -> None:
        self.judge.counts[what] += number

    # ---------------------------------------------------------------------------------------------------------- bookies

    def id_of(self, number: int) -> BookieId:
        """The id of the bookie on this machine."""
        return self._names[number]

    def lose_disk(self, number: int) -> None:
        """The disk of a bookie is replaced by an empty one. It refuses to start until its operator brings it back under
        another name; except one without a cookie, which has never been started and loses nothing."""
        machine = self.bookies[number]
        machine.stop(with_power=True)
        machine.disk.lose_everything()
        if self.service.tree.data(f"{ROOT}/{COOKIES}/{self.id_of(number)}") is not None:
            self.bookie_judge.loses_disk(self.id_of(number))

    def rename(self, number: int) -> None:
        """The operator has decommissioned a bookie, and brings its machine back with a new id."""
        self._disks_lost += 1
        self._names[number] = BookieId(f"b{number}-{self._disks_lost}")

    def bookie(self, number: int) -> BookieProcess | None:
        """The process of a bookie; None while there is none."""
        running = process_of(self.bookies[number])
        assert running is None or isinstance(running, BookieProcess)
        return running

    def reach(self, bookie: BookieId) -> BookieProcess | None:
        """The process of a bookie that clients may connect with."""
        for number, name in self._names.items():
            if name == bookie:
                return self.bookie(number)
        return None

    def client(self, number: int) -> ClientProcess | None:
        """The process of a client; None while there is none."""
        running = process_of(self.clients[number])
        assert running is None or isinstance(running, ClientProcess)
        return running

    def _boot_bookie(self, number: int) -> BookieProcess | None:
        self.count("starts")
        bookie = self.id_of(number)
        try:
            return open_bookie(self.bookies[number], bookie, self.profile, ROOT, self.service, self.bookie_judge)
        except CookieError as error:
            self.trace.say(bookie, f"refuses to start: {error}")
            self.count("refused starts")
            if bookie not in self._refused:
                self._refused.add(bookie)
                self.schedule.after(DECOMMISSION_US, self.rename, number)
            return None
