"""How the commands for brokers reach them: clients of kafka-python, and what their errors become.

    def work(brokers: Brokers) -> None:
        with brokers.admin() as admin: ...

    carry_out(context, work)

kafka-python is an optional part (`pip install 'zab[kafka]'`). It finds controllers, leaders and coordinators, speaks
TLS and SASL, and compresses. It is loaded when a command is carried out, so that help and completion need none.

Exit codes (`zab.cli.exits`): 1 a broker has refused it; 2 wrong usage; 3 no broker answers, or not in time; 124 the
time of `--timeout` is over, after which it is unknown whether a write was done, if it writes.

Limits: no broker is looked for longer than `zab --wait`. A coordinator that is not there yet (its topic is being made)
is asked again for as long.

Not here: properties of clients (`client_config.py`), words of refusals (`refusals.py`).
"""

from __future__ import annotations

import contextlib
import logging
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, TypeVar

import typer
from attrs import evolve

from zab.cli.arguments import ConnectionOptions
from zab.cli.brokers.client_config import ClientConfig, read_client_config
from zab.cli.brokers.records import LineError
from zab.cli.brokers.refusals import RefusedError, refused_by, refused_topic
from zab.cli.brokers.unknown_hosts import unknown_hosts
from zab.cli.exits import REFUSED, TIMED_OUT, UNREACHABLE, USAGE, fail
from zab.cli.time_limit import time_limit
from zab.kafka.errors import ErrorCode

__all__ = ["Brokers", "brokers_of", "carry_out"]

ResultT = TypeVar("ResultT")

NAME: Final = "zab"
"""The client id, unless client.id says another."""

CLOSING_SECONDS: Final = 5.0
LOOKUP_SECONDS: Final = 5.0
"""How long the addresses of brokers that do not answer are looked up."""

_LATER: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)
_PAUSE_SECONDS: Final = 0.1


class _TimeIsOverError(BaseException):
    """The command took longer than `--timeout`. No library that catches every Exception swallows it."""


class Brokers:
    """Where they are, and what clients are told."""

    def __init__(self, servers: str, config: ClientConfig, wait_ms: int) -> None:
        """servers: host:port, …. wait_ms: how long one of them is looked for."""
        self._servers = servers
        self._config = config
        self.wait_ms = wait_ms

    @property
    def producer_settings(self) -> dict[str, Any]:
        return dict(self._config.producer)

    def _settings(self) -> dict[str, Any]:
        servers = [each for each in self._servers.split(",") if each]
        beside = {"client_id": NAME, "bootstrap_timeout_ms": self.wait_ms}
        return {**beside, **self._config.common, "bootstrap_servers": servers}

    @contextlib.contextmanager
    def admin(self) -> Iterator[Any]:
        """A KafkaAdminClient."""
        from kafka import KafkaAdminClient

        with contextlib.closing(KafkaAdminClient(**self._settings())) as admin:
            yield admin

    @contextlib.contextmanager
    def producer(self, **settings: Any) -> Iterator[Any]:
        """A KafkaProducer. What it has not sent when the block ends by an error is dropped."""
        from kafka import KafkaProducer
        from kafka.errors import KafkaError

        wait = {"max_block_ms": self.wait_ms}
        producer = KafkaProducer(**{**self._settings(), **wait, **self._config.producer, **settings})
        seconds = 0.0
        try:
            yield producer
            seconds = CLOSING_SECONDS
        finally:
            # What has not come through by now is known as such to the command.
            with contextlib.suppress(KafkaError):
                producer.close(timeout=seconds)

    @contextlib.contextmanager
    def consumer(self, **settings: Any) -> Iterator[Any]:
        """A KafkaConsumer, which commits nothing by itself."""
        from kafka import KafkaConsumer

        own = {"enable_auto_commit": False, "allow_auto_create_topics": False, **self._config.consumer, **settings}
        consumer = KafkaConsumer(**{**self._settings(), **own})
        try:
            yield consumer
        finally:
            consumer.close(autocommit=False, timeout_ms=round(CLOSING_SECONDS * 1000))

    def patiently(self, ask: Callable[[], ResultT]) -> ResultT:
        """The answer of a coordinator, which is asked again while it is not there yet."""
        from kafka.errors import KafkaError

        until = time.monotonic() + self.wait_ms / 1000
        while True:
            try:
                return ask()
            except (KafkaError, RefusedError) as error:
                code = error.code if isinstance(error, RefusedError) else getattr(error, "errno", 0)
                if code not in _LATER or time.monotonic() > until:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def described(self, admin: Any, topic: str) -> dict[str, Any]:
        """A topic, as the metadata of a broker have it. Raises RefusedError."""
        [found] = admin.describe_topics([topic])
        if found["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise refused_topic(topic)
        if found["error_code"]:
            raise RefusedError(topic, found["error_code"])
        return dict(found)


def carry_out(context: typer.Context, work: Callable[[Brokers], None], *, writes: bool = True) -> None:
    """Run a command's work. Its errors end the command with their exit codes. writes: it may change something."""
    options = context.obj
    assert isinstance(options, ConnectionOptions)
    try:
        from kafka.errors import KafkaError
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kafka":
            raise
        fail("the commands for topics need kafka-python: pip install 'zab[kafka]'")
    # It would report each attempt on standard error.
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    logging.getLogger("kafka").propagate = False
    seconds = time_limit(context)
    try:
        with _within(seconds):
            work(brokers_of(options))
    except _TimeIsOverError:
        more = "; whether a write was done is unknown" if writes else ""
        fail(f"not done within {seconds:g} s (--timeout){more}", TIMED_OUT)
    except (RefusedError, LineError) as error:
        fail(error, REFUSED)
    except ValueError as error:
        fail(error, USAGE)
    except KafkaError as error:
        _fail(error, options)


def brokers_of(options: ConnectionOptions, request_ms: int | None = None) -> Brokers:
    """request_ms: how long an answer is waited for, if not as long as the file of properties, or the library, says.
    Raises ValueError."""
    config = ClientConfig() if options.client_config is None else read_client_config(options.client_config)
    if request_ms is not None:
        config = evolve(config, common={**config.common, "request_timeout_ms": request_ms})
    return Brokers(_servers(options), config, options.wait_ms)


def _servers(options: ConnectionOptions) -> str:
    for each in options.bootstrap.split(","):
        host, colon, port = each.rpartition(":")
        if not (host and colon and port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError(f"--bootstrap-server: {each!r} is no HOST:PORT")
    return options.bootstrap


def _fail(error: Exception, options: ConnectionOptions) -> NoReturn:
    refused = refused_by(error)
    if refused is not None and not getattr(error, "retriable", False):
        fail(refused, REFUSED)
    kind = type(error).__name__
    if kind in ("KafkaTimeoutError", "NoBrokersAvailable", "KafkaConnectionError", "NodeNotReadyError"):
        where = f"no broker answers at {options.bootstrap} within {options.wait_ms / 1000:g} s"
        why = f" ({error.args[0]})" if error.args and "bootstrap" not in str(error.args[0]) else ""
        why = f": {unknown}" if (unknown := unknown_hosts(options.bootstrap, LOOKUP_SECONDS)) else why
        fail(f"{where}{why}\n--bootstrap-server HOST:PORT, or ZAB_BOOTSTRAP_SERVER, names others", UNREACHABLE)
    fail(refused or error, UNREACHABLE if getattr(error, "retriable", False) else REFUSED)


@contextlib.contextmanager
def _within(seconds: float | None) -> Iterator[None]:
    if seconds is None:
        yield
        return

    def end(*_: object) -> None:
        raise _TimeIsOverError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
