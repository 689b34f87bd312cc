"""How often a step is repeated that may fail in the same way for ever.

    attempts = Attempts()
    while True:
        try:
            return await create()
        except NoNodeError as error:
            attempts.again(error)                       # raises the error if it came too often
            await make_parents()

A step that is repeated because another client was faster is not counted: each time, that client has made progress.
Counted are answers that can repeat for ever: the parent is gone again each time, or the connection ends each time this
request is sent. Waiting for a server is not counted: it ends with the session. An answer that is too long for this
client is raised at once, since the next one would be too long as well.
"""

from typing import Final

from zab.client.core.exceptions import ConnectionLossError, ReplyTooLongError, ZabError

__all__ = ["ATTEMPTS_MAX", "Attempts"]

ATTEMPTS_MAX: Final = 100
"""After this many attempts the error is raised."""


class Attempts:
    """The attempts of one call."""

    def __init__(self) -> None:
        self._count = 0

    def again(self, error: ZabError) -> None:
        """The step failed with this error. Raises it if the step failed too often."""
        if isinstance(error, ConnectionLossError) and error.definite:
            return
        self._count += 1
        if self._count >= ATTEMPTS_MAX or isinstance(error, ReplyTooLongError):
            raise error
