"""Whom the servers of an explored ensemble know by their files, who may decide next, and who else is to be heard.

plain       everybody's file names everybody; there is nothing else to hear
shrink      three voters, to 1 and 2, and back: 3 is taken out, and may be taken in again
move        from 1 and 2 to 2 and 3. The files of 1 and 2 do not name 3, which begins with nothing
replace     from 1, 2 and 3 to 2, 3 and 4. The files of 1, 2 and 3 do not name 4, which begins with nothing
alone       three voters, then 2 alone, then 1 alone: who was away, and who has lost its disk, know less than what
            is in force, or what was in force long ago
fresh       three voters of an ensemble without a single write, who hear the first two of the outsiders
outsiders   three voters, who may become 1 and 3, and hear three others. The first one has no proof, and says that 1
            alone decides. The others have proof, and are left over from ensembles that had another lineage: in that
            of the second one 1 alone decided, in that of the third one 1, 2 and 3
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Final

import attrs

from zab.quorum.ids import ServerId

__all__ = ["PLAIN", "WORLDS", "Voice", "World"]

Voters = frozenset[ServerId]


@attrs.frozen
class Voice:
    """Somebody outside of the ensemble. It says that a configuration is in force."""

    sid: ServerId
    version: int
    voters: Voters
    is_proven: bool
    """It has proven to be of the ensemble, as members prove it."""
    is_of_lineage: bool
    """It says that it is of the ensemble's lineage."""


@attrs.frozen
class World:
    files: tuple[Voters, ...] = ()
    """Who votes by the file of server 1, of server 2, and so on; 1's file has the first configuration. Empty: everybody
    votes, by every file."""
    joining: Voters = frozenset()
    """Servers that begin with nothing."""
    changes: tuple[Voters, ...] = ()
    """The configurations that may be asked for. If there are any, the first one is written in the history, as a first
    leader does that may be asked to change it."""
    voices: tuple[Voice, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether nobody has anything to hear of configurations."""
        return not self.changes and not self.voices

    def renamings(self, count: int) -> list[tuple[ServerId, ...]]:
        """New ids of this many servers that leave the world as it is; the first one leaves every id as it is."""
        return [each for each in permutations(map(ServerId, range(1, count + 1))) if self._is_same(each)]

    def _is_same(self, renaming: tuple[ServerId, ...]) -> bool:
        def renamed(voters: Voters) -> Voters:
            return frozenset(renaming[sid - 1] for sid in voters)

        named = [self.joining, *self.changes, *(voice.voters for voice in self.voices)]
        files = self.files
        return all(renamed(each) == each for each in named) and all(
            renamed(file) == files[renaming[at] - 1] for at, file in enumerate(files)
        )


def _voters(*sids: int) -> Voters:
    return frozenset(map(ServerId, sids))


_ALL: Final = (_voters(1, 2, 3),) * 3
_HIGH: Final = 5 << 32 | 1
"""A version above those of the few epochs that are explored."""
_LIAR: Final = Voice(ServerId(4), _HIGH, _voters(1), is_proven=False, is_of_lineage=True)
_RELICS: Final = tuple(
    Voice(ServerId(sid), _HIGH, voters, is_proven=True, is_of_lineage=False)
    for sid, voters in ((5, _voters(1)), (6, _voters(1, 2, 3)))
)

PLAIN: Final = "plain"
WORLDS: Final[Mapping[str, World]] = {
    PLAIN: World(),
    "shrink": World(_ALL, changes=(_voters(1, 2), _voters(1, 2, 3))),
    "move": World((_voters(1, 2), _voters(1, 2), _voters(1, 2, 3)), _voters(3), changes=(_voters(2, 3),)),
    "replace": World((*_ALL, _voters(1, 2, 3, 4)), _voters(4), changes=(_voters(2, 3, 4),)),
    "alone": World(_ALL, changes=(_voters(2), _voters(1))),
    "fresh": World(_ALL, voices=(_LIAR, _RELICS[0])),
    "outsiders": World(_ALL, changes=(_voters(1, 3),), voices=(_LIAR, *_RELICS)),
}
