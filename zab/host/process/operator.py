"""The operator of a service, as its journal: what it is told stands there, and a stop ends the process.

Not here: the journal itself (`zab.host.journal`), the exit of the process (`run_service`).
"""

from __future__ import annotations

from zab.host.journal.journal import Journal
from zab.service.failure import UNEXPECTED_ERROR, ServerFailedError

journal = Journal("server")


class JournalOperator:
    """See `zab.service.ports.Operator`."""

    def trace(self, text: str) -> None:
        journal.info(text)

    def warn(self, text: str) -> None:
        journal.warning(text)

    def error(self, sentence: str, **pairs: object) -> None:
        journal.error(sentence, **pairs)

    def stop(self, reason: str) -> None:
        raise ServerFailedError(UNEXPECTED_ERROR, reason)
