"""What the words of a member tell of the machine around it, and how it is asked for."""

from __future__ import annotations

import attrs

from zab.member.words.surroundings import Surroundings


@attrs.define
class LookedAround:
    """The answer to `LookAround`."""

    surroundings: Surroundings


@attrs.define
class LookAround:
    """Look at what is around this member; answered with `LookedAround`. One at a time."""
