"""The machine of one member: what is on its disk, and the configuration of its place in the ensemble.

A start recovers what is on the disk; a disk may fail in that too. Recovery that reports damage where no fault did any
is a failure of the run. Where one did, the member goes on by itself, as a server does (`zab.member.membership.damage`):
it counts for nothing until the others have filled it again. `losses` has what faults may do to a disk.
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
from zab.member.storage.disk_space import make_room
from zab.member.storage.hole_fill import find, put
from zab.quorum.ids import ServerId
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
        """What its file says."""
        self.has_address_book = profile.has_address_books
        self._recent_bytes = profile.recent_bytes
        if sid in profile.markers:
            self.disk.replace(INITIALIZE, b"")
        self.is_retired = False
        """It is not started any more."""
        self.is_wiped = False
        """It lost its data, and was not synchronized since."""
        self.has_forgotten = False
        """Its disk is whole, and may hold less than its member said before it stopped."""
        self.damaged = set[str]()
        """The files on its disk in which some bytes are not what was written there."""
        self.is_damaged_at_end = False
        """They are where the next start may take them for torn."""
        self.is_to_be_filled = False
        """It has found that: what is on its disk goes aside when others fill it again."""
        self.is_full = False
        """Nothing fits on its disk any more."""
        self.filled: Hole | None = None
        """What the process before ended for: the next start writes it."""
        self.hole: Hole | None = None
        """What the last start found missing, and others may have."""
        self.given: bytes | None = None
        """Of which lineage it was given a snapshot, with which its next start goes on (B8 restored members)."""
        self.backup: dict[str, bytes] | None = None
        """What was on its disk once, for an operator who restores it."""
        self._count = count

    @property
    def lineage(self) -> bytes | None:
        """Of which lineage it may be counted, as what is on its disk says (B1 member record); None: of none."""
        record = load_member(self.disk)
        return None if record is None or load_epochs(self.disk) is None else record.lineage

    @property
    def is_synchronized(self) -> bool:
        """Whether it may be counted."""
        return self.lineage is not None

    @property
    def has_been_synchronized(self) -> bool:
        """The same, or would if nobody had damaged it since."""
        return self.is_synchronized or bool(self.damaged & PROMISES)

    @property
    def is_impaired(self) -> bool:
        """Its disk takes nothing any more."""
        return self.is_full or self.hangs

    def fill(self, room_bytes: int) -> None:
        """So much fits on its disk from now on."""
        self.is_full = True
        self.disk.capacity_bytes -= self.disk.free_bytes() - room_bytes

    def mend(self) -> None:
        """Its disk takes all again. A process that waited for it is gone: nothing else ends such a wait."""
        self.is_full = False
        self.disk.capacity_bytes = CAPACITY_BYTES
        if self.hangs:
            self.hangs = False
            self.stop(with_power=True)
            self.start_after(0)

    def synchronized(self) -> None:
        """It holds a history, durably."""
        self.is_wiped = False
        if self.is_to_be_filled:
            self.is_to_be_filled = False
            self.damaged.clear()

    def lose_everything(self) -> None:
        """Its disk is replaced by an empty one."""
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
        """Unless it is a log file that has been written again."""
        first = next((first for first in log_files(self.disk) if log_path(first) == path), None)
        if first is None:
            return self.disk.exists(path)
        found = scan(self.disk.read(path), first, SEGMENT_HEADER_BYTES)
        return any(isinstance(part, Bad) for part in found.parts)

    def _take_given(self) -> None:
        """As a server does at its start. Raises OSError."""
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
