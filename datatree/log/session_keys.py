"""The keys of session passwords, as a member stores them: version-1/sessionKeys.

    <lineage, 32 hex digits>[ <name, 16 hex digits>:<key, 64 hex digits>]...\n<checksum>\n

The first one is in use. They are only valid in one lineage. The checksum is computed like that of the other small
records (`datatree.log.epochs`). Only the member may read the file.

A member with a history but without this file comes from a version with a single key, derived from the lineage. A
history that a tool makes has the file, without a key: no session of it can be resumed.

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
"""The name of the key that is derived from the lineage: to know the lineage is to know the key."""


@frozen
class NamedKey:
    """A key, and the name of the secret under which it was made. Its text form never shows it."""

    name: bytes
    key: bytes = field(repr=False)


def lineage_key(lineage: bytes) -> NamedKey:
    """The key of an ensemble whose members prove nothing: anyone who can reach their ports can learn the lineage."""
    return NamedKey(OF_LINEAGE, blake2b(lineage, digest_size=KEY_BYTES, person=b"zab session key").digest())


def save_session_keys(disk: Disk, lineage: bytes, keys: Sequence[NamedKey]) -> None:
    """Store the keys durably, replacing the existing ones."""
    save_record(disk, SESSION_KEYS, " ".join((lineage.hex(), *(f"{key.name.hex()}:{key.key.hex()}" for key in keys))))


def load_session_keys(disk: Disk, lineage: bytes) -> list[NamedKey] | None:
    """The keys of this lineage; None if the file is missing or unreadable."""
    first, *others = (load_record(disk, SESSION_KEYS) or "").split(" ")
    try:
        keys = [NamedKey(*map(bytes.fromhex, each.split(":"))) for each in others]
    except (TypeError, ValueError):
        return None
    if not first:
        return None
    return keys if first == lineage.hex() else []


def has_damaged_session_keys(disk: Disk) -> bool:
    """Whether the file exists but cannot be read: sessions may depend on keys that this member no longer knows."""
    return disk.exists(_PATH) and load_session_keys(disk, b"") is None
