"""Whether a message of a controller is to be taken: for this life, from the newest controller, once, in its order."""

from __future__ import annotations

import attrs

from zab.kafka.errors import ErrorCode
from zab.partition.controller.effects import ToBroker
from zab.partition.links.messages import Told

NONE_YET = -1


@attrs.define
class Arrivals:
    """What one broker has taken."""

    controller_epoch: int = NONE_YET
    ended_epoch: int = NONE_YET
    """The epoch of the last life of this broker that is over: the next one has not registered yet, or has."""
    _broker_epoch: int = NONE_YET
    _number: int = 0
    """The number of the last message of this controller to this life."""

    def error(self, message: ToBroker, broker_id: int, broker_epoch: int) -> ErrorCode:
        """Why a broker of this id and epoch, both -1 before it is registered, does not take it; NONE: it may.

        BROKER_NOT_AVAILABLE: not yet, since the sender knows of a registration of which this broker is not told."""
        if broker_epoch == NONE_YET or (message.broker_id == broker_id and message.broker_epoch > broker_epoch):
            return ErrorCode.BROKER_NOT_AVAILABLE
        is_to_this_life = (message.broker_id, message.broker_epoch) == (broker_id, broker_epoch)
        if not is_to_this_life or message.broker_epoch <= self.ended_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if message.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    def is_next(self, told: Told) -> bool | None:
        """Whether a message without error follows what was taken. False: one before it is missing. None: it was taken
        before."""
        last = self.number_of(told.message)
        if told.number <= last:
            return None
        return told.after <= last

    def number_of(self, message: ToBroker) -> int:
        """The number of the last message that was taken of the controller of this one; 0: none."""
        is_known = (message.controller_epoch, message.broker_epoch) == (self.controller_epoch, self._broker_epoch)
        return self._number if is_known else 0

    def take(self, message: ToBroker, number: int = 0) -> None:
        """Note that it is taken."""
        self.controller_epoch, self._broker_epoch = message.controller_epoch, message.broker_epoch
        self._number = number
