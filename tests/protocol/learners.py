"""Learners that are slow, that lag, or that follow on."""

from collections.abc import Callable

from datatree.log.batch import Batch, build, genesis
from datatree.log.epochs import MemberRecord, save_epochs, save_member
from datatree.log.transaction_log import LogContents, TransactionLog
from datatree.log.zxid import make_zxid
from tests.rigs.direct.lone_peer import Server, transactions
from tests.rigs.direct.peers import Ensemble
from zab.protocol import effects as fx

LINEAGE = b"lineage of tests"


class SlowReader(Ensemble):
    """Reads of the log files, and offers of snapshots, wait until they are answered."""

    def __init__(self, size: int = 3, **settings: int) -> None:
        super().__init__(size, **settings)
        for server in self.servers.values():
            server.held |= {fx.ReadLog, fx.OfferSnapshot}

    def reader(self) -> Server | None:
        """The learners for which the leader is asked to read its log."""
        readers = [server for server in self.servers.values() if server.tasks]
        return readers[0] if readers and isinstance(readers[0].tasks[0], fx.ReadLog) else None

    def take_read(self) -> fx.ReadLog:
        reader = self.reader()
        assert reader is not None
        return reader.tasks.popleft()  # type: ignore[return-value]

    def answer_read(self) -> None:
        reader = self.reader()
        assert reader is not None
        self.do(reader, reader.tasks.popleft())


def until(ensemble: Ensemble, condition: Callable[[], object]) -> None:
    """Deliver, and let time pass when nothing is on its way, until the condition holds."""
    for _ in range(2000):
        if condition():
            return
        if not ensemble.deliver_one():
            ensemble.run(10)
    raise AssertionError("it does not come to that")


def followers(ensemble: Ensemble, leader: int) -> list[int]:
    return [sid for sid in ensemble.servers if sid != leader]


def fill(
    server: Server, epochs: tuple[int, int], batches: list[Batch], mark: int = 0, lineage: bytes = LINEAGE
) -> None:
    """The server, which is down, gets a disk with this history."""
    server.wipe()
    save_epochs(server.disk, *epochs)
    save_member(server.disk, MemberRecord(lineage, server.sid))
    log = TransactionLog(server.disk, LogContents(lineage, last=(0, genesis(lineage))), segment_bytes=1)
    for batch in batches:
        log.append([batch])
    log.set_mark(mark)
    log.close()


def chained(*zxids: tuple[int, int]) -> list[Batch]:
    """Batches of one transaction each, given by epoch and counter; none carries a mark."""
    chain, batches = genesis(LINEAGE), []
    for epoch, counter in zxids:
        first = make_zxid(epoch, counter)
        batches.append(
            build(
                chain, epoch=epoch, first=first, count=1, time=0, flags=0, mark=0, applied=0, digest=0,
                body=transactions(first, 1, b"x"), digest_version=0,
            )
        )  # fmt: skip
        chain = batches[-1].chain
    return batches


def left_behind(*, after: int) -> tuple[SlowReader, int, int]:
    """A follower is down after so many writes, and lacks what no memory has: the ensemble, the leader, that one."""
    ensemble = SlowReader(recent_bytes_max=1)
    ensemble.start()
    leader = ensemble.elect()
    follower = followers(ensemble, leader)[0]
    for number in range(after + 3):
        if number == after:
            ensemble.crash(follower)
        ensemble.propose(leader)
        ensemble.run(20)
    return ensemble, leader, follower


def two_histories() -> Ensemble:
    """Server 1 has a tail of epoch 3 that nobody needs; (1, 2) is committed by 1 and 2, and 1 was never told so.

    Server 3 has led epoch 4 from a history that goes on in epoch 2.
    """
    ensemble = Ensemble(3)
    fill(ensemble.servers[1], (3, 3), chained((1, 1), (1, 2), (3, 1), (3, 2)))
    fill(ensemble.servers[2], (2, 1), chained((1, 1), (1, 2)))
    fill(ensemble.servers[3], (4, 4), chained((1, 1), (1, 2), (2, 1), (2, 2)))
    return ensemble
