"""What leaves a machine in a bundle for support: without passwords, keys and hashes of passwords.

    redacted_configuration(text, public)       a zoo.cfg with the values of the keys that are public, and of no other
    Redactor(secrets, names).of(text)          a text without these secrets, and without what looks like one
    Redactor(secrets, names).of_value(value)   the same of what JSON holds: its texts, and nothing else of it

A value is kept only if its key is known to hold no secret; comments are removed, since they may contain anything. What
is found in other texts by its form: the password in `digest:NAME:PASSWORD`, the identity of a digest ACL after its
user, private keys, passwords in URLs, and what follows `password`, `secret` or `Authorization`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from zab.configuration.properties import PropertiesError, escaped, parse_properties

__all__ = ["LEFT_OUT", "Redactor", "redacted_configuration"]

LEFT_OUT: Final = "(left out)"
SECRET_CHARACTERS_MIN: Final = 4
"""A shorter secret would match in many words; it is only removed where its key is."""

_PATTERNS: Final = (
    # PEM; to the end, where the end is cut off.
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S), LEFT_OUT),
    (re.compile(r"(digest[:,]\s*'?[^\s:'\",]+):[A-Za-z0-9+/]{16,}={0,2}"), rf"\1:{LEFT_OUT}"),
    # A password may have any character: it goes to the next space, or to the end of a text of JSON.
    (re.compile(rf"(digest:[^\s:'\",]+):(?!{re.escape(LEFT_OUT)})(?:(?!\"[\s,\]}}]|\"$)\S)+"), rf"\1:{LEFT_OUT}"),
    # SHA-1, SHA-256 and SHA-512 of a password, with their names before them.
    (re.compile(r"([^\s:/\"'=,]+):[A-Za-z0-9+/]{27}=(?![A-Za-z0-9+/=])"), rf"\1:{LEFT_OUT}"),
    (re.compile(r"([^\s:/\"'=,]+):[A-Za-z0-9+/]{43}=(?![A-Za-z0-9+/=])"), rf"\1:{LEFT_OUT}"),
    (re.compile(r"([^\s:/\"'=,]+):[A-Za-z0-9+/]{86}==(?![A-Za-z0-9+/=])"), rf"\1:{LEFT_OUT}"),
    (re.compile(r"(://[^/\s:@]*):[^/\s@]+@"), rf"\1:{LEFT_OUT}@"),
    (
        re.compile(r"(?i)((?:password|passwd|secret|authorization)\"?\s*[=:]\s*\"?)(?![\s\"(])[^\n\"]+"),
        rf"\1{LEFT_OUT}",
    ),
)

_SECRET_FIELD: Final = re.compile(r"(?i)(?:password|passwd|secret|authorization)$")
_BESIDE_A_NAME: Final = re.compile(r"[^\w.]")


def redacted_configuration(text: str, is_public: Callable[[str], bool]) -> str:
    """One line for each entry, in order. A text that cannot be read as a configuration is left out as a whole."""
    try:
        entries = parse_properties(text)
    except PropertiesError as error:
        return f"# line {error.line} cannot be read: {LEFT_OUT}\n"
    shown = [(entry.key, escaped(entry.value) if is_public(entry.key) else LEFT_OUT) for entry in entries]
    return "".join(f"{escaped(key)}={value}\n" for key, value in shown)


class Redactor:
    """`secrets` are known ones, which are removed everywhere except in the `names` of keys."""

    def __init__(self, secrets: Iterable[str] = (), names: Iterable[str] = ()) -> None:
        known = {each for each in secrets if len(each) >= SECRET_CHARACTERS_MIN}
        # A longer one may begin with a shorter one.
        longest_first = sorted(known, key=lambda each: (-len(each), each))
        self._known = re.compile("|".join(map(re.escape, longest_first))) if known else None
        self._names = frozenset(names)
        self._name_characters = max(map(len, self._names), default=0)

    def of(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(lambda found: found[0] if self._is_in_a_name(found) else LEFT_OUT, text)
        for pattern, instead in _PATTERNS:
            text = pattern.sub(instead, text)
        return text

    def of_value(self, value: Any) -> Any:
        """Names of fields, numbers and truth values stay."""
        if isinstance(value, str):
            return self.of(value)
        if isinstance(value, Mapping):
            return {key: self._of_field(key, each) for key, each in value.items()}
        return [self.of_value(each) for each in value] if isinstance(value, list | tuple) else value

    def _of_field(self, key: str, value: Any) -> Any:
        if _SECRET_FIELD.search(key) and value and not isinstance(value, bool):
            return LEFT_OUT
        return self.of_value(value)

    def _is_in_a_name(self, found: re.Match[str]) -> bool:
        before = found.string[max(0, found.start() - self._name_characters) : found.start()]
        after = found.string[found.end() : found.end() + self._name_characters]
        word = _BESIDE_A_NAME.split(before)[-1] + found[0] + _BESIDE_A_NAME.split(after)[0]
        return word.rstrip(".") in self._names
