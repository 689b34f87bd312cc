"""The keys that the passwords of sessions are made with, as a member keeps them: version-1/sessionKeys.

    <lineage, 32 hex digits>[ <name, 16 hex digits>:<key, 64 hex digits>]...\n<checksum>\n

The one in use is the first. They are good in one lineage only. The checksum is that of the other small records
(`datatree.log.epochs`). Nobody but the member may read the file.

A member that has a history and no such file comes from a time when there was one key, which follows from the lineage. A
history that a tool makes has the file, without a key: no session of it can be taken up.

Not here: who makes a key, and when (`zab.protocol.session_keys`).
"""

from collections.abc import Sequence
from hashlib import blake2b

from attrs import field, frozen

from datatree.log.disk import Disk
from datatree.log.epochs import DIRECTORY, load_record, save_record

SESSION_KEYS = "sessionKeys"
_PATH = f"{DIRECTORY}/{SESSION_KEYS}"
KEY_BYTES = 32
OF_LINEAGE = b"lineage\0"
"""The name of the key that follows from the lineage. Whoever knows that knows the key."""


@frozen
class NamedKey:
    """A key, and the name of the secret under which it was made. Its text never shows it."""

    name: bytes
    key: bytes = field(repr=False)


def lineage_key(lineage: bytes) -> NamedKey:
    """The key of an ensemble whose members prove nothing: whoever reaches their ports knows the lineage."""
    return NamedKey(OF_LINEAGE, blake2b(lineage, digest_size=KEY_BYTES, person=b"zab session key").digest())


def save_session_keys(disk: Disk, lineage: bytes, keys: Sequence[NamedKey]) -> None:
    """Make them durable, in place of those that were there."""
    save_record(disk, SESSION_KEYS, " ".join((lineage.hex(), *(f"{key.name.hex()}:{key.key.hex()}" for key in keys))))


def load_session_keys(disk: Disk, lineage: bytes) -> list[NamedKey] | None:
    """Those of this lineage; None when the file is missing or unreadable."""
    first, *others = (load_record(disk, SESSION_KEYS) or "").split(" ")
    try:
        keys = [NamedKey(*map(bytes.fromhex, each.split(":"))) for each in others]
    except (TypeError, ValueError):
        return None
    if not first:
        return None
    return keys if first == lineage.hex() else []


def has_damaged_session_keys(disk: Disk) -> bool:
    """Whether there is a file and it cannot be read: sessions may depend on what nobody knows here any more."""
    return disk.exists(_PATH) and load_session_keys(disk, b"") is None
