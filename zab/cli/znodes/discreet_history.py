"""The file of the shell's history, without secrets.

Not written to it are: a line that begins with a blank, as in other shells; one with `addauth`, with all lines of that
command; and one with a word that names a password or credentials. If one of the lines pasted together is left out, all
are. Such a line can be recalled only while the shell runs. `history` prints it without the secret.
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
    """Whether the input, a line or several pasted ones, is not to be written."""
    # Quotes do not change a word.
    return _SECRET.search(_QUOTING.sub("", text)) is not None


def without_secrets(command: str) -> str:
    """The line without secrets, for printing."""
    found = _ADDAUTH.match(_QUOTING.sub("", command))
    return command if found is None else f"{found[1]} …"


class DiscreetHistory(FileHistory):
    """unfinished: the earlier lines of the command that this line continues."""

    def __init__(self, filename: str, unfinished: Callable[[], str]) -> None:
        super().__init__(filename)
        self._unfinished = unfinished

    def store_string(self, string: str) -> None:
        if not is_secret(self._unfinished() + string):
            super().store_string(string)
