"""The machine of one member: its disk, and its configuration.

A start recovers from the disk, which may fail meanwhile. If recovery reports damage that no fault has caused, the run
fails. Otherwise the member handles the damage like a server (`zab.member.membership.damage`): it counts for nothing
until the others have filled it again. `losses` bounds the faults of disks.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from datatree.log.epochs import ACCEPTED_EPOCH, CURRENT_EPOCH, DIRECTORY, INITIALIZE, MEMBER, load_epochs, load_member
from datatree.log.frame import Bad, scan
from datatree.log.segment import SEGMENT_HEADER_BYTES, log_files, log_path
from datatree.log.session_keys import SESSION_KEYS
from datatree.recovery.holes import Hole
from datatree.recovery.recover import recover
from datatree.recovery.recovered import Recovered
from datatree.recovery.restoring import drop_foreign, take_staged
from zab.member.membership.damage import is_alone
from zab.member.storage.hole_fill import find, put
from zab.quorum.ids import ServerId
from zab.service.disk_space import make_room
from zab.simulator.ensemble.members.profile import Profile
from zab.simulator.world.disk import CAPACITY_BYTES, PowerLossError
from zab.simulator.world.machine import Machine, Running, World
from zab.simulator.world.verdict import SafetyError

PROMISES: Final = frozenset(f"{DIRECTORY}/{name}" for name in (ACCEPTED_EPOCH, CURRENT_EPOCH, MEMBER, SESSION_KEYS))
"""The files without which a member is an amnesiac."""


class MemberMachine(Machine):
    """One server of the ensemble, whether its process runs or not."""

    number: ServerId

    def __init__(
        self,
        world: World,
        profile: Profile,
        sid: ServerId,
        rng: Random,
        boot: Callable[[MemberMachine, Recovered], Running],
        count: Callable[[str], None],
    ) -> None:
        def recover_and_boot() -> Running | None:
            recovered = self._recover()
            return None if recovered is None else boot(self, recovered)

        super().__init__(
            world,
            sid,
            rng,
            recover_and_boot,
            disk_us=profile.disk_us,
            drift_ppm=profile.drift_ppm,
            pause_us=profile.tick_us * 20,
        )
        self.config = profile.config(sid)
        """The configuration in its file."""
        self.has_address_book = profile.has_address_books
        self.has_short_way = profile.has_short_way
        self._recent_bytes = profile.recent_bytes
        if sid in profile.markers:
            self.disk.replace(INITIALIZE, b"")
        self.is_retired = False
        """Whether it is never started again."""
        self.is_wiped = False
        """Whether it lost its data and was not synchronized since."""
        self.has_forgotten = False
        """Whether its disk is intact but may have less than its member promised before it stopped."""
        self.damaged = set[str]()
        """The damaged files on its disk."""
        self.is_damaged_at_end = False
        """Whether the next start may take the damage for a torn write."""
        self.is_to_be_filled = False
        """Whether it has found the damage: its files are set aside when others fill it again."""
        self.is_full = False
        """Whether its disk is full."""
        self.filled: Hole | None = None
        """The filled hole for which the last process ended: the next start writes it."""
        self.hole: Hole | None = None
        """The hole that the last start found, which others may fill."""
        self.given: bytes | None = None
        """The lineage of a snapshot that it was given for its next start (B8 restored members)."""
        self.backup: dict[str, bytes] | None = None
        """An earlier copy of its disk, which an operator may restore."""
        self._count = count

    @property
    def lineage(self) -> bytes | None:
        """The lineage in which it counts, according to its disk (B1 member record); None: it counts in none."""
        record = load_member(self.disk)
        return None if record is None or load_epochs(self.disk) is None else record.lineage

    @property
    def is_synchronized(self) -> bool:
        """Whether it counts in some lineage."""
        return self.lineage is not None

    @property
    def has_been_synchronized(self) -> bool:
        """Whether it counts in some lineage, or would without damage."""
        return self.is_synchronized or bool(self.damaged & PROMISES)

    @property
    def is_impaired(self) -> bool:
        """Whether its disk accepts no more writes."""
        return self.is_full or self.hangs

    def fill(self, room_bytes: int) -> None:
        """Let only this much more fit on its disk."""
        self.is_full = True
        self.disk.capacity_bytes -= self.disk.free_bytes() - room_bytes

    def mend(self) -> None:
        """Mend its disk. A process that waited for it is ended, since nothing else ends such a wait."""
        self.is_full = False
        self.disk.capacity_bytes = CAPACITY_BYTES
        if self.hangs:
            self.hangs = False
            self.stop(with_power=True)
            self.start_after(0)

    def synchronized(self) -> None:
        """Note that it has a durable history."""
        self.is_wiped = False
        if self.is_to_be_filled:
            self.is_to_be_filled = False
            self.damaged.clear()

    def lose_everything(self) -> None:
        """Replace its disk by an empty one."""
        self.disk.lose_everything()
        self.is_wiped = True
        self.damaged.clear()
        self.filled = self.given = None
        self.is_damaged_at_end = self.has_forgotten = self.is_to_be_filled = False

    def _is_whole_again(self, recovered: Recovered) -> None:
        if self.is_to_be_filled and not recovered.damage:
            self.is_to_be_filled = False
            self.is_wiped = recovered.amnesiac
            self.damaged = {path for path in self.damaged if self._is_damaged(path)}

    def _is_damaged(self, path: str) -> bool:
        """Whether a file is still damaged: a log file may have been written again."""
        first = next((first for first in log_files(self.disk) if log_path(first) == path), None)
        if first is None:
            return self.disk.exists(path)
        found = scan(self.disk.read(path), first, SEGMENT_HEADER_BYTES)
        return any(isinstance(part, Bad) for part in found.parts)

    def _take_given(self) -> None:
        """Take the given snapshot, as a server does at its start. Raises OSError."""
        if drop_foreign(self.disk):
            raise SafetyError("restore", f"server {self.number} drops what it was given")
        taken = take_staged(self.disk, self.number)
        self.given = None
        if taken is not None:
            self.filled = None
            self._count("snapshots taken that were given")

    def _recover(self) -> Recovered | None:
        trace = self.world.trace
        try:
            make_room(self.disk, self.config.storage.disk_low_bytes)
            if self.given is not None:
                self._take_given()
            filled, self.filled = self.filled, None
            if filled is not None and put(self.disk, filled):
                self._count("holes filled")
            recovered = recover(self.disk, self.number, recent_bytes=self._recent_bytes)
            self.hole = find(self.disk, recovered, filled)
            self._is_whole_again(recovered)
        except PowerLossError:
            self.disk.crash(self.rng)
            return None
        except OSError as error:
            trace.say(str(self.number), f"cannot recover: {error}")
            self.disk.kill()
            return None
        if recovered.damage:
            damage = "; ".join(map(str, recovered.damage))
            if not self.damaged:
                raise SafetyError("recovery", f"server {self.number} finds damage: {damage}")
            trace.say(str(self.number), f"finds damage: {damage}")
            self._count("damaged histories found")
            assert not is_alone(self.config), "a copy is damaged only where others can go on without it"
            self.is_wiped = self.is_to_be_filled = True
        if recovered.amnesiac and self.damaged & PROMISES:
            self.is_wiped = True
            self.damaged -= PROMISES
        self.has_forgotten |= self.is_damaged_at_end
        self.is_damaged_at_end = False
        trace.mark(self.number, self.disk.operations)
        return recovered
