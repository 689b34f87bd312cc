"""How often the same is done again, where nothing but waiting for another outcome speaks for it.

    attempts = Attempts()
    while True:
        try:
            return await create()
        except NoNodeError as error:
            attempts.again(error)                       # raises the error, where it came too often
            await make_parents()

A step that is repeated because somebody else was faster ends by the progress of others, and is not counted. What is
counted is an answer that can be the same for ever: a parent that is gone again each time, and a connection that ends
each time that this very request is sent. Waiting for a server is not counted: it ends with the session. An answer that
is too long for this client will be so again: it is raised at once.
"""

from typing import Final

from zab.client.core.exceptions import ConnectionLossError, ReplyTooLongError, ZabError

__all__ = ["ATTEMPTS_MAX", "Attempts"]

ATTEMPTS_MAX: Final = 100
"""After so many the error is raised."""


class Attempts:
    """See the module. For one call."""

    def __init__(self) -> None:
        self._count = 0

    def again(self, error: ZabError) -> None:
        """The step failed so. Raises the error, where it failed too often."""
        if isinstance(error, ConnectionLossError) and error.definite:
            return
        self._count += 1
        if self._count >= ATTEMPTS_MAX or isinstance(error, ReplyTooLongError):
            raise error
