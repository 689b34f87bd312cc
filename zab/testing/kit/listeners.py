"""Functions that are called with each group of members that is opened in this process.

A module of its own: a plugin of pytest adds one before anything that members need is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

listeners: list[Callable[[Any], None]] = []
"""Reports call them (`reports`)."""
