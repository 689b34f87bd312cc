"""The file of the shell's history, without secrets.

What is not written to it: a line that begins with a blank, as in other shells; `addauth` with what follows it, in all
its lines; and a line with a word that names a password or credentials. It can be called again as long as the shell
runs, and no longer. `history` prints it without what is secret.
"""

import re
from collections.abc import Callable
from typing import Final

from prompt_toolkit.history import FileHistory

__all__ = ["DiscreetHistory", "is_secret", "without_secrets"]

_SECRET: Final = re.compile(r"\s|\s*['\"]?addauth\b|.*(--?auth\b|passw|secret|credential)", re.IGNORECASE | re.DOTALL)
_ADDAUTH: Final = re.compile(r"(\s*['\"]?addauth['\"]?\s+\S+\s).*", re.DOTALL)


def is_secret(command: str) -> bool:
    """Whether the command, of one line or more, is not to be kept."""
    return _SECRET.match(command) is not None


def without_secrets(command: str) -> str:
    """As it may be printed."""
    return _ADDAUTH.sub(r"\1…", command)


class DiscreetHistory(FileHistory):
    """unfinished: the lines before this one of the command that it goes on with."""

    def __init__(self, filename: str, unfinished: Callable[[], str]) -> None:
        super().__init__(filename)
        self._unfinished = unfinished

    def store_string(self, string: str) -> None:
        if not is_secret(self._unfinished() + string):
            super().store_string(string)
