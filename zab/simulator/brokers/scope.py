"""The scope of a run of brokers: everything that its seed decides, or a part of it.

brokers, faults     the number of brokers, and the only faults
focus               the only part of the workload (`zab.simulator.brokers.workload`)
mercy               without it, lasting faults are not mended
kept                the part of a failed run that is needed to fail (`zab.simulator.world.scope`)
"""

from __future__ import annotations

from typing import Final

import attrs

from zab.simulator.brokers.profile import BROKERS_MAX, FAULTS, Profile, with_brokers, with_workload
from zab.simulator.brokers.workload import FOCUSES
from zab.simulator.world.scope import Kept, ScopeError


@attrs.frozen
class Scope:
    """The scope of a run; fields that are None are decided by the seed."""

    brokers: int | None = None
    faults: tuple[str, ...] | None = None
    kept: Kept | None = None
    mercy: bool = True
    """Whether lasting faults are mended, and then everything has to be served again."""
    focus: str = ""
    """Empty: whatever the seed says."""

    def __attrs_post_init__(self) -> None:
        if self.brokers is not None and not 1 <= self.brokers <= BROKERS_MAX:
            raise ScopeError(f"{self.brokers} brokers cannot be simulated: 1 to {BROKERS_MAX} can")
        if self.focus and self.focus not in FOCUSES:
            raise ScopeError(f"no focus is named {self.focus!r}; there are {', '.join(FOCUSES)}")
        unknown = [name for name in self.faults or () if name not in FAULTS]
        if unknown:
            raise ScopeError(f"no fault is named {unknown[0]!r}; there are {', '.join(sorted(FAULTS))}")

    def of(self, profile: Profile) -> Profile:
        """The profile of a seed, restricted to this scope."""
        if self.brokers not in (None, profile.brokers):
            profile = with_brokers(profile, self.brokers)
        profile = with_workload(profile, self.focus)
        if self.faults is not None:
            profile = attrs.evolve(profile, faults={name: FAULTS[name] for name in self.faults})
        if not self.mercy:
            profile = attrs.evolve(profile, is_merciless=True)
        return profile if self.kept is None else attrs.evolve(profile, fault_ticks=self.kept.ticks)

    @property
    def whole(self) -> Scope:
        """The scope with the same brokers and faults, without `kept`."""
        return attrs.evolve(self, kept=None)


WHOLE: Final = Scope()
