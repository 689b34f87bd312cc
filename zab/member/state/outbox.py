"""The effects of a turn, in the order in which the parts of a member want them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from zab.protocol import effects as fx
from zab.protocol import message as msg
from zab.quorum.ids import Link

E_contra = TypeVar("E_contra", contravariant=True)
"""The effects that a part may ask for."""


class Outbox(Generic[E_contra]):
    """Collects the effects of a step. The member takes them at its end."""

    def __init__(self) -> None:
        self.effects: list[Any] = []

    def want(self, effect: E_contra) -> None:
        self.effects.append(effect)

    def send(self, link: Link, message: msg.Message) -> None:
        self.effects.append(fx.Send((link,), message))

    def trace(self, text: str) -> None:
        self.effects.append(fx.Trace(text))
