"""Access control lists: how a list is validated, whom it permits what, and the table that interns lists.

An entry is (permission bits, scheme, id), a list a tuple of entries; None stands for the open list: world:anyone with
all permissions. An identity is (scheme, id) and belongs to a connection: ("ip", address) from the start, more after
authentication, and ("super", "") for the superuser, who passes every check.

    scheme  valid id in a list                        an identity matches
    world   "anyone"                                  always
    auth    any; replaced by the authenticated        -
            identities of the connection
    digest  two parts around ":", the second not      if equal
            empty; more ":" may follow at the end
    ip      IPv4 or IPv6 address, "/bits" optional    if it lies in the network
    x509    a distinguished name                      if equal
    sasl    a Kerberos name, a[/b][@REALM]            if equal; user `super` has what any sasl entry grants

Invariants: `AclTable` counts one reference per znode; the digest of a list only depends on its content. Not here: how a
connection gets its identities (`zab.member`).
"""

import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from hashlib import new as new_hash
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from struct import Struct
from typing import Final, TypeAlias
from zlib import crc32

from datatree.errors import ErrorCode, Refused
from datatree.paths import text_of
from datatree.record import Acl, AclList
from datatree.requests import OPEN_ACL, WireAcl

__all__ = [
    "ACL_BYTES_MAX",
    "ACL_COUNT_MAX",
    "ADMIN",
    "ALL",
    "ANY_SASL",
    "CREATE",
    "DELETE",
    "OPEN",
    "READ",
    "SCHEMES",
    "SUPER",
    "WRITE",
    "Acl",
    "AclList",
    "AclTable",
    "Entries",
    "Identity",
    "digest_identity",
    "explicit",
    "fix_up",
    "masked",
    "permits",
    "size_of",
]

Identity: TypeAlias = tuple[bytes, bytes]

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
ALL: Final = 31

# The id of the open list in an AclTable.
OPEN: Final = -1
SUPER: Final[Identity] = (b"super", b"")
ANY_SASL: Final = b"any sasl"
"""The scheme of an identity without proof of its own: ("any sasl", name) has what entries of ("sasl", name) grant, but
an `auth` entry does not include it. No list can name it."""
READ_ONLY: Final[AclList] = ((READ, b"world", b"anyone"),)

_WORLD: Final = (b"world", b"anyone")
_SASL_SUPER: Final[Identity] = (b"sasl", b"super")
# Identities of these schemes prove who somebody is; an address does not.
_AUTHENTICATED: Final = frozenset({b"digest", b"x509", b"sasl"})
_LENGTHS: Final = Struct(">iII")
# Permissions and two lengths.
_ENTRY_BYTES: Final = 12
ACL_BYTES_MAX: Final = 0xFFFFF
ACL_COUNT_MAX: Final = 256
"""The most entries of a list, unless the configuration says otherwise."""
ADDRESSES_MAX: Final = 1024
"""For how many addresses a list caches its permissions."""


def _valid_digest(name: bytes) -> bool:
    # Java's split, whose parts ZooKeeper counts, only drops empty parts at the end.
    return len(name.rstrip(b":").split(b":")) == 2


def _network(name: bytes) -> IPv4Network | IPv6Network | None:
    """The network that an ip entry names; None if it names none."""
    address, slash, bits = name.partition(b"/")
    if (slash and not re.fullmatch(rb"[0-9]{1,3}", bits)) or b"%" in address:
        return None
    try:
        return ip_network(name.decode(), strict=False)
    except ValueError:
        return None


