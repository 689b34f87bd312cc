"""Subscriptions by a regular expression: which topics an expression matches, in time that grows with its length alone.

Clients write expressions in the syntax of RE2, and the broker evaluates them (KIP-848): an engine that backtracks would
let one member keep the broker busy for ever. So they go to RE2 itself, by the package `google-re2`. Where that is not
installed, such a subscription is refused, with the reason; subscriptions by names are not affected.

An expression has to match the whole name of a topic, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

try:
    import re2
except ImportError:
    re2 = None

LENGTH_MAX: Final = 1024
"""The longest expression, in characters."""
MEMORY_BYTES_MAX: Final = 1 << 20
"""What RE2 may use for one: it refuses those that repeat too much, and slows down beyond."""
KEPT_MAX: Final = 256
"""So many expressions are kept ready."""


class InvalidRegexError(ValueError):
    """The expression cannot be used; the text says why."""


class TopicRegex:
    """An expression that can be used. It remembers what it was asked last: of topics that come and go, only those are
    looked at that are new."""

    def __init__(self, matches: Callable[[str], bool]) -> None:
        self._matches = matches
        self._names: frozenset[str] = frozenset()
        self._found: frozenset[str] = frozenset()

    def of(self, names: frozenset[str]) -> frozenset[str]:
        """Which of these names match as a whole."""
        if names is not self._names:
            new = names - self._names
            self._found = (self._found & names).union(filter(self._matches, new))
            self._names = names
        return self._found


@lru_cache(maxsize=KEPT_MAX)
def topic_regex(text: str) -> TopicRegex:
    """The expression of this text. Raises InvalidRegexError."""
    if re2 is None:
        raise InvalidRegexError("this broker does not evaluate regular expressions: google-re2 is not installed")
    if len(text) > LENGTH_MAX:
        raise InvalidRegexError(f"the expression has {len(text)} characters, more than {LENGTH_MAX}")
    options = re2.Options()
    options.max_mem = MEMORY_BYTES_MAX
    options.log_errors = False
    try:
        pattern = re2.compile(text, options)
    except re2.error as error:
        raise InvalidRegexError(f"{text!r} is no regular expression: {error}") from error
    return TopicRegex(lambda name: pattern.fullmatch(name) is not None)
