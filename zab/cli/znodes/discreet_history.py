"""The file of the shell's history, without secrets.

What is not written to it: a line that begins with a blank, as in other shells; one with `addauth`, with all lines of
that command; and one with a word that names a password or credentials. Of lines that are pasted together, all or none.
It can be called again as long as the shell runs, and no longer. `history` prints it without what is secret.
"""

import re
from collections.abc import Callable
from typing import Final

from prompt_toolkit.history import FileHistory

__all__ = ["DiscreetHistory", "is_secret", "without_secrets"]

_QUOTING: Final = re.compile(r"['\"\\]")
_SECRET: Final = re.compile(r"^[^\S\n]|\baddauth\b|--?auth\b|passw|secret|credential", re.IGNORECASE | re.MULTILINE)
_ADDAUTH: Final = re.compile(r"\s*(?:-\S*\s+)*(addauth(?:\s+\S+(?=\s))?)")


def is_secret(text: str) -> bool:
    """Whether what was typed, one line or several that were pasted, is not to be kept."""
    # A word is the same however it is quoted.
    return _SECRET.search(_QUOTING.sub("", text)) is not None


def without_secrets(command: str) -> str:
    """As it may be printed."""
    found = _ADDAUTH.match(_QUOTING.sub("", command))
    return command if found is None else f"{found[1]} …"


class DiscreetHistory(FileHistory):
    """unfinished: the lines before this one of the command that it goes on with."""

    def __init__(self, filename: str, unfinished: Callable[[], str]) -> None:
        super().__init__(filename)
        self._unfinished = unfinished

    def store_string(self, string: str) -> None:
        if not is_secret(self._unfinished() + string):
            super().store_string(string)
