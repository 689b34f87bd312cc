"""Handlers of messages that a test puts in the place of those that the protocol has."""

from collections.abc import Callable

import pytest

from zab.protocol.handlers import HANDLERS


def handle_with(patch: pytest.MonkeyPatch, other: Callable[..., None], *, instead_of: Callable[..., None]) -> None:
    """In every cell of the table where that handler stands."""
    cells = [cell for cell, each in HANDLERS.items() if each is instead_of]
    assert cells
    for cell in cells:
        patch.setitem(HANDLERS, cell, other)