class _Grants:
    """What a list grants to whom, computed once: a check takes the same time however long the list is."""

    __slots__ = ("_everybody", "_exact", "_networks", "_of_address")

    def __init__(self, acl: Iterable[Acl]) -> None:
        self._everybody = 0
        self._exact: dict[Identity, int] = {}
        self._networks: list[tuple[int, IPv4Network | IPv6Network]] = []
        self._of_address: dict[bytes, int] = {}
        """Permissions of the most recent addresses."""
        for granted, scheme, name in acl:
            if scheme == b"ip":
                network = _network(name)
                if network is not None:
                    self._networks.append((granted, network))
            elif scheme != b"world":
                matching = {(scheme, name)}
                if scheme == b"sasl":
                    matching |= {_SASL_SUPER, (ANY_SASL, name)}
                for identity in matching:
                    self._exact[identity] = self._exact.get(identity, 0) | granted
            elif name == b"anyone":
                self._everybody |= granted

    def permits(self, mask: int, identities: Iterable[Identity]) -> bool:
        if self._everybody & mask:
            return True
        for identity in identities:
            scheme, name = identity
            granted = self._to_address(name) if scheme == b"ip" else self._exact.get(identity, 0)
            if granted & mask or scheme == b"super":
                return True
        return False

    def _to_address(self, name: bytes) -> int:
        granted = self._of_address.get(name)
        if granted is None:
            granted = self._work_out(name) if self._networks else 0
            if len(self._of_address) >= ADDRESSES_MAX:
                self._of_address.clear()
            self._of_address[name] = granted
        return granted

    def _work_out(self, name: bytes) -> int:
        try:
            address = ip_address(name.decode())
        except ValueError:
            return 0
        granted = 0
        for bits, network in self._networks:
            if address in network:
                granted |= bits
        return granted


class Entries(tuple[Acl, ...]):
    """A stored list."""

    @cached_property
    def grants(self) -> _Grants:
        return _Grants(self)


_VALID: Final[dict[bytes, Callable[[bytes], object]]] = {
    b"digest": _valid_digest,
    b"ip": lambda name: _network(name) is not None,
    b"x509": re.compile(rb"\s*[\w.-]+\s*=[^,]+([,+]\s*[\w.-]+\s*=[^,]+)*", re.ASCII).fullmatch,
    b"sasl": re.compile(rb"[^/@]+(/[^/@]+)?(@[^/@]+)?").fullmatch,
}
# The schemes a list may use besides world and auth, unless the configuration says otherwise.
SCHEMES: Final = frozenset(_VALID)


def size_of(entries: Iterable[Acl]) -> int:
    """How many bytes the entries take in a request."""
    return sum(_ENTRY_BYTES + len(scheme) + len(name) for _, scheme, name in entries)


def fix_up(
    acl: tuple[WireAcl, ...] | None,
    identities: Iterable[Identity],
    schemes: frozenset[bytes] = SCHEMES,
    bytes_max: int = ACL_BYTES_MAX,
    count_max: int = ACL_COUNT_MAX,
) -> AclList:
    """The list to store for the one that a client sent. Raises Refused(INVALIDACL).

    Ids become text, duplicates are dropped, `auth` is replaced by the authenticated ones among `identities`, and ids
    are validated; the bits are not. A short `auth` may stand for many identities, and an invalid byte becomes three, so
    the result may take at most `bytes_max`. It may have at most `count_max` entries, and an `auth` that would exceed
    that is refused before it is expanded.
    """
    if acl is OPEN_ACL or acl == OPEN_ACL:
        return None
    if acl is not None and len(acl) > count_max:
        raise Refused(ErrorCode.INVALIDACL)
    fixed: list[Acl] = []
    room = bytes_max
    proven: list[Identity] | None = None
    as_text = ((perms, scheme, name and text_of(name)) for perms, scheme, name in acl or ())
    for perms, scheme, name in dict.fromkeys(as_text):
        # The id of "auth" means nothing, not even when it is null.
        if scheme == b"auth":
            if proven is None:
                proven = [identity for identity in identities if identity[0] in _AUTHENTICATED]
            if len(fixed) + len(proven) > count_max:
                raise Refused(ErrorCode.INVALIDACL)
            entries = [(perms, *identity) for identity in proven]
        elif scheme is None or name is None:
            entries = []
        elif (scheme, name) == _WORLD or (scheme in schemes and _VALID[scheme](name)):
            entries = [(perms, scheme, name)]
        else:
            entries = []
        room -= size_of(entries)
        if not entries or room < 0:
            raise Refused(ErrorCode.INVALIDACL)
        fixed += entries
    if not fixed or len(fixed) > count_max:
        raise Refused(ErrorCode.INVALIDACL)
    stored = Entries(fixed)
    return None if stored == OPEN_ACL else stored


