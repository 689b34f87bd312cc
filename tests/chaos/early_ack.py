"""A server with a fault: it says that a batch is durable and writes it later. `python -m tests.chaos.early_ack FILE`

Killed in between, it has acknowledged what it does not have. The kernel keeps what was written, so only a write that
was not even begun can be lost by `kill -9`: hence the delay. Batches are written in order, and before anything else is
done to the log, so that nothing but the promise is wrong.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from datatree.log.batch import Batch
from zab.member.storage.events import StorageAnswer, StorageEffect
from zab.member.storage.storage import Storage
from zab.protocol.effects import AppendBatches
from zab.protocol.events import Durable
from zab.server.__main__ import main

DELAY_SECONDS = 0.3

_perform, _idle, _close = Storage.perform, Storage.idle, Storage.close
_held: list[tuple[float, Batch]] = []


def perform(self: Storage, effects: Sequence[StorageEffect]) -> list[StorageAnswer]:
    """Appends are answered at once; everything else waits until they are written."""
    answers: list[StorageAnswer] = []
    for effect in effects:
        if not isinstance(effect, AppendBatches):
            write_held(self)
            answers += _perform(self, [effect])
        elif effect.batches:
            _held.extend((time.monotonic(), batch) for batch in effect.batches)
            for link in effect.then.links if effect.then is not None else ():
                self.hold(link, effect.then.message)()
            answers.append(Durable(effect.generation, effect.batches[-1].zxid))
    write_held(self, older_than_seconds=DELAY_SECONDS)
    return answers


def write_held(storage: Storage, older_than_seconds: float = 0.0) -> None:
    due = [batch for since, batch in _held if time.monotonic() - since >= older_than_seconds]
    if due:
        del _held[: len(due)]
        storage.log.append(due)


def idle(self: Storage) -> None:
    write_held(self)
    _idle(self)


def close(self: Storage) -> None:
    write_held(self)
    _close(self)


if __name__ == "__main__":
    Storage.perform, Storage.idle, Storage.close = perform, idle, close  # type: ignore[method-assign]
    sys.exit(main(sys.argv[1:]))
