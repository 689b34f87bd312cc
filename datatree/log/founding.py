"""Makes the directory of a snapshot that of a member which holds all of the history that begins with it."""

from datatree.log.disk import Disk
from datatree.log.epochs import MemberRecord, save_epochs, save_member
from datatree.log.session_keys import save_session_keys


def found(disk: Disk, record: MemberRecord, accepted: int, current: int) -> None:
    """Write acceptedEpoch and currentEpoch, then sessionKeys, then the member record, each durably. The next leader
    begins an epoch after `accepted`. No session of the snapshot can be resumed, since there is no key for the
    passwords.

    Raises OSError: then it is not a member's directory.
    """
    save_epochs(disk, accepted, current)
    save_session_keys(disk, record.lineage, [])
    save_member(disk, record)
