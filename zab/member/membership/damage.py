"""What a member does about a history that cannot be read any more: the others fill it again (C6 damaged histories).

It starts all the same, as an amnesiac (B2 amnesiacs): it counts for no election, no epoch and no acknowledgement, and
nobody begins anew as if it had never had data, however many are damaged (B3 first start). Its files stay as they are
until a leader that has a quorum without it synchronizes it; then they go into a directory beside
(`datatree.log.aside`).

Who is a quorum by itself has nobody to be filled by: going on would lose what it acknowledged. It ends, and says what
to do.

Not here: what is damage (`datatree.recovery.recover`).
"""

from __future__ import annotations

from zab.member.membership.restore import quorum_of
from zab.member.settings.config import Config
from zab.quorum.ids import ServerId


def is_alone(config: Config) -> bool:
    """Whether this member is a quorum by itself."""
    return config.is_standalone or quorum_of(config).contains({ServerId(config.server_id)})
