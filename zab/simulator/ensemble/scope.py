"""The scope of a run: everything that its seed decides, or a part of it.

focus               all runs have this focus, whatever their seeds decide
members, faults     the number of voters, and the only faults
mercy               without it, lasting faults are not mended
ways                the run is made on both ways of messages, with what is compiled and without, and compared
kept                the part of a failed run that is needed to fail (`zab.simulator.world.scope`)
"""

from __future__ import annotations

from typing import Final

import attrs

from zab.simulator.ensemble.members.profile import CLIENT_FAULTS, FAULT_NAMES, FOCUSES, Profile, without_mercy
from zab.simulator.world.scope import Kept, ScopeError

MEMBERS_MAX: Final = 15
"""A run of more voters takes minutes."""


@attrs.frozen
class Scope:
    """The scope of a run; fields that are None are decided by the seed."""

    members: int | None = None
    faults: tuple[str, ...] | None = None
    kept: Kept | None = None
    mercy: bool = True
    """Whether lasting faults are mended, and then all members have to recover."""
    focus: str = ""
    """One of `FOCUSES`; empty: as the seed decides."""
    both_ways: bool = False
    """Whether the run is repeated on the ways that the seed does not choose (`Profile.has_short_way`,
    `Profile.is_compiled`), and has to be the same."""
    other_way: bool = False
    """Whether it takes those other ways."""

    def __attrs_post_init__(self) -> None:
        if self.members is not None and not (3 <= self.members <= MEMBERS_MAX and self.members % 2):
            raise ScopeError(f"{self.members} members cannot be simulated: an odd number from 3 to {MEMBERS_MAX} can")
        if self.focus and self.focus not in FOCUSES:
            raise ScopeError(f"no focus is named {self.focus!r}; there are {', '.join(sorted(FOCUSES))}")
        unknown = [name for name in self.faults or () if name not in FAULT_NAMES]
        if unknown:
            raise ScopeError(f"no fault is named {unknown[0]!r}; there are {', '.join(sorted(FAULT_NAMES))}")

    def of(self, profile: Profile) -> Profile:
        """The profile of a seed, restricted to this scope."""
        if self.focus not in ("", profile.focus):
            profile = FOCUSES[self.focus](profile)
        if self.members not in (None, profile.voters):
            markers = frozenset(sid for sid in profile.markers if sid <= self.members)
            profile = attrs.evolve(profile, voters=self.members, groups=(), weightless=frozenset(), markers=markers)
        if self.faults is not None:
            wanted = dict.fromkeys(self.faults, 1)
            profile = attrs.evolve(
                profile,
                faults={name: profile.faults.get(name, 1) for name in wanted if name not in CLIENT_FAULTS},
                client_faults={name: profile.client_faults.get(name, 1) for name in wanted if name in CLIENT_FAULTS},
            )
        if not self.mercy:
            profile = without_mercy(profile)
        if self.other_way:
            profile = attrs.evolve(
                profile, has_short_way=not profile.has_short_way, is_compiled=not profile.is_compiled
            )
        return profile if self.kept is None else attrs.evolve(profile, fault_ticks=self.kept.ticks)

    @property
    def whole(self) -> Scope:
        """The scope with the same members and faults, without `kept`."""
        return attrs.evolve(self, kept=None)


WHOLE: Final = Scope()
