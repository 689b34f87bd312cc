"""The process of one broker: the production code of a broker and of its turn, on simulated ports.

What it sees and does is shown to a `Watcher` after every step, since a broker does not report its marks.

A broker whose storage failed for one of its logs goes on without it until somebody starts it again: its operator does
that some time later. A broker that stops by itself is started again by its supervisor; the watcher decides whether the
reason is one that may be.

Not here: what outlives the process (`cluster`), the ports themselves (`zab.simulator.world`, `coordination_session`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Final, Protocol

from zab.kafka.primitives import Uuid
from zab.partition.broker import Broker
from zab.partition.cleaning import clean
from zab.partition.controller.controller import Controller
from zab.partition.controller.registration import Registration
from zab.partition.controller.state import ControllerSettings
from zab.partition.controller.znodes import Broker as RegisteredBroker
from zab.partition.coordinator_log import LoadPart, load_part
from zab.partition.events import Effects, Input, LogsOpened, LogsRefused, RecordFound
from zab.partition.links.messages import LINK_PROTOCOL, PURPOSES, FromLinks, Message
from zab.partition.log.checkpoints import MetaProperties, TopicPartition
from zab.partition.log.directory import LogDirectory, epoch_of_clean_stop
from zab.partition.log.file_effects import FileEffect
from zab.partition.log.files import Files
from zab.partition.log.log import Log
from zab.partition.replica.record_search import RecordSearch, find_record
from zab.partition.requests.connection import ClientConnection, Closing
from zab.partition.settings.broker_config import BrokerConfig
from zab.partition.turn import BrokerTurn, Ports
from zab.simulator.brokers.expressions import topic_regex
from zab.simulator.coordination.service import CoordinationService
from zab.simulator.coordination.session import CoordinationSession
from zab.simulator.world.disk import PowerLossError
from zab.simulator.world.job_thread import JobThread
from zab.simulator.world.links import Links
from zab.simulator.world.log_thread import LogThread
from zab.simulator.world.machine import Machine
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import MS
from zab.simulator.world.sockets import ClientSockets
from zab.wire.client_protocol import ClientProtocol
from zab.wire.file_slice import FileSlice
from zab.wire.frames import FrameReader
from zab.wire.handshake import NONCE_BYTES, Dialling, Listening, Party

LISTENER: Final = "PLAINTEXT"
PORT: Final = 9092
LINK_LISTENER: Final = "REPLICATION"
LINK_PORT: Final = 9093
DIAL_LIMIT_MS: Final = 5_000


class Watcher(Protocol):
    """The judges that watch a process."""

    def stepped(self, process: BrokerProcess) -> None:
        """The broker has taken a step, whose effects are not carried out yet."""

    def stopped(self, process: BrokerProcess, *, with_power: bool, is_clean: bool) -> None:
        """The process ends; its disk is as it was."""

    def opened(self, process: BrokerProcess, logs: Mapping[TopicPartition, tuple[Uuid, Log]]) -> None:
        """The broker has taken the logs that recovery found."""

    def gave_up(self, process: BrokerProcess, reason: str) -> None:
        """The broker says that it must end."""

    def count(self, what: str, number: int = 1) -> None: ...


class ObservedBroker(Broker):
    """A broker that shows every step to its process."""

    observe: Callable[[Sequence[Input], Effects], None]

    def step(self, now: int, wall: int, inputs: Sequence[Input]) -> Effects:
        effects = super().step(now, wall, inputs)
        self.observe(inputs, effects)
        return effects


class Greeter:
    """The handshakes of a broker (`zab.simulator.world.links.Greeter`); brokers believe each other."""

    def __init__(self, sid: int, broker_ids: Sequence[int], rng: Random) -> None:
        self._party = Party(sid, 1, 1, is_open=True)
        self._broker_ids = tuple(broker_ids)
        self._rng = rng

    def dialling(self, sid: int) -> Dialling:
        return Dialling(self._party, sid, PURPOSES.link, self._rng.randbytes(NONCE_BYTES))

    def listening(self) -> Listening:
        return Listening(self._party, self._broker_ids, PURPOSES.at_link_port, self._rng.randbytes(NONCE_BYTES))

    def overhear(self, payload: bytes) -> None: ...


class Operator:
    """The journal of a broker is the trace."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process

    def trace(self, text: str) -> None:
        self._process.called()
        self._process.say(text)

    def warn(self, text: str) -> None:
        self._process.say(text)

    def error(self, sentence: str, **pairs: object) -> None:
        self._process.say(" ".join([sentence, *(f"{name}={value}" for name, value in pairs.items())]))

    def stop(self, reason: str) -> None:
        self._process.say(f"stops: {reason}")
        self._process.watcher.gave_up(self._process, reason)
        self._process.later(0, self._process.end)


