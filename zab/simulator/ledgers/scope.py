"""The scope of a run with ledgers: everything that its seed decides, or a part of it.

bookies, faults     the number of bookies, and the only faults
mercy               without it, lasting faults are not mended
focus               `logs`: a managed ledger and its owners, and no other ledgers
kept                the part of a failed run that is needed to fail (`zab.simulator.world.scope`)
"""

from __future__ import annotations

from typing import Final

import attrs

from zab.simulator.ledgers.profile import BOOKIES_MAX, FAULTS, Profile, with_bookies, with_log
from zab.simulator.world.scope import Kept, ScopeError

FOCUSES: Final = ("logs",)
"""What runs with ledgers may have in place of plain ledgers."""


@attrs.frozen
class Scope:
    """The scope of a run; fields that are None are decided by the seed."""

    bookies: int | None = None
    faults: tuple[str, ...] | None = None
    kept: Kept | None = None
    mercy: bool = True
    """Whether lasting faults are mended, and then every ledger has to be closed."""
    focus: str = ""
    """One of FOCUSES, or none."""

    def __attrs_post_init__(self) -> None:
        if self.bookies is not None and not 1 <= self.bookies <= BOOKIES_MAX:
            raise ScopeError(f"{self.bookies} bookies cannot be simulated: 1 to {BOOKIES_MAX} can")
        if self.focus and self.focus not in FOCUSES:
            raise ScopeError(f"no focus is named {self.focus!r}; there are {', '.join(FOCUSES)}")
        unknown = [name for name in self.faults or () if name not in FAULTS]
        if unknown:
            raise ScopeError(f"no fault is named {unknown[0]!r}; there are {', '.join(sorted(FAULTS))}")

    def of(self, profile: Profile) -> Profile:
        """The profile of a seed, restricted to this scope."""
        if self.bookies not in (None, profile.bookies):
            profile = with_bookies(profile, self.bookies)
        if self.focus:
            profile = with_log(profile)
        if self.faults is not None:
            profile = attrs.evolve(profile, faults={name: FAULTS[name] for name in self.faults})
        if not self.mercy:
            profile = attrs.evolve(profile, is_merciless=True)
        return profile if self.kept is None else attrs.evolve(profile, fault_ticks=self.kept.ticks)

    @property
    def whole(self) -> Scope:
        """The scope with the same bookies, faults and focus, without `kept`."""
        return attrs.evolve(self, kept=None)


WHOLE: Final = Scope()
