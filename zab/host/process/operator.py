"""Reports to the operator by the journal; a stop ends the process.

Not here: the journal itself (`zab.host.journal`), the exit of the process (`run_service`).
"""

from __future__ import annotations

from zab.host.journal.journal import Journal
from zab.service.failure import UNEXPECTED_ERROR, ServerFailedError


class JournalOperator:
    """The port `zab.service.ports.Operator`, over the journal, in which lines have the name of their source."""

    def __init__(self, source: str = "server") -> None:
        self._journal = Journal(source)

    def trace(self, text: str) -> None:
        self._journal.info(text)

    def warn(self, text: str) -> None:
        self._journal.warning(text)

    def error(self, sentence: str, **pairs: object) -> None:
        self._journal.error(sentence, **pairs)

    def stop(self, reason: str) -> None:
        raise ServerFailedError(UNEXPECTED_ERROR, reason)