def permits(acl: AclList, mask: int, identities: Collection[Identity]) -> bool:
    """Whether some entry grants a bit of `mask` to some identity. An open or empty list grants all; the superuser has
    all."""
    if not acl:
        return True
    grants = acl.grants if isinstance(acl, Entries) else _Grants(acl)
    return grants.permits(mask, identities)


def explicit(acl: AclList) -> tuple[Acl, ...]:
    """The list with the open one written out, as a client sees it."""
    return ((ALL, b"world", b"anyone"),) if acl is None else acl


def masked(acl: tuple[Acl, ...]) -> tuple[Acl, ...]:
    """The list as shown to clients without the permission ADMIN: the hashes of digest ids become "x"."""
    return tuple(
        (perms, scheme, name.partition(b":")[0] + b":x") if scheme == b"digest" else (perms, scheme, name)
        for perms, scheme, name in acl
    )


def digest_identity(user_password: bytes, algorithm: str = "sha1") -> Identity:
    """The identity that `user:password` proves: user, ":", base64 of the hash of both. `algorithm` is for hashlib."""
    user_password = text_of(user_password)
    hashed = new_hash(algorithm, user_password, usedforsecurity=False).digest()
    return b"digest", user_password.partition(b":")[0] + b":" + b64encode(hashed)


def acl_checksum(acl: AclList) -> int:
    """The CRC-32 of a list's content; 0 for the open list."""
    checksum = 0
    for perms, scheme, name in acl or ():
        checksum = crc32(_LENGTHS.pack(perms, len(scheme), len(name)) + scheme + name, checksum)
    return checksum


class AclTable:
    """The lists in use, each under a small id with a count of the znodes that refer to it.

    `lists` maps id to list, `checksums` id to the checksum of its content; the open list is there under `OPEN` and is
    not counted. Ids are never reused, so an id in a snapshot cursor keeps its meaning.
    """

    __slots__ = ("_counts", "_ids", "_next", "checksums", "lists")

    def __init__(self) -> None:
        self.lists: dict[int, AclList] = {OPEN: None}
        self.checksums: dict[int, int] = {OPEN: 0}
        self._ids: dict[tuple[Acl, ...], int] = {}
        self._counts: dict[int, int] = {}
        self._next = 1

    def intern(self, acl: AclList) -> int:
        """The id of `acl`, with one more reference."""
        if acl is None:
            return OPEN
        number = self._ids.get(acl)
        if number is None:
            number = self._next
            self._next += 1
            acl = acl if isinstance(acl, Entries) else Entries(acl)
            self._ids[acl] = number
            self._counts[number] = 0
            self.lists[number] = acl
            self.checksums[number] = acl_checksum(acl)
        self._counts[number] += 1
        return number

    def id_of(self, acl: AclList) -> int:
        """The id of a list that is in use, or of the open one."""
        return OPEN if acl is None else self._ids[acl]

    def release(self, number: int) -> None:
        """Drop one reference to `number`, and the list with its last one."""
        if number == OPEN:
            return
        self._counts[number] -= 1
        assert self._counts[number] >= 0
        if self._counts[number] == 0:
            acl = self.lists.pop(number)
            assert acl is not None
            del self._counts[number], self.checksums[number], self._ids[acl]

    def __len__(self) -> int:
        """How many lists are in use besides the open one."""
        return len(self._ids)
