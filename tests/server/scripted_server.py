"""A server whose member and links do what a test says."""

from contextlib import asynccontextmanager

import pytest
import trio

from datatree.snapshot import SnapshotWriter
from datatree.tree import DataTree
from tests.member.storage.storage_setup import LINEAGE, open_storage
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.server.transfers import greeting, served_by
from zab.host.loop.dial import Address
from zab.host.loop.loop import Loop, SystemClock, now_ms
from zab.host.loop.mailbox import Mailbox
from zab.host.loop.sockets import ClientSockets
from zab.host.process.operator import JournalOperator
from zab.host.storage.log_thread import LogThread
from zab.member.ports import Ports
from zab.member.settings.zoo_cfg import parse
from zab.member.state.metrics import Metrics
from zab.member.storage.events import (
    StorageFailed,
)
from zab.member.storage.threaded_storage import ThreadedStorage
from zab.member.turn import Turn
from zab.member.words.surroundings import Surroundings
from zab.server.snapshot_transfer import TransferServer
from zab.server.snapshotter import Snapshotter
from zab.server.tasks import Tasks
from zab.wire.client_protocol import ClientProtocol

NOBODY = ClientProtocol(None, 2)
"""No client ever comes."""


class ScriptedMember:
    """Notes its inputs; each step gives out the effects put into `effects`."""

    def __init__(self):
        self.config = parse("dataDir=/nowhere\nclientPort=2181", "zoo.cfg")
        self.clients = self
        self.dirty = {}
        self.effects = []
        self.inputs = []
        self.metrics = Metrics()
        self.seen = trio.Event()
        self.is_between_states = False

    def step(self, now, wall, inputs):
        # The same clock in the same unit; how late the step comes says how busy the machine is.
        assert 0 <= now_ms() - now < 60_000
        self.inputs += inputs
        if inputs:
            self.seen.set()
            self.seen = trio.Event()
        effects, self.effects = self.effects, []
        return effects

    def take_message(self, _now, _link, _payload):
        return False

    def take_durable(self, _now, _event):
        return False

    may_have_more = has_more = False
    awaits_durable = True

    def next_deadline(self):
        return now_ms() + 60_000

    async def wait_for(self, wanted):
        with trio.fail_after(PATIENCE_SECONDS):
            while True:
                for given in self.inputs:
                    if wanted(given) if callable(wanted) else given == wanted:
                        return given
                await self.seen.wait()


class FakeLinks:
    """Quorum links that note what is done to them, in one list with the other parts."""

    has_news = has_unsent = has_knocks = True

    def __init__(self, order):
        self.order = order
        self.unsent = {}
        self.sent = []
        self.closed = []
        self.broken = []
        self.greeted = []

    def receive(self, events, _take_at_once):
        self.order.append("links.receive")

    def flush(self):
        self.order.append("links.flush")

    def send(self, links, message):
        self.sent.append((links, message))

    def close(self, link, reason):
        self.closed.append(link)

    def break_off(self, link, reason):
        self.broken.append(("link", link))

    def break_off_dialled(self, sid, reason):
        self.broken.append(("dialled", sid))

    def dial_failed(self, sid):
        self.broken.append(("dial", sid))

    def adopt_descriptor(self, descriptor, sid, side=None, greeted=None):
        self.broken.append(("adopted", sid))
        self.greeted.append(greeted)
        trio.socket.fromfd(descriptor, 2, 1).close()

    def unsent_bytes(self, link):
        return self.unsent.get(link, 0)

    def accept(self, now):
        self.order.append("links.accept")


class Parts:
    """A host with its parts."""

    def __init__(self, directory, spawn, *, addresses=None, observer_addresses=None, stall_ms=60_000):
        self.order = []
        self.member = ScriptedMember()
        self.loop = Loop()
        self.mailbox = Mailbox(self.loop.wake)
        self.links = FakeLinks(self.order)
        self.storage = open_storage(directory)
        self.log_thread = LogThread(
            self.storage,
            self.mailbox,
            60_000,
            say_slow=lambda took_ms: None,
            timed=lambda took_ms: None,
            failed=StorageFailed,
        )
        self.clients = ClientSockets(self.loop, NOBODY)
        self.snapshotter = Snapshotter(self.storage.disk, self.storage.log, self.mailbox.put)
        self.roles = []
        self.taken = []
        tasks = Tasks(
            mailbox=self.mailbox,
            links=self.links,
            storage=self.storage,
            snapshotter=self.snapshotter,
            quorum_addresses=addresses or {2: Address("127.0.0.1", 1)},
            observer_addresses=observer_addresses or {},
            greeting=greeting(1),
            connect_timeout_ms=30_000,
            stall_ms=stall_ms,
            spawn=spawn,
            look=Surroundings,
            purge=self.taken.append,
        )
        queue = ThreadedStorage(self.storage, self.log_thread)
        operator = JournalOperator()
        self.turn = Turn(
            self.member, Ports(SystemClock(), self.links, None, self.clients, queue, tasks, operator, self.roles.append)
        )

    def do(self, *effects):
        """Let the member give out these effects in the next turn."""
        self.member.effects += effects
        self.loop.wake()


@asynccontextmanager
async def running(directory, **options):
    parts = None
    try:
        async with trio.open_nursery() as nursery:
            parts = Parts(directory, nursery.start_soon, **options)
            parts.log_thread.start()
            parts.snapshotter.start()
            nursery.start_soon(parts.loop.run, parts.turn)
            yield parts
            nursery.cancel_scope.cancel()
    finally:
        parts.loop.close()
        assert parts.snapshotter.close(PATIENCE_SECONDS)
        assert parts.log_thread.close(PATIENCE_SECONDS)
        parts.storage.disk.close()


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "member"


def snapshot_on(storage, zxid=(1 << 32) + 5, chain=bytes(range(16))):
    tree = DataTree()
    tree.applied = zxid
    SnapshotWriter(storage.disk, tree.begin_snapshot(), LINEAGE, chain).write()
    return zxid, chain


@asynccontextmanager
async def transfers_from(directory, hold=None, at=((1 << 32) + 5, bytes(range(16)))):
    """A member with a snapshot that serves transfers; `hold` makes it wait before it answers."""
    storage = open_storage(directory)
    zxid, chain = snapshot_on(storage, *at)

    async def wait(_stream):
        if hold is not None:
            await hold.wait()

    async with served_by(TransferServer(storage.disk, 3, 5.0, greeting(2).believes), 2, wait) as address:
        yield address, zxid, chain
    storage.disk.close()
