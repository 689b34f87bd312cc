"""How a simulated bookie registers: an ephemeral that says where it is, in one of two lists.

available/<id>              it takes entries
available/readonly/<id>     it does not
"""

from __future__ import annotations

from zab.coordination.operations import Create, Delete, ZooKeeperError
from zab.coordination.steps import Pause, Steps
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.layout import AVAILABLE, READ_ONLY
from zab.ledger.metadata.service_info import ServiceInfo, bookie_endpoint, encode_service_info

PORT = 3181
RETRY_MS = 200


def register(root: str, bookie: BookieId, *, is_read_only: bool) -> Steps[None]:
    """Register a bookie; what an earlier session of it has left is waited for."""
    here, there = f"{root}/{AVAILABLE}/{bookie}", f"{root}/{READ_ONLY}/{bookie}"
    if is_read_only:
        here, there = there, here
    data = encode_service_info(ServiceInfo((bookie_endpoint(bookie, PORT),)))
    while True:
        (created,) = yield (Create(here, data, ephemeral=True),)
        if created.ok:
            break
        if created.error != ZooKeeperError.NODEEXISTS and not created.is_lost:
            created.must(here)
        yield Pause(RETRY_MS)
    yield (Delete(there),)
