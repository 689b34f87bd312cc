"""Clients of ledgers, each a process of its own that writes down what it does and what it is told (`recording`).

    python -m tests.chaos.ledgers.clients KIND NAME --hosts HOSTS --directory DIRECTORY

    writer      creates ledgers, appends to each some hundred entries, several at a time, and closes it
    contender   recovers ledgers that may be written at this moment, and reads them whole
    tailer      reads the newest ledger while it is written

Each goes on until it is ended, whatever it meets. A ledger is a stream of its own, whose name is its number.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import trio
from attrs import evolve

import zab.ledgers
from tests.chaos.ledgers.history import Append, Begin, End, Outcome, Place, Read, Record
from tests.chaos.ledgers.recording import Recorded, Recording, now
from zab.client import ZabError, connect
from zab.ledgers import LedgerError, LedgerReader, LedgerStore

SESSION_MS: Final = 2_000
QUORUMS: Final = ((3, 3, 2), (4, 3, 2), (5, 3, 2), (3, 2, 2))
UNDER_WAY_MAX: Final = 20
ENTRIES: Final = (20, 400)
"""A ledger gets so many entries."""
TOGETHER: Final = 50
"""So many entries that were read are written down at once."""
AGAIN_SECONDS: Final = 0.2

Act = Callable[[LedgerStore, Recording, random.Random, Path], Awaitable[None]]


async def writer(store: LedgerStore, recording: Recording, chance: random.Random, _directory: Path) -> None:
    """Write one ledger."""
    ensemble, write, ack = chance.choice(QUORUMS)
    ledger = await store.create(ensemble, write, ack)
    recording.created(ledger.id)
    stream = str(ledger.id)
    under_way = trio.Semaphore(UNDER_WAY_MAX)

    async def append(begun: Append, ticket: zab.ledgers.Ticket) -> None:
        try:
            entry = await ticket.done()
        except LedgerError as error:
            recording.met(error)
            recording.add(_failed(begun, error))
        else:
            recording.add(evolve(begun, outcome=Outcome.OK, place=Place(ledger.id, entry), end=now()))
        under_way.release()

    begin = now()
    async with trio.open_nursery() as nursery:
        for _ in range(chance.randint(*ENTRIES)):
            await under_way.acquire()
            number = recording.number()
            value = f"{recording.client}-{number}-{'x' * chance.choice([0, 10, 1000])}"
            begun = Append(
                client=recording.client,
                number=number,
                start=now(),
                stream=stream,
                value=value,
                outcome=Outcome.INFO,
            )
            recording.add(begun)
            try:
                ticket = ledger.append_nowait(value.encode())
            except LedgerError as error:
                recording.met(error)
                recording.add(_failed(begun, error))
                break
            nursery.start_soon(append, begun, ticket)
            await trio.sleep(chance.expovariate(200))
    await ledger.close()
    last = ledger.last_confirmed
    recording.add(_end(recording, ledger.id, last, begin))


def _failed(begun: Append, error: LedgerError) -> Append:
    """What is known of an append that raised this."""
    return evolve(begun, outcome=Outcome.FAIL, end=now()) if error.definite else evolve(begun, outcome=Outcome.INFO)


def _end(recording: Recording, ledger: int, last: int, start: float) -> End:
    client, number = recording.client, recording.number()
    return End(client=client, number=number, start=start, end=now(), stream=str(ledger), ledger=ledger, last=last)


async def _read(entries: zab.ledgers.Entries, recording: Recording, stream: str) -> None:
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
            records.append(Record(Place(entry.ledger, entry.entry), entry.payload.decode()))
            if len(records) >= TOGETHER:
                note()
                start = now()
    finally:
        note()


def _begin(recording: Recording, reader: LedgerReader, place: Place) -> None:
    client, number = recording.client, recording.number()
    recording.add(Begin(client=client, number=number, start=now(), end=now(), stream=str(reader.id), place=place))


async def contender(store: LedgerStore, recording: Recording, chance: random.Random, directory: Path) -> None:
    """Recover one of the newest ledgers, and read it."""
    await trio.sleep(chance.uniform(0.2, 2))
    ledgers = Recorded(directory).ledgers
    if not ledgers:
        return
    start = now()
    async with await store.open(chance.choice(ledgers[-4:])) as reader:
        recording.add(_end(recording, reader.id, reader.last_confirmed, start))
        _begin(recording, reader, Place(reader.id, 0))
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
            _begin(recording, reader, Place(reader.id, first))
            await _read(reader.tail(first), recording, str(reader.id))


KINDS: Final[dict[str, Act]] = {"writer": writer, "contender": contender, "tailer": tailer}


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
