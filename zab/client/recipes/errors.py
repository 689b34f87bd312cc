"""What a recipe raises besides the errors of its requests."""

from zab.client.core.exceptions import ZabError

__all__ = ["BadDataError", "LostError", "WaitOverError"]


class WaitOverError(ZabError, TimeoutError):
    """The wait was longer than `wait_s`. Nothing remains of the attempt."""

    def __init__(self, path: str, wait_s: float | None) -> None:
        super().__init__(f"{path}: it did not come within {wait_s} s")
        self.path = path
        self.wait_s = wait_s


class LostError(ZabError):
    """What was held, or the place in its queue, is lost although the session may live: the text says why.

    Another client deleted the znode, or no server answered for as long as the session allows.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class BadDataError(ZabError, ValueError):
    """The znode's data is not that of the recipe: the path may be used for something else."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
