"""The effect that looks at the machine around a member, and its answer."""

from __future__ import annotations

import attrs

from zab.member.words.surroundings import Surroundings


@attrs.define
class LookedAround:
    """The answer to `LookAround`."""

    surroundings: Surroundings


@attrs.define
class LookAround:
    """Look at the surroundings of this member; answered with `LookedAround`. One at a time."""
