"""The bookies that are registered, and the root that they and all ledgers are below.

    read_bookies(root)                 who is available, who is read-only, where they are; with watches on all of it
    format_root(root, instance)        a new root, as BookKeeper's `initnewcluster` makes it
    read_instance(root)                the id of the root, None if there is no root

Every watch that fires is a reason to read again; without a root there is one that waits for it. A bookie that has
registered something unreadable, or no address, cannot be used, and is left out; so is one whose znode may not be read:
it must not hide all others. One that is on its way from one list to the other counts as read-only.

Of more than `BOOKIES_MAX` names in a list the first ones count. More than `INFO_BYTES_MAX` is no address.

Not here: how a bookie registers (`zab.ledger.bookie`), which of them are chosen (`zab.ledger.placement`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from attrs import field, frozen

from zab.coordination.operations import Children, Create, Exists, Get, Multi, Result, Sync, ZooKeeperError
from zab.coordination.steps import Steps, chunks, read
from zab.ledger.entries.ids import BookieId, is_bookie_id
from zab.ledger.metadata.layout import (
    AVAILABLE,
    INSTANCE_ID,
    LAYOUT,
    READ_ONLY,
    Layout,
    decode_layout,
    encode_layout,
)
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.service_info import ServiceInfo, decode_service_info
from zab.ledger.placement.nodes import DEFAULT_RACK, BookieNode
from zab.ledger.store.events import BookiesKnown

RACK: Final = "rack"
FREE_BYTES: Final = "freeBytes"
"""Properties that a bookie of this project registers; BookKeeper's bookies have others, or none."""

BOOKIES_MAX: Final = 10_000
"""So many bookies of a list are read."""
INFO_BYTES_MAX: Final = 65_536
"""What a bookie registers is no longer than this."""

_READ_ONLY_NAME: Final = READ_ONLY.rpartition("/")[2]


@frozen
class RegisteredBookies:
    """What is registered now."""

    available: Mapping[BookieId, ServiceInfo] = field(hash=False)
    read_only: Mapping[BookieId, ServiceInfo] = field(hash=False)

    @property
    def known(self) -> BookiesKnown:
        """All of them, as the cores of clients are told it."""
        nodes = tuple(node_of(bookie, info) for bookie, info in self.available.items())
        return BookiesKnown(nodes, frozenset(self.read_only))


def node_of(bookie: BookieId, info: ServiceInfo) -> BookieNode:
    """A bookie, as placement sees it; a property that is no number is not there."""
    free = info.properties.get(FREE_BYTES, "")
    is_number = free.isascii() and free.isdigit() and len(free) <= 18
    return BookieNode(bookie, info.properties.get(RACK) or DEFAULT_RACK, int(free) if is_number else None)


def read_bookies(root: str, *, watch: bool = True) -> Steps[RegisteredBookies]:
    """All that are registered, in the order of their names."""
    read_only, available = f"{root}/{READ_ONLY}", f"{root}/{AVAILABLE}"
    found: dict[str, dict[BookieId, ServiceInfo]] = {read_only: {}, available: {}}
    listed = yield from _listed(root, (read_only, available), watch=watch)
    for path, names in listed.items():
        for some in chunks(Get(f"{path}/{name}", watch) for name in names):
            # What is decoded takes less memory than what it is decoded from, so that is not kept.
            for asked, result in zip(some, (yield from read(some)), strict=True):
                bookie = BookieId(asked.path.rpartition("/")[2])
                info = _info(bookie, asked.path, result)
                if info is not None:
                    found[path][bookie] = info
    usable = {each: info for each, info in found[available].items() if each not in found[read_only]}
    return RegisteredBookies(usable, found[read_only])


def _listed(root: str, paths: tuple[str, ...], *, watch: bool) -> Steps[dict[str, list[str]]]:
    """The names of bookies in these directories."""
    while True:
        _, *listed = yield from read((Sync(root), *(Children(path, watch) for path in paths)))
        # A list that is not there has no watch. That of those who are available has the other one in it.
        if not (watch and listed[-1].is_missing):
            break
        (exists,) = yield from read((Exists(paths[-1], watch=True),))
        if exists.is_missing:
            break
    return {path: list(_names(path, result)) for path, result in zip(paths, listed, strict=True)}


def _names(path: str, listed: Result) -> Iterator[str]:
    if not listed.is_missing:
        names = (name for name in listed.must(path).children if is_bookie_id(name) and name != _READ_ONLY_NAME)
        yield from islice(names, BOOKIES_MAX)


def _info(bookie: BookieId, path: str, found: Result) -> ServiceInfo | None:
    if found.is_missing or found.error == ZooKeeperError.NOAUTH or len(found.data) > INFO_BYTES_MAX:
        return None
    try:
        info = decode_service_info(bookie, found.must(path).data)
    except InvalidMetadataError:
        return None
    return info if info.bookie_endpoint is not None else None


def read_instance(root: str) -> Steps[str | None]:
    """The id of the root. Raises InvalidMetadataError if its ledgers are laid out in a way that is not served here."""
    path, layout = f"{root}/{INSTANCE_ID}", f"{root}/{LAYOUT}"
    _, instance, laid_out = yield from read((Sync(root), Get(path), Get(layout)))
    if instance.is_missing:
        return None
    # BookKeeper takes the layout for this one if none is written down.
    if not laid_out.is_missing and not decode_layout(laid_out.must(layout).data).is_served:
        raise InvalidMetadataError("the ledgers are laid out in another way")
    try:
        return instance.must(path).data.decode()
    except UnicodeDecodeError:
        raise InvalidMetadataError("the id of the root is no text") from None


def format_root(root: str, instance: str) -> Steps[bool]:
    """Make a new root with this id, a UUID that is new. Its parent is there. False: there is a root already."""
    made: tuple[Create, ...] = (
        Create(root),
        Create(f"{root}/{AVAILABLE}"),
        Create(f"{root}/{READ_ONLY}"),
        Create(f"{root}/{INSTANCE_ID}", instance.encode()),
    )
    while True:
        (created,) = yield (Multi(made),)
        if created.is_lost or created.error == ZooKeeperError.NODEEXISTS:
            there = yield from read_instance(root)
            if created.is_lost and there is None:
                continue
            if there != instance:
                return False
        else:
            created.must(root)
        yield from _create(f"{root}/{LAYOUT}", encode_layout(Layout()))
        return True


def _create(path: str, data: bytes) -> Steps[None]:
    while True:
        (created,) = yield (Create(path, data),)
        if not created.is_lost:
            if created.error != ZooKeeperError.NODEEXISTS:
                created.must(path)
            return
