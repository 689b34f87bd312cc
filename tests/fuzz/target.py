"""A target of the fuzzers, and the table of all of them (`targets`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import attrs


@attrs.frozen
class Target:
    """One decoder."""

    examples: Callable[[], Sequence[bytes]]
    run: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]

    def decodes(self, data: bytes) -> bool:
        """Whether it did. Raises what it may not."""
        try:
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