class BrokerProcess(Process):
    """The process of one broker. `known` is what its directory says about whose it is."""

    def __init__(
        self,
        machine: Machine,
        config: BrokerConfig,
        rng: Random,
        known: MetaProperties | None,
        service: CoordinationService,
        watcher: Watcher,
        neighbour: Callable[[int], BrokerProcess | None],
        broker_ids: Sequence[int],
        repair_us: int,
    ) -> None:
        """`neighbour` finds the process of another broker. `repair_us`: how long it takes until a broker with a failed
        log is started again, at the most."""
        super().__init__(machine)
        self.config = config
        self.watcher = watcher
        self._rng = rng
        self._repair_us = repair_us
        self._answers: deque[Input] = deque()
        self._numbers = iter(range(1, 1 << 62))
        self.files = Files(machine.disk)
        self.broker = ObservedBroker(
            config, self._controller(known), rng, machine.now_ms, machine.wall_ms(), machine.disk.free_bytes
        )
        self.broker.observe = self._observe
        self.broker.consumer_rules.regex_of = topic_regex
        self._log_thread: LogThread[FileEffect, Input] = LogThread(self, self.files, self._post, self._post)
        self._jobs = JobThread(self)
        self.session = CoordinationSession(self, service, config.broker.session_timeout_ms, self._post)
        self.clients = ClientSockets(self, ClientProtocol(self._connection, Closing.AT_ONCE), self._read)
        self._neighbour = neighbour
        greeter = Greeter(self.sid, broker_ids, Random(rng.random()))
        self.links: Links[Message, FromLinks] = Links(self, LINK_PROTOCOL, greeter, self._links_of, DIAL_LIMIT_MS)
        self._is_under_repair = False
        self._is_clean = False
        """Whether it has stopped cleanly."""
        self.turn = BrokerTurn(self.broker, self._ports())

    def _controller(self, known: MetaProperties | None) -> Controller:
        broker = self.config.broker
        endpoints = (f"{LISTENER}://host{self.sid}:{PORT}", f"{LINK_LISTENER}://host{self.sid}:{LINK_PORT}")
        who = RegisteredBroker(
            *(self.sid, endpoints, {LISTENER: LISTENER, LINK_LISTENER: LINK_LISTENER}),
            previous_epoch=epoch_of_clean_stop(self.machine.disk),
        )
        settings = ControllerSettings(
            partition_count=broker.partition_count,
            replication_factor=broker.replication_factor,
            deletes_topics=broker.deletes_topics,
            topic_defaults=self.config.topics,
            has_access_lists=self.config.access.rules is not None,
        )
        cluster_id = None if known is None else known.cluster_id
        return Controller(Registration(who, cluster_id, broker.session_timeout_ms), settings, self._rng)

    def _connection(self, host: str, port: int, _subject: str) -> ClientConnection:
        frames = FrameReader(self.config.requests.request_bytes_max)
        return ClientConnection(next(self._numbers), host, port, LISTENER, frames)

    def _links_of(self, sid: int) -> Links[Message, FromLinks] | None:
        process = self._neighbour(sid)
        return None if process is None else process.links

    def _ports(self) -> Ports:
        return Ports(
            clock=self.machine,
            clients=[self.clients],
            links=self.links,
            dial=lambda broker_id, _endpoint: self.links.dial(broker_id),
            read=self._read,
            operator=Operator(self),
            answers=self._answers,
            store=self._log_thread.put,
            forget_file=lambda _path: None,
            forget_directory=lambda _directory: None,
            submit=self.session.submit,
            session_lives_until=self.session.lives_until,
            open_logs=lambda owner: self._run(partial(self._opened, owner)),
            search=lambda token, search: self._run(partial(self._found, token, search)),
            load=lambda part: self._run(partial(self._loaded, part)),
            clean=lambda job: self._run(partial(clean, job, self.machine.disk)),
        )

    # ----------------------------------------------------------------------------------------------------------- ports

    def _post(self, answer: Input) -> None:
        self._answers.append(answer)
        self.wake(self.schedule.now)

    def _run(self, job: Callable[[], Input]) -> None:
        """Run a job on the job thread."""
        self.called()

        def run() -> None:
            with self.ends_by(PowerLossError):
                self._post(job())
            if not self.dead:
                self._jobs.done()

        self._jobs.run(run)

    def _found(self, token: int, search: RecordSearch) -> Input:
        return RecordFound(token, find_record(search, self.machine.disk))

    def _loaded(self, part: LoadPart) -> Input:
        return load_part(part, self.machine.disk)

    def _opened(self, owner: MetaProperties) -> Input:
        """Recover all logs."""
        found = {}
        try:
            logs = LogDirectory(self.machine.disk, owner)
            notes = list(logs.notes)
            for where in logs.partitions:
                topic_id = logs.topic_id(where)
                if topic_id is None:
                    notes.append(f"{where} does not say which topic it belongs to -> it is left alone")
                    continue
                recovered = logs.recover(where, topic_id, self.config.topics, self.machine.wall_ms())
                found[where] = Uuid(topic_id), recovered.log
                notes += recovered.notes
        except OSError as error:
            return LogsRefused(f"the logs cannot be read: {error}")
        return LogsOpened(logs, found, tuple(notes))

    def _read(self, piece: FileSlice) -> bytes:
        data = self.machine.disk.read(piece.path, piece.position, piece.length)
        assert len(data) == piece.length, f"{piece} is not in the file"
        return data

    # ------------------------------------------------------------------------------------------------------------ life

    def start(self) -> None:
        self.session.start()
        super().start()

    def _observe(self, inputs: Sequence[Input], effects: Effects) -> None:
        self.trace.mark(self.sid, len(inputs))
        if self.trace.sink is not None and inputs:
            self.show(f"takes {', '.join(map(self.trace.describe, inputs))}")
        for each in inputs:
            if isinstance(each, LogsOpened):
                self.watcher.opened(self, each.logs)
        self.watcher.stepped(self)

    def turn_ended(self) -> None:
        if self.files.failures and not self._is_under_repair and not self.dead:
            self._is_under_repair = True
            self.watcher.count("brokers with a failed log")
            self.later(int(self._repair_us * self._rng.random()) + MS, self.end)

    def end(self) -> None:
        """End the process; it is started again."""
        self.machine.stop(with_power=False)

    def stop_cleanly(self) -> None:
        """Have other brokers lead, then close the session and the logs; it is started again some time later."""
        replication = self.config.replication
        self.say("is asked to stop")
        self.broker.give_leaders_away(lambda: self.later(0, self._close))
        self.wake(self.schedule.now)
        tries_ms = (1 + replication.shutdown_tries) * replication.shutdown_retry_ms
        self.later(tries_ms * MS, self._close)

    def _close(self) -> None:
        """Close everything, as `zab.broker.service` does."""
        self.session.close()
        with self.ends_by(PowerLossError, OSError):
            answers: list[Input] = [*self._answers, *self._log_thread.drain()]
            answers += self.files.perform(self.broker.close())
            mark = self.broker.clean_shutdown(answers)
            self.files.perform(mark)
            self._is_clean = bool(mark) and not self.files.failures
        if not self.dead:
            self.end()

    def die(self, *, with_power: bool) -> None:
        """End the process. Called by its machine, which keeps the disk."""
        self.watcher.stopped(self, with_power=with_power, is_clean=self._is_clean)
        super().die(with_power=with_power)
        self.session.process_died()
        rng = self.machine.rng
        silent_us = int(self.config.replication.link_timeout_ms * MS * rng.random() ** 2)
        self.links.process_died(with_power=with_power, gracefully=rng.random() < 0.5, silent_us=silent_us)
        self.clients.process_died(with_power=with_power)
