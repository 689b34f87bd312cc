"""Whether a bookie may start with the directory that it was given.

| directory | znode `cookies/<bookie>` | then |
|---|---|---|
| empty | none | the first start: the znode is made, **then** the file |
| cookie | the same | it may start |
| cookie | none, or another | refused: another cluster, a cookie that was deleted, or the name is another bookie's |
| empty | any | refused: **the disk was lost**, and with it what this bookie has acknowledged |

In the other order, a power cut between the two would leave a directory that claims to be known.

The file `cookie` has the bytes of the znode and, for the headers of all other files, the id of the data. Numbers are
big-endian: magic "BCKI", version 1 (4), uuid (16), length (4), the bytes of the znode, CRC-32 of everything before it.
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from zlib import crc32

from attrs import frozen

from datatree.log.disk import Disk
from zab.coordination.operations import Create, Get, Sync, ZooKeeperError
from zab.coordination.steps import Steps, create_one, read
from zab.ledger.bookie.config import UUID_BYTES
from zab.ledger.metadata.cookies import Cookie, decode_cookie, encode_cookie
from zab.ledger.metadata.layout import COOKIES, INSTANCE_ID
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError

COOKIE_FILE: Final = "cookie"

_HEAD: Final = Struct(">4sI16sI")
_CRC: Final = Struct(">I")


class CookieError(Exception):
    """The bookie must not start; the text says why and what to do."""


@frozen
class LocalCookie:
    """The content of the file."""

    data: bytes
    """The bytes of the znode."""
    uuid: bytes

    def pack(self) -> bytes:
        assert len(self.uuid) == UUID_BYTES
        body = _HEAD.pack(b"BCKI", 1, self.uuid, len(self.data)) + self.data
        return body + _CRC.pack(crc32(body))


def read_local_cookie(disk: Disk) -> LocalCookie | None:
    """The file, None if the directory is empty. Raises CookieError if it is damaged, or missing beside other files."""
    if not disk.exists(COOKIE_FILE):
        others = [name for name in ("checkpoint",) if disk.exists(name)]
        others += [name for name in ("journal", "entries", "state") if disk.list(name)]
        if others:
            raise CookieError(f"there is no file {COOKIE_FILE}, but {', '.join(others)} -> this is no empty directory")
        return None
    return parse_local_cookie(disk.read(COOKIE_FILE))


def parse_local_cookie(data: bytes) -> LocalCookie:
    """The content of the file. Raises CookieError if it is damaged."""
    if len(data) >= _HEAD.size + _CRC.size and _CRC.pack(crc32(data[: -_CRC.size])) == data[-_CRC.size :]:
        magic, version, uuid, length = _HEAD.unpack_from(data)
        if (magic, version, length) == (b"BCKI", 1, len(data) - _HEAD.size - _CRC.size):
            return LocalCookie(data[_HEAD.size : -_CRC.size], uuid)
    raise CookieError(f"the file {COOKIE_FILE} is damaged -> decommission this bookie")


def write_local_cookie(disk: Disk, cookie: LocalCookie) -> None:
    """Write the file, durably: after `check_cookie`, at the first start."""
    if disk.exists(f"{COOKIE_FILE}.tmp"):
        disk.remove(f"{COOKIE_FILE}.tmp")
        disk.sync_directory("")
    disk.replace(COOKIE_FILE, cookie.pack())


def check_cookie(root: str, cookie: Cookie, local: LocalCookie | None) -> Steps[bytes]:
    """Look whether the bookie that this cookie describes may start; the bytes that its file has to have.

    At the first start the znode is made. Raises CookieError, CoordinationError."""
    path = f"{root}/{COOKIES}/{cookie.bookie}"
    _, instance, there = yield from read((Sync(root), Get(f"{root}/{INSTANCE_ID}"), Get(path)))
    if instance.is_missing:
        raise CookieError(f"there is no {root}/{INSTANCE_ID} -> the root is to be formatted first")
    if instance.must(f"{root}/{INSTANCE_ID}").data.decode("utf-8", "replace") != cookie.instance_id:
        raise CookieError(f"{root}/{INSTANCE_ID} is another one -> this bookie belongs to another cluster")
    if local is not None:
        if there.is_missing:
            raise CookieError(f"there is no {path} -> the cookie was deleted: bring the bookie back with a new id")
        _compare(cookie, local, there.must(path).data)
        return local.data
    if not there.is_missing:
        there.must(path)
        raise CookieError(
            f"there is {path}, and the directory is empty -> the disk was lost: decommission {cookie.bookie}, and bring"
            " it back with a new id"
        )
    return (yield from _create(path, encode_cookie(cookie)))


def _compare(cookie: Cookie, local: LocalCookie, there: bytes) -> None:
    if local.data != there:
        raise CookieError(f"the cookie of {cookie.bookie} in the metadata differs from that of the directory")
    try:
        differences = decode_cookie(local.data).differences(cookie)
    except InvalidMetadataError as error:
        raise CookieError(f"the cookie of {cookie.bookie} is not readable: {error}") from error
    if differences:
        raise CookieError(f"the cookie of {cookie.bookie} has another {', '.join(differences)}")


def _create(path: str, data: bytes) -> Steps[bytes]:
    """Make the znode, and the directory of cookies, which a new root has not. A lost answer is decided by what is
    there: it was not there before, so it is nobody else's."""
    was_lost = False
    while True:
        (created,) = yield (Create(path, data),)
        if created.is_lost:
            was_lost = True
            continue
        if created.is_missing:
            yield from create_one(path.rpartition("/")[0])
            continue
        if created.error == ZooKeeperError.NODEEXISTS and was_lost:
            (found,) = yield from read((Get(path),))
            if found.ok and found.data == data:
                return data
        if created.error == ZooKeeperError.NODEEXISTS:
            raise CookieError(f"another bookie has made {path} at this moment")
        created.must(path)
        return data
