"""Ledgers in a tree, for tests of the lists that name them."""

from zab.coordination.operations import Create
from zab.ledger.metadata.ledger_metadata import Fragment, LedgerMetadata, VersionedMetadata
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.metadata.serialized import encode_metadata
from zab.ledger.store.ledgers import make_parents

LOGS, NAME, ROOT = "/logs", "orders", "/ledgers"


def metadata(**fields):
    return LedgerMetadata(
        ensemble_size=3,
        write_quorum=3,
        ack_quorum=2,
        fragments=(Fragment(0, ("b1", "b2", "b3")),),
        token=1,
        **fields,
    )


def ledger(of, number, found):
    """This ledger is there."""
    path = ledger_path(ROOT, number)
    of.run(make_parents(ROOT, path))
    of.apply(Create(path, encode_metadata(found))).must(path)
    of.asked.clear()
    return VersionedMetadata(number, found, 0)
