"""Clients of ledgers, each a process of its own that writes down what it does and what it is told (`recording`).

    python -m tests.chaos.ledgers.clients KIND NAME --hosts HOSTS --directory DIRECTORY

    writer      creates ledgers, appends to each some hundred entries, several at a time, and closes it
    contender   recovers ledgers that may be written at this moment, and reads them whole
    tailer      reads the newest ledger while it is written
    owner       takes the managed ledger over from the other owner, and appends to it for a while
    follower    reads the managed ledger from its beginning, and follows it

Each goes on until it is ended, whatever it meets. A ledger is a stream of its own, whose name is its number. An owner
is another client each time that it takes the managed ledger over.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import trio
from attrs import evolve

import zab.ledgers
from tests.chaos.ledgers.history import Append, Begin, End, Outcome, Place, Read, Record
from tests.chaos.ledgers.recording import Recorded, Recording, now
from zab.client import ZabError, connect
from zab.ledgers import LedgerError, LedgerStore, LogEntry, LogSettings

SESSION_MS: Final = 2_000
QUORUMS: Final = ((3, 3, 2), (4, 3, 2), (3, 2, 2))
"""One of five bookies may be gone for good, and another one takes its place."""
UNDER_WAY_MAX: Final = 20
ENTRIES: Final = (20, 400)
"""A ledger gets so many entries."""
TOGETHER: Final = 50
"""So many entries that were read are written down at once."""
AGAIN_SECONDS: Final = 0.2
LOG: Final = "log"
ROLLS: Final = LogSettings(max_entries=150)

T = TypeVar("T")
Act = Callable[[LedgerStore, Recording, random.Random, Path], Awaitable[None]]


async def writer(store: LedgerStore, recording: Recording, chance: random.Random, _directory: Path) -> None:
    """Write one ledger."""
    ensemble, write, ack = chance.choice(QUORUMS)
    ledger = await store.create(ensemble, write, ack)
    recording.created(ledger.id)

    async def place(ticket: zab.ledgers.Ticket) -> Place:
        return Place(ledger.id, await ticket.done())

    begin = now()
    appends = _Appends(recording, chance, recording.client, str(ledger.id))
    await appends.run(chance.randint(*ENTRIES), ledger.append_nowait, place)
    await ledger.close()
    recording.add(_end(recording, ledger.id, ledger.last_confirmed, begin))


async def owner(store: LedgerStore, recording: Recording, chance: random.Random, _directory: Path) -> None:
    """Take the managed ledger over, and append to it for a while."""
    await trio.sleep(chance.uniform(0, 6))

    async def place(ticket: zab.ledgers.LogTicket) -> Place:
        return Place(*await ticket.done())

    async with store.open_log(LOG, create=True, settings=ROLLS) as log:
        appends = _Appends(recording, chance, f"{recording.client}.{log.epoch}", LOG)
        await appends.run(chance.randint(*ENTRIES), log.append_nowait, place)


async def follower(store: LedgerStore, recording: Recording, chance: random.Random, _directory: Path) -> None:
    """Read the managed ledger for a while."""
    with trio.move_on_after(chance.uniform(5, 30)):
        _begin(recording, LOG, Place(0, 0))
        await _read(store.read_log(LOG, follow=True), recording, LOG)


class _Appends:
    """Appends of one client to one stream, each of which is written down before it is begun and when it has ended."""

    def __init__(self, recording: Recording, chance: random.Random, client: str, stream: str) -> None:
        self._recording = recording
        self._chance = chance
        self._client = client
        self._stream = stream
        self._under_way = trio.Semaphore(UNDER_WAY_MAX)

    async def run(self, count: int, append: Callable[[bytes], T], place: Callable[[T], Awaitable[Place]]) -> None:
        """So many, or until one is refused. place: waits until it is acknowledged."""
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                await self._under_way.acquire()
                begun = self._begun()
                self._recording.add(begun)
                try:
                    ticket = append(begun.value.encode())
                except LedgerError as error:
                    self._note(_failed(begun, error), error)
                    return
                nursery.start_soon(self._wait, begun, place, ticket)
                await trio.sleep(self._chance.expovariate(200))

    def _begun(self) -> Append:
        number, size = self._recording.number(), self._chance.choice([0, 10, 1000])
        return Append(
            client=self._client,
            number=number,
            start=now(),
            stream=self._stream,
            value=f"{self._client}-{number}-{'x' * size}",
            outcome=Outcome.INFO,
        )

    async def _wait(self, begun: Append, place: Callable[[T], Awaitable[Place]], ticket: T) -> None:
        try:
            where = await place(ticket)
        except LedgerError as error:
            self._note(_failed(begun, error), error)
        else:
            self._recording.add(evolve(begun, outcome=Outcome.OK, place=where, end=now()))
        self._under_way.release()

    def _note(self, append: Append, error: LedgerError) -> None:
        self._recording.met(error)
        self._recording.add(append)


def _failed(begun: Append, error: LedgerError) -> Append:
    """What is known of an append that raised this."""
    return evolve(begun, outcome=Outcome.FAIL, end=now()) if error.definite else evolve(begun, outcome=Outcome.INFO)


def _end(recording: Recording, ledger: int, last: int, start: float) -> End:
    client, number = recording.client, recording.number()
    return End(client=client, number=number, start=start, end=now(), stream=str(ledger), ledger=ledger, last=last)


async def _read(entries: zab.ledgers.Entries | zab.ledgers.LogEntries, recording: Recording, stream: str) -> None:
    """Read to the end, and write down what was read also when it fails."""
    records: list[Record] = []

    def note() -> None:
        if records:
            given = {"client": recording.client, "number": recording.number(), "stream": stream}
            recording.add(Read(start=start, end=now(), records=tuple(records), **given))
            records.clear()

    start = now()
    try:
        async for entry in entries:
            records.append(record_of(entry))
            if len(records) >= TOGETHER:
                note()
                start = now()
    finally:
        note()


def record_of(entry: zab.ledgers.Entry | LogEntry) -> Record:
    """A value, and its place."""
    position = entry.position if isinstance(entry, LogEntry) else (entry.ledger, entry.entry)
    return Record(Place(*position), entry.payload.decode())


def _begin(recording: Recording, stream: str, place: Place) -> None:
    client, number = recording.client, recording.number()
    recording.add(Begin(client=client, number=number, start=now(), end=now(), stream=stream, place=place))


async def contender(store: LedgerStore, recording: Recording, chance: random.Random, directory: Path) -> None:
    """Recover one of the newest ledgers, and read it."""
    await trio.sleep(chance.uniform(0.2, 2))
    ledgers = Recorded(directory).ledgers
    if not ledgers:
        return
    start = now()
    async with await store.open(chance.choice(ledgers[-4:])) as reader:
        recording.add(_end(recording, reader.id, reader.last_confirmed, start))
        _begin(recording, str(reader.id), Place(reader.id, 0))
        await _read(reader.entries(), recording, str(reader.id))


async def tailer(store: LedgerStore, recording: Recording, chance: random.Random, directory: Path) -> None:
    """Read a ledger from somewhere to its end."""
    await trio.sleep(chance.uniform(0, 0.5))
    ledgers = Recorded(directory).ledgers
    if not ledgers:
        return
    with trio.move_on_after(chance.uniform(5, 20)):
        async with await store.open_no_recovery(ledgers[-1]) as reader:
            first = chance.choice([0, 0, max(reader.last_confirmed, 0)])
            _begin(recording, str(reader.id), Place(reader.id, first))
            await _read(reader.tail(first), recording, str(reader.id))


KINDS: Final[dict[str, Act]] = {
    "writer": writer,
    "contender": contender,
    "tailer": tailer,
    "owner": owner,
    "follower": follower,
}


async def live(act: Act, recording: Recording, hosts: str, directory: Path, seed: str) -> None:
    """One session after the other, and in each one ledger after the other."""
    chance = random.Random(seed)
    while True:
        try:
            async with connect(hosts, session_timeout_ms=SESSION_MS) as zk, zab.ledgers.open_store(zk) as store:
                while True:
                    try:
                        await act(store, recording, chance, directory)
                    except LedgerError as error:
                        recording.met(error)
                        if isinstance(error, zab.ledgers.MetadataUnavailableError):
                            raise
                        await trio.sleep(AGAIN_SECONDS)
        except (ZabError, LedgerError) as error:
            recording.met(error)
            await trio.sleep(AGAIN_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("name")
    parser.add_argument("--hosts", required=True)
    parser.add_argument("--directory", type=Path, required=True)
    given = parser.parse_args()
    client = f"{given.name}.{os.getpid()}"
    recording = Recording(client, given.directory / f"{client}.jsonl")
    trio.run(live, KINDS[given.kind], recording, given.hosts, given.directory, client)


if __name__ == "__main__":
    main()
