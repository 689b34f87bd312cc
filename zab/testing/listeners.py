"""Who is told of each real ensemble that is opened in this process: the plugin, for its reports.

A module of its own, so that the plugin can say so before anything that an ensemble needs is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

listeners: list[Callable[[Any], None]] = []
"""Each is called with the `Ensemble`."""
