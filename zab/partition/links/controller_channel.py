"""What this broker, as the controller, tells the others: in order, and again until it has arrived.

    tell(message)               queue it for its broker
    due(broker_id, link, now)   what is to be sent on the link to that broker
    lost(broker_id)             the link is gone: what was not taken is sent again on the next one
    taken(…)                    an answer has come
    resigned()                  this broker is the controller no longer

A channel belongs to one life of a broker (its broker epoch) and one term of office. Its messages are numbered, and the
receiver takes each number once (`arrivals`). A life that is over, as the list of live brokers says that each
`PartitionStates` has, takes its channel with it.

Limit: when `QUEUE_MAX` messages to one broker wait, they become two that say the same (`merging`): what waits is at
most the state of the cluster, and what is to be stopped.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.partition.controller.effects import PartitionStates, ToBroker
from zab.partition.controller.requests import StopReplicaAnswered
from zab.partition.links.merging import merged
from zab.partition.links.messages import Taken, Told

QUEUE_MAX: Final = 1000
AGAIN_MS: Final = 200
"""How long a broker is left alone that cannot take a message yet."""
NEVER: Final = 1 << 62


@attrs.define
class _Channel:
    epoch: int
    queue: deque[Told] = attrs.Factory(deque)
    count: int = 0
    sent_count: int = 0
    """How many of the queue are on their way."""
    again_at: int = 0

    def merge(self) -> None:
        """Let what is not on its way become two messages."""
        unsent = [self.queue.pop() for _ in range(len(self.queue) - self.sent_count)][::-1]
        states, stops = merged(each.message for each in unsent)
        first, last = unsent[0].after, unsent[-1].number
        self.queue += [Told(last - 1, first, states), Told(last, last - 1, stops)]


class ControllerChannel:
    """See the docstring of the module. Only the broker that is the controller has messages in it."""

    def __init__(self) -> None:
        self._channels: dict[int, _Channel] = {}

    def tell(self, message: ToBroker) -> None:
        """Queue this for its broker."""
        if isinstance(message.message, PartitionStates):
            live = {broker.id: broker.epoch for broker in message.message.live_brokers}
            for broker_id, known in list(self._channels.items()):
                if live.get(broker_id) != known.epoch:
                    del self._channels[broker_id]
        channel = self._channels.get(message.broker_id)
        if channel is None or channel.epoch < message.broker_epoch:
            channel = self._channels[message.broker_id] = _Channel(message.broker_epoch)
        if channel.epoch != message.broker_epoch:
            return
        channel.count += 1
        channel.queue.append(Told(channel.count, channel.count - 1, message))
        if len(channel.queue) - channel.sent_count >= QUEUE_MAX and isinstance(message.message, PartitionStates):
            channel.merge()

    def resigned(self) -> None:
        """The next controller tells everything again."""
        self._channels.clear()

    @property
    def waiting(self) -> list[int]:
        """The brokers for which something is queued."""
        return [broker_id for broker_id, channel in self._channels.items() if channel.queue]

    def due(self, broker_id: int, now: int) -> list[Told]:
        """What is to be sent to this broker now, in order."""
        channel = self._channels.get(broker_id)
        if channel is None or channel.again_at > now:
            return []
        due = [channel.queue[at] for at in range(channel.sent_count, len(channel.queue))]
        channel.sent_count = len(channel.queue)
        return due

    def lost(self, broker_id: int) -> None:
        """The link to this broker is gone."""
        channel = self._channels.get(broker_id)
        if channel is not None:
            channel.sent_count = 0

    def taken(self, broker_id: int, taken: Taken, now: int) -> StopReplicaAnswered | None:
        """The broker has answered the message of this number. What it says of a StopReplica, if it does."""
        channel = self._channels.get(broker_id)
        if channel is None or not channel.sent_count or channel.queue[0].number != taken.number:
            return None
        if taken.error is ErrorCode.BROKER_NOT_AVAILABLE:
            channel.sent_count, channel.again_at = 0, now + AGAIN_MS
            return None
        channel.queue.popleft()
        channel.sent_count -= 1
        return taken.stopped

    def next_deadline(self) -> int:
        """When something is due that waits for nothing but time."""
        again = (each.again_at for each in self._channels.values() if each.queue and not each.sent_count)
        return min((each for each in again if each), default=NEVER)
