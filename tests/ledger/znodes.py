"""The znode of one ledger, in a tree of its own."""

from zab.coordination.operations import Create, Get, Set
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.metadata.serialized import decode_metadata, encode_metadata
from zab.simulator.coordination.znode_tree import ZnodeTree

ROOT = "/ledgers"


class LedgerZnodes:
    def __init__(self, ledger, metadata):
        self.path = ledger_path(ROOT, ledger)
        self.tree = ZnodeTree()
        self.session = self.tree.begin_session()
        parent = ""
        for name in self.path.split("/")[1:-1]:
            parent += f"/{name}"
            self.apply(Create(parent))
        self.apply(Create(self.path, encode_metadata(metadata)))
        self.history = [metadata]

    def apply(self, operation):
        result = self.tree.apply(self.session, operation)
        if result.ok and isinstance(operation, Set):
            self.history.append(self.metadata)
        return result

    @staticmethod
    def writes(operation):
        return isinstance(operation, Set)

    @property
    def metadata(self):
        return decode_metadata(self.tree.data(self.path))

    @property
    def version(self):
        return self.apply(Get(self.path)).stat.version

    def put(self, metadata):
        self.apply(Set(self.path, encode_metadata(metadata))).must(self.path)

    def remove(self):
        del self.tree.znodes[self.path]
