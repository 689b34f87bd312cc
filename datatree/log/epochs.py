r"""The small durable records of a member: its promises, its lineage, and how far it knows history to be committed.

    version-1/acceptedEpoch   the last epoch that it accepted (LEADERINFO), at least currentEpoch
    version-1/currentEpoch    the last epoch whose leader it acknowledged (NEWLEADER)
    version-1/member          written last, before the first ACK of NEWLEADER: it holds a synchronized history
    version-1/sessionKeys     what the passwords of sessions are made with (`datatree.log.session_keys`)
    version-1/committed       the high-water mark that it knows, for readers of an idle log
    initialize                empty, made by the operator: this member never had data

All but the last two are text, replaced as a whole and durable when saved. Without the first three valid, a member is
amnesiac: it does not count for election or epoch until a leader has synchronized it. A checksum that does not match
counts as no file: a promise that cannot be read must not be guessed.

    acceptedEpoch, currentEpoch   <epoch, decimal>\n<checksum>\n
    member                        <lineage, 32 hex digits> <server id, decimal>[ founder]\n<checksum>\n

The checksum is CRC-32 of the file's name, a space and the first line without its end, as 8 hex digits.

`committed` is 36 bytes, overwritten in place and not synced, big-endian:

    offset  bytes  field
         0      4  magic "ZMRK"
         4      4  version, 1
         8     16  lineage id
        24      8  high-water mark: at most the last zxid that was durable in the log when it was written
        32      4  CRC-32 of bytes 0 to 31

`initialize` is ZooKeeper's. It is the operator's declaration for one start, and removed before any other server hears
of it: a member that later loses its data does not find it again.
"""

import struct
from zlib import crc32

from attrs import frozen

from datatree.log.batch import LINEAGE_BYTES
from datatree.log.disk import Disk

DIRECTORY = "version-1"
ACCEPTED_EPOCH = "acceptedEpoch"
CURRENT_EPOCH = "currentEpoch"
MEMBER = "member"
COMMITTED = "committed"
INITIALIZE = "initialize"

_FOUNDER = " founder"
_MARK = struct.Struct(">4sI16sQ")
_MARK_MAGIC = b"ZMRK"
_CRC = struct.Struct(">I")


@frozen
class MemberRecord:
    """The record that a member holds a synchronized history of `lineage`."""

    lineage: bytes
    server_id: int
    founder: bool = False
    """A forced recovery made the lineage here, from this member's data."""


def save_record(disk: Disk, name: str, line: str) -> None:
    """Replace a record of one line, durably."""
    checksum = crc32(f"{name} {line}".encode())
    disk.replace(f"{DIRECTORY}/{name}", f"{line}\n{checksum:08x}\n".encode())


def load_record(disk: Disk, name: str) -> str | None:
    """The line of a record, or None if it is missing or unreadable."""
    path = f"{DIRECTORY}/{name}"
    if not disk.exists(path):
        return None
    try:
        line, checksum, rest = disk.read(path).decode("ascii").split("\n")
    except ValueError:
        return None
    return line if not rest and checksum == f"{crc32(f'{name} {line}'.encode()):08x}" else None


def save_epochs(disk: Disk, accepted: int, current: int) -> None:
    """Save both, acceptedEpoch first, so that it is never below currentEpoch; unchanged ones are not rewritten."""
    assert 0 <= current <= accepted
    for name, epoch in ((ACCEPTED_EPOCH, accepted), (CURRENT_EPOCH, current)):
        if load_record(disk, name) != str(epoch):
            save_record(disk, name, str(epoch))


def load_epochs(disk: Disk) -> tuple[int, int] | None:
    """(acceptedEpoch, currentEpoch), or None if either is missing or unreadable, or they contradict each other."""
    lines = load_record(disk, ACCEPTED_EPOCH), load_record(disk, CURRENT_EPOCH)
    if lines[0] is None or lines[1] is None or not (lines[0].isdecimal() and lines[1].isdecimal()):
        return None
    accepted, current = int(lines[0]), int(lines[1])
    return (accepted, current) if accepted >= current else None


def save_member(disk: Disk, member: MemberRecord) -> None:
    """Make it durable that this member is synchronized."""
    assert len(member.lineage) == LINEAGE_BYTES
    save_record(disk, MEMBER, f"{member.lineage.hex()} {member.server_id}{_FOUNDER if member.founder else ''}")


def load_member(disk: Disk) -> MemberRecord | None:
    """The member record, or None when it is missing or unreadable."""
    line = load_record(disk, MEMBER)
    if line is None:
        return None
    lineage, _, server_id = line.removesuffix(_FOUNDER).partition(" ")
    if len(lineage) != 2 * LINEAGE_BYTES or not server_id.isdecimal():
        return None
    return MemberRecord(bytes.fromhex(lineage), int(server_id), line.endswith(_FOUNDER))


def forget_member(disk: Disk) -> None:
    """Make it durable that this member is no longer synchronized."""
    path = f"{DIRECTORY}/{MEMBER}"
    if disk.exists(path):
        disk.remove(path)
        disk.sync_directory(DIRECTORY)


def take_marker(disk: Disk) -> bool:
    """Whether the operator left the file `initialize`; the file is gone, durably, once this returns."""
    if not disk.exists(INITIALIZE):
        return False
    disk.remove(INITIALIZE)
    disk.sync_directory("")
    return True


def pack_mark(lineage: bytes, zxid: int) -> bytes:
    """The content of `committed`."""
    head = _MARK.pack(_MARK_MAGIC, 1, lineage, zxid)
    return head + _CRC.pack(crc32(head))


def save_mark(disk: Disk, lineage: bytes, zxid: int, *, durable: bool = False) -> None:
    """Write the high-water mark; only synced if it must durably replace a larger one."""
    path = f"{DIRECTORY}/{COMMITTED}"
    if durable:
        disk.replace(path, pack_mark(lineage, zxid))
    else:
        disk.overwrite(path, pack_mark(lineage, zxid))


def load_mark(disk: Disk) -> tuple[bytes, int] | None:
    """(lineage id, high-water mark), or None when there is no valid one."""
    path = f"{DIRECTORY}/{COMMITTED}"
    if not disk.exists(path):
        return None
    data = disk.read(path)
    if len(data) != _MARK.size + _CRC.size or crc32(data[: _MARK.size]) != _CRC.unpack_from(data, _MARK.size)[0]:
        return None
    magic, version, lineage, zxid = _MARK.unpack_from(data)
    return (lineage, zxid) if magic == _MARK_MAGIC and version == 1 else None
