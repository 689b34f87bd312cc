"""What a store, its writers and its readers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

from zab.client import Client
from zab.ledger.placement.placement import Placement
from zab.ledger.writer.admission import SharedBudget
from zab.ledgers.call import Call
from zab.ledgers.driving import Driving
from zab.ledgers.objects import Objects, open_objects
from zab.ledgers.settings import StoreSettings


@define(eq=False)
class Parts:
    """`open_writers`: those whose ledgers are not closed."""

    zk: Client
    settings: StoreSettings
    placement: Placement
    budget: SharedBudget
    driving: Driving
    open_writers: dict[Any, None] = field(factory=dict)
    open_objects: Callable[[str], Objects] = open_objects
    """Where copies of ledgers are."""

    def call(self) -> Call:
        """A token to wait for."""
        return Call(self.zk)

    @property
    def now_ms(self) -> int:
        return int(self.zk.now() * 1000)
