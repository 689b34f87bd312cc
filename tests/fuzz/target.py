"""A target of the fuzzers.

    TARGETS[name]       examples to begin with; what to do with any bytes; which errors those bytes may end in

A target raises one of its own `errors`, or returns; whatever else it raises is found. It uses the native parts that a
server would use: those that are compiled, except with `ZAB_NATIVE=0`.

Not here: the targets (`targets`, `native_targets`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from datatree.compiled import using
from zab.native import load


@attrs.frozen
class Target:
    """One decoder."""

    examples: Callable[[], Sequence[bytes]]
    run: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]

    def decodes(self, data: bytes) -> bool:
        """Whether it did. Raises what it may not."""
        try:
            with using(load("tree"), load("writes")):
                self.run(data)
        except self.errors:
            return False
        return True


TARGETS: dict[str, Target] = {}


def target(examples: Callable[[], Sequence[bytes]], *errors: type[Exception]) -> Callable[[Any], Any]:
    def add(run: Callable[[bytes], object]) -> Callable[[bytes], object]:
        TARGETS[run.__name__] = Target(functools.cache(examples), run, errors)
        return run

    return add
