"""The checks of `zab doctor` for a broker: verdicts on its settings, its directory and its cluster.

Each function takes facts and gives `Check`s (`zab.operations.verdicts.checks`). Nothing is looked at here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from zab.operations.verdicts.brokers import Registered, alarms_of
from zab.operations.verdicts.checks import Check, Verdict
from zab.operations.verdicts.status import CRITICAL

__all__ = ["Directory", "Safety", "of_cluster", "of_directory", "of_safety"]


@frozen(kw_only=True)
class Safety:
    """The settings that decide what a failure costs; those of topics are what holds for topics that say nothing."""

    replicas: int
    """`default.replication.factor`."""
    offsets_replicas: int
    """`offsets.topic.replication.factor`."""
    min_in_sync: int
    elects_uncleanly: bool
    syncs: bool
    """Whether `log.flush.mode` is batch."""
    transactions_replicas: int = 3
    """`transaction.state.log.replication.factor`."""
    transactions_min_in_sync: int = 2
    """`transaction.state.log.min.isr`."""


@frozen(kw_only=True)
class Directory:
    """What is in `log.dirs`. error: why it cannot be read. owner: the broker and the cluster that `meta.properties`
    names; None: there is no such file. damaged: files that cannot be read, and why. is_clean: the last stop was
    clean. is_registered: the broker is in the znodes, so it runs, or ended just now.
    """

    path: str
    error: str = ""
    exists: bool = True
    owner: tuple[int, str] | None = None
    damaged: Sequence[tuple[str, str]] = ()
    is_clean: bool = False
    is_registered: bool = False
    partitions: int = 0


def of_safety(settings: Safety, lines: Mapping[str, int]) -> Iterator[Check]:
    """Settings that endanger data. lines: the line of each key in the file."""
    found = False
    for key, said, action in _dangers(settings):
        found = True
        where = f"line {lines[key]}: {key}" if key in lines else f"{key} is not set"
        yield Check("safety", Verdict.WARNING, key, f"{where}: {said}", action)
    if not found:
        yield Check("safety", Verdict.OK, "", "one failure loses nothing that was acknowledged with acks=all")


def _dangers(settings: Safety) -> Iterator[tuple[str, str, str]]:
    if settings.elects_uncleanly:
        said = "a replica that is not in sync may lead, which loses what it has not got"
        yield "unclean.leader.election.enable", said, "remove the line; allow it for single topics, while it is needed"
    if settings.replicas == 1:
        said = "topics whose creator says nothing have one replica"
        yield "default.replication.factor", said, "set it to 3, where there are three brokers"
        if not settings.syncs:
            said = "with one replica, a power cut loses what was acknowledged and is not synced yet"
            yield "log.flush.mode", said, "set it to batch, or have more replicas"
    elif settings.min_in_sync == 1:
        said = f"of {settings.replicas} replicas one is enough for acks=all: its disk may lose what was acknowledged"
        yield "min.insync.replicas", said, _in_sync(settings.replicas, settings.replicas // 2 + 1)
    elif settings.min_in_sync >= settings.replicas:
        said = f"with {settings.replicas} replicas the loss of any one broker refuses all writes with acks=all"
        yield "min.insync.replicas", said, _in_sync(settings.replicas, settings.replicas - 1)
    if settings.offsets_replicas == 1 and settings.replicas > 1:
        said = "what groups commit has one replica: the groups of a broker that ends wait for it"
        yield "offsets.topic.replication.factor", said, "set it to 3, before __consumer_offsets is created"
    yield from _of_transactions(settings)


def _in_sync(replicas: int, count: int) -> str:
    """What to do about the least number in sync. With two replicas either number endangers something."""
    return f"set it to {count}" if replicas > 2 else "have three replicas, and set it to 2"


def _of_transactions(settings: Safety) -> Iterator[tuple[str, str, str]]:
    replicas, least = settings.transactions_replicas, settings.transactions_min_in_sync
    if settings.replicas == 1:
        return
    if replicas == 1:
        said = "what became of transactions has one replica: the producers of a broker that ends wait for it"
        yield "transaction.state.log.replication.factor", said, "set it to 3, before __transaction_state is created"
    elif least == 1:
        said = f"of {replicas} replicas one is enough for a decision about a transaction: its disk may lose it"
        yield "transaction.state.log.min.isr", said, _in_sync(replicas, replicas // 2 + 1)
    elif least >= replicas:
        said = f"with {replicas} replicas the loss of any one broker ends all transactions"
        yield "transaction.state.log.min.isr", said, _in_sync(replicas, replicas - 1)


def of_directory(found: Directory, broker_id: int, cluster_id: str | None) -> Iterator[Check]:
    """broker_id: what the file says, below 0 for none. cluster_id: what the znodes say, None if nobody says so."""
    name, path = "directory", found.path
    if found.error:
        yield Check(name, Verdict.FAILED, path, found.error, "see who owns it, and how it is mounted")
        return
    if not found.exists:
        yield Check(name, Verdict.SKIPPED, path, "there is no such directory yet")
        return
    for file, reason in found.damaged:
        action = "a start may end there: restore the file, or empty the directory, where other replicas have everything"
        yield Check(name, Verdict.FAILED, f"{path}/{file}", reason, action)
    if found.owner is not None:
        owner, cluster = found.owner
        if broker_id >= 0 and owner != broker_id:
            said = f"it belongs to broker {owner}, and the file is that of broker {broker_id}"
            yield Check(name, Verdict.FAILED, path, said, "correct broker.id or log.dirs")
        if cluster_id is not None and cluster != cluster_id:
            said = f"it belongs to cluster {cluster}, and the znodes to {cluster_id}"
            yield Check(name, Verdict.FAILED, path, said, "correct zookeeper.connect, with its path, or log.dirs")
    elif found.partitions:
        said = f"{_count(found.partitions, 'partition')} there, and no meta.properties says whose they are"
        yield Check(name, Verdict.WARNING, path, said, "see that log.dirs is right")
    stop = "the broker is registered" if found.is_registered else "the last stop was clean"
    if found.partitions and not found.is_registered and not found.is_clean:
        stop = "the last stop was not clean: the next start reads the ends of the logs again"
    yield Check(name, Verdict.OK, path, f"{_count(found.partitions, 'partition')}; {stop}")


def of_cluster(registered: Registered | str, broker_id: int) -> Iterator[Check]:
    """registered: what the znodes say, or why they cannot be read."""
    if isinstance(registered, str):
        action = "see zookeeper.connect, and that the members run"
        yield Check("cluster", Verdict.FAILED, "", registered, action)
        return
    for alarm in alarms_of(registered):
        verdict = Verdict.FAILED if alarm.severity == CRITICAL else Verdict.WARNING
        yield Check("cluster", verdict, "", alarm.reason, alarm.action)
    if not alarms_of(registered):
        is_here = any(each.id == broker_id for each in registered.brokers)
        this = "this one is registered" if is_here else "this one is not registered"
        yield Check(
            "cluster", Verdict.OK, "", f"{_count(len(registered.brokers), 'broker')}, all replicas are in sync; {this}"
        )


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
