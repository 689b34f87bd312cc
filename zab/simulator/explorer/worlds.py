"""The worlds of explored ensembles: the files of servers, possible next configurations, and outside voices.

plain       all files name all servers; there are no other voices
shrink      three voters, to 1 and 2, and back: 3 is removed, and may be added again
move        from 1 and 2 to 2 and 3. The files of 1 and 2 do not name 3, which begins empty
replace     from 1, 2 and 3 to 2, 3 and 4. The files of 1, 2 and 3 do not name 4, which begins empty
alone       three voters, then only 2, then only 1: servers that were away, or lost their disks, know an older
            configuration than the one in force
fresh       three voters of an ensemble without a single write, which hear the first two of the outsiders
outsiders   three voters, which may become 1 and 3, and hear three others. The first one has no proof, and says that
            only 1 votes. The others have proof, and are left over from ensembles of another lineage: in the second
            one's only 1 voted, in the third one's 1, 2 and 3
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
    """A server outside the ensemble, which says that a configuration is in force."""

    sid: ServerId
    version: int
    voters: Voters
    is_proven: bool
    """Whether it has proven to belong to the ensemble, as members do."""
    is_of_lineage: bool
    """Whether it claims the ensemble's lineage."""


@attrs.frozen
class World:
    files: tuple[Voters, ...] = ()
    """The voters in the file of server 1, of server 2, and so on; 1's file has the first configuration. Empty: all
    servers vote, by every file."""
    joining: Voters = frozenset()
    """Servers that begin empty."""
    changes: tuple[Voters, ...] = ()
    """The configurations that may be requested. If there are any, the configuration of the files is in the history, as
    a first leader writes it."""
    voices: tuple[Voice, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to hear about configurations."""
        return not self.changes and not self.voices

    def renamings(self, count: int) -> list[tuple[ServerId, ...]]:
        """The renamings of this many servers that do not change the world; the first one leaves every id as it is."""
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
