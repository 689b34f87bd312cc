"""Handles a history that can no longer be read: the other members fill it again (C6 damaged histories).

The member starts as an amnesiac (B2 amnesiacs): it counts for no election, no epoch and no acknowledgement, and no
member starts again as if it had never had data, even if many are damaged (B3 first start). Its files stay as they are
until a leader that has a quorum without it synchronizes it; then they move to a directory of their own
(`datatree.log.aside`).

A member that is a quorum by itself cannot be filled by others: going on would lose what it acknowledged. It ends, and
says what to do.

Not here: the detection of damage (`datatree.recovery.recover`).
"""

from __future__ import annotations

from zab.member.membership.restore import quorum_of
from zab.member.settings.config import Config
from zab.quorum.ids import ServerId


def is_alone(config: Config) -> bool:
    """Whether this member is a quorum by itself."""
    return config.is_standalone or quorum_of(config).contains({ServerId(config.server_id)})
