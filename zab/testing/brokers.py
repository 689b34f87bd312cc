"""Real brokers for a test, for unmodified clients of Kafka: they run in this process, each in a thread of its own,
beside an ensemble that keeps their znodes.

    with Brokers() as b:                    plain code
        Producer({"bootstrap.servers": b.bootstrap_servers})

    async with Brokers(3) as b:             trio or asyncio
        AIOKafkaProducer(bootstrap_servers=b.bootstrap_servers)

Brokers are the same as those of `zab broker run`: the same code, sockets and files. They listen on free loopback ports,
their data is in a temporary directory, and both are removed at the end of the block. So are the threads, except those
of trio's pool, which end by themselves after ten seconds.

A broker or a member that ends by itself fails the test: the next call raises BrokerFailedError or MemberFailedError, at
the latest the end of the block.

Methods block only briefly, and may be called from any thread and from asynchronous code.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from zab.broker.configuration import why_not
from zab.broker.service import Running
from zab.host.files.secret_file import make_secret_file
from zab.partition.image.cluster_image import ClusterImage
from zab.partition.replica.replica import Isolation
from zab.testing.broker import Broker, agree
from zab.testing.broker_settings import BrokerPlace, Value, broker_configuration, check_count, refuse_own_keys
from zab.testing.ensemble import PATIENCE_SECONDS, Ensemble
from zab.testing.errors import BrokerFailedError, EnsembleError
from zab.testing.kit.in_thread import elsewhere
from zab.testing.kit.journals import kept
from zab.testing.kit.listeners import listeners
from zab.testing.kit.ports import free_ports
from zab.testing.topic_contents import Contents, TopicRecord, contents_of, records_of
from zab.testing.topic_requests import create_topic

_PROBE_SECONDS: Final = 0.002
_DEFAULT: Final = -1
_TAIL_LINES: Final = 5


class Brokers:
    """Brokers for tests, and their ensemble. They are opened once."""

    noun: Final = "broker"
    """What the reports of tests call one of them."""

    def __init__(
        self,
        count: int = 1,
        configuration: Mapping[str, Value] = MappingProxyType({}),
        *,
        members: int = 1,
    ) -> None:
        """`count` brokers, with these keys of `server.properties`, and an ensemble of so many members. Raises
        ValueError for what cannot be."""
        check_count(count)
        refuse_own_keys(configuration)
        self._keys = dict(configuration)
        broker_configuration(BrokerPlace(1, 1, Path("logs")), count, "127.0.0.1:1", self._keys)
        reason = why_not()
        if reason is not None:
            raise EnsembleError(reason)
        self._count = count
        self.ensemble = Ensemble(members)
        """Where their znodes are."""
        self._brokers: dict[int, Broker] = {}
        self._undo: contextlib.ExitStack | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<brokers {', '.join(f'{each.id}: {each.state}' for each in self._brokers.values())}>"

    # ------------------------------------------------------------------------------------------------------ the block

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()
        self._tell_failures(error)

    async def __aenter__(self) -> Self:
        try:
            await elsewhere(self._open)
        except asyncio.CancelledError:
            self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await elsewhere(self._close)
        self._tell_failures(error)

    def _open(self) -> None:
        """Start all of them, and return when they serve."""
        if self._undo is not None:
            raise EnsembleError("brokers are opened once: make others")
        self._undo = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            undo.callback(self._close)
            self._undo.enter_context(kept())
            self._undo.enter_context(self.ensemble)
            directory = Path(self._undo.enter_context(tempfile.TemporaryDirectory(prefix="zab-testing-")))
            secret_path = directory / "secret" if self._count > 1 else None
            if secret_path is not None:
                make_secret_file(str(secret_path))
            for broker_id, port in enumerate(free_ports(self._count), 1):
                place = BrokerPlace(broker_id, port, directory / str(broker_id), secret_path)
                config = broker_configuration(place, self._count, self.ensemble.hosts, self._keys)
                self._brokers[broker_id] = Broker(place, config, _nothing, self._end_session)
            for tell in listeners:
                tell(self)
            for broker in self._brokers.values():
                self._undo.callback(broker.close)
                broker.begin()
            self.wait_until_serving()
            undo.pop_all()

    def _close(self) -> None:
        """End everything, in reverse order. No-op the second time."""
        self._is_closed = True
        undo, self._undo = self._undo, contextlib.ExitStack()
        if undo is not None:
            undo.close()

    def _tell_failures(self, error: BaseException | None) -> None:
        """Raise the failure of a broker, or add it to the current exception."""
        failures: list[BrokerFailedError] = [each.failure for each in self._brokers.values() if each.failure]
        if error is not None:
            for failed in failures:
                error.add_note(str(failed))
        elif failures:
            raise failures[0]

    def _end_session(self, session: int) -> None:
        if self.ensemble.leader is not None:
            # One that has expired is not known any more.
            with contextlib.suppress(ValueError):
                self.ensemble.expire(session)

    # --------------------------------------------------------------------------------------------------- what there is

    @property
    def members(self) -> Mapping[int, Broker]:
        """The brokers by id, from 1. The members of the ensemble are `ensemble.members`."""
        return MappingProxyType(self._brokers)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, for any client of Kafka."""
        return ",".join(each.bootstrap_servers for each in self._brokers.values())

    @property
    def controller(self) -> Broker | None:
        """The broker that decides who leads; None while there is none."""
        image = self._image()
        return None if image is None else self._brokers.get(image.controller)

    @property
    def journal(self) -> str:
        """The journals of all brokers, each under its name."""
        return "\n".join(f"broker {each.id}:\n{each.journal}" for each in self._brokers.values())

    @property
    def topics(self) -> Mapping[str, int]:
        """How many partitions each topic has; without the internal ones."""
        image = self._image()
        found = {} if image is None else image.topics
        return {name: len(topic.partitions) for name, topic in found.items() if not topic.is_internal}

    def leader(self, topic: str, partition: int = 0) -> Broker | None:
        """The broker that leads this partition; None while none does, or if there is no such partition."""
        image = self._image()
        found = None if image is None else image.topics.get(topic)
        state = None if found is None else found.partitions.get(partition)
        return None if state is None else self._brokers.get(state.leader)

    def records(self, topic: str, partition: int | None = None, *, uncommitted: bool = False) -> list[TopicRecord]:
        """What a topic has, or one of its partitions, in the order of partitions and offsets: what a consumer with
        `read_committed` is given. `uncommitted`: also what belongs to open and aborted transactions. Raises ValueError
        if there is no such topic, EnsembleError if nobody leads a partition."""
        self._check()
        count = self.topics.get(topic)
        if count is None or (partition is not None and not 0 <= partition < count):
            place = topic if partition is None else f"{topic}, partition {partition}"
            raise ValueError(f"there is no {place}: there are {', '.join(sorted(self.topics)) or 'no topics'}")
        isolation = Isolation.READ_UNCOMMITTED if uncommitted else Isolation.READ_COMMITTED
        wanted = range(count) if partition is None else [partition]
        return [each for index in wanted for each in records_of(self._contents(topic, index, isolation), index)]

    def _contents(self, topic: str, index: int, isolation: Isolation) -> Contents:
        leader = self.leader(topic, index)
        found = None if leader is None else leader.ask(lambda running: contents_of(running, topic, index, isolation))
        if isinstance(found, OSError):
            raise EnsembleError(f"partition {index} of {topic} cannot be read: {found}") from found
        if found is None:
            raise EnsembleError(f"nobody leads partition {index} of {topic}: {self!r}")
        return found

    def _image(self) -> ClusterImage | None:
        """The cluster as a broker knows it that serves; that of the controller, if it does."""
        able = [each for each in self._brokers.values() if each.state == "serving"]
        able.sort(key=lambda each: not each.is_controller)
        return able[0].image if able else None

    # ---------------------------------------------------------------------------------------------------- what is done

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = _DEFAULT,
        configuration: Mapping[str, Value] = MappingProxyType({}),
        seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Create a topic, with these settings, and return when each of its partitions has a leader. Without a
        `replication_factor` there is a replica on each broker, on three at most. Raises EnsembleError."""
        self._check()
        deadline = time.monotonic() + seconds
        able = [each for each in self._brokers.values() if each.state == "serving"]
        if not able:
            raise EnsembleError(f"no broker serves: {self!r}")
        create_topic(able[0].port, name, partitions, replication_factor, configuration, seconds)
        self._wait(lambda: self._is_led(name, partitions), deadline, f"the topic {name} has no leaders")

    def _is_led(self, topic: str, partitions: int) -> bool:
        for index in range(partitions):
            leader = self.leader(topic, index)
            if leader is None or not leader.ask(partial(_leads, topic, index)):
                return False
        return True

    def start(self, *ids: int) -> None:
        """Run these brokers, or all, and return when all that run serve."""
        for broker in self._chosen(ids):
            broker.start()
        self.wait_until_serving()

    def stop(self, *ids: int) -> None:
        """End these brokers, or all, as an operator does."""
        for broker in self._chosen(ids):
            broker.stop()

    def kill(self, *ids: int) -> None:
        """End these brokers, or all, as `kill -9` does."""
        for broker in self._chosen(ids):
            broker.kill()

    def restart(self, *ids: int) -> None:
        """Stop these brokers, or all, one after the other, start each again on its port, and return when all that run
        serve."""
        for broker in self._chosen(ids):
            broker.restart()
            self.wait_until_serving()

    def pause(self, *ids: int) -> None:
        """These brokers, or all, stand still. Others notice when their sessions expire."""
        for broker in self._chosen(ids):
            broker.pause()

    def resume(self, *ids: int) -> None:
        """These brokers, or all, go on."""
        for broker in self._chosen(ids):
            broker.resume()

    def wait_until_serving(self, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until all brokers that run and are not paused serve, know each other and no others, and lead what they
        can. Raises EnsembleError after `seconds`."""
        self._wait(self._are_serving, time.monotonic() + seconds, "not serving")

    async def until_serving(self, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait like `wait_until_serving`, without blocking the event loop."""
        await elsewhere(lambda: self.wait_until_serving(seconds=seconds))

    def restore(self, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Restore the initial state: everybody runs, there are no topics and no groups, the ensemble's tree has nothing
        but what brokers keep there. Raises EnsembleError if that takes longer than `seconds`."""
        self.resume()
        self.kill()
        self.ensemble.restore(seconds=seconds)
        for broker in self._brokers.values():
            shutil.rmtree(broker.directory, ignore_errors=True)
            broker.begin()
        self.wait_until_serving(seconds=seconds)

    def _are_serving(self) -> bool:
        wanted = [each for each in self._brokers.values() if each.is_running and not each.is_paused]
        return bool(wanted) and agree(wanted, [each.id for each in wanted])

    def _wait(self, is_so: Callable[[], bool], deadline: float, what: str) -> None:
        began = time.monotonic()
        while True:
            if self._is_closed:
                raise EnsembleError("the brokers are closed")
            for broker in self._brokers.values():
                broker.raise_failure()
            if is_so():
                return
            if time.monotonic() >= deadline:
                raise EnsembleError(f"{what} after {time.monotonic() - began:.0f} s: {self!r}\n{self._tails()}")
            time.sleep(_PROBE_SECONDS)

    def _chosen(self, ids: tuple[int, ...]) -> list[Broker]:
        self._check()
        for broker_id in ids:
            if broker_id not in self._brokers:
                raise ValueError(f"there is no broker {broker_id}: there are {', '.join(map(str, self._brokers))}")
        return [self._brokers[broker_id] for broker_id in ids] or [*self._brokers.values()]

    def _check(self) -> None:
        if self._is_closed or self._undo is None:
            raise EnsembleError("the brokers are not open")
        for broker in self._brokers.values():
            broker.raise_failure()

    def _tails(self) -> str:
        tails = []
        for each in self._brokers.values():
            tails += [f"broker {each.id}: {line}" for line in each.journal.splitlines()[-_TAIL_LINES:]]
        return "\n".join(tails)


def _nothing() -> None:
    pass


def _leads(topic: str, index: int, running: Running) -> bool:
    replica = running.broker.replicas.get(topic, index)
    return replica is not None and replica.leader is not None
