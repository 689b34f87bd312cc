"""What the coordination service knows of bookies: who is registered, and who has a cookie and is not.

It is read below the chroot of the client, so it is there also when no bookie answers.
"""

from __future__ import annotations

from zab.client import Client
from zab.client.coordination import OpenAccess, perform_steps
from zab.coordination.operations import Children
from zab.coordination.steps import Steps, read
from zab.ledger.metadata.layout import COOKIES
from zab.ledger.metadata.service_info import ServiceInfo
from zab.ledger.store.bookies import RACK, read_bookies
from zab.operations.verdicts.bookies import Bookies, BookieStatus

__all__ = ["read_registered_bookies"]

ROOT = "/ledgers"


async def read_registered_bookies(zk: Client, root: str = ROOT) -> Bookies:
    """All bookies below this root; none if there is no root. Raises CoordinationError."""
    return await perform_steps(zk, _read(root), OpenAccess().acl)


def _read(root: str) -> Steps[Bookies]:
    registered = yield from read_bookies(root, watch=False)
    path = f"{root}/{COOKIES}"
    (cookies,) = yield from read((Children(path),))
    known = () if cookies.is_missing else cookies.must(path).children
    found = {name: BookieStatus(name, "gone") for name in known}
    for state, infos in (("writable", registered.available), ("read-only", registered.read_only)):
        found |= {name: _status(name, state, info) for name, info in infos.items()}
    return Bookies(tuple(found[name] for name in sorted(found)))


def _status(bookie: str, state: str, info: ServiceInfo) -> BookieStatus:
    endpoint = info.bookie_endpoint
    address = None if endpoint is None else f"{endpoint.host}:{endpoint.port}"
    return BookieStatus(bookie, state, address, info.properties.get(RACK))
