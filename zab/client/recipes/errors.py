"""What a recipe raises beside the errors of its requests."""

from zab.client.core.exceptions import ZabError

__all__ = ["BadDataError", "LostError", "WaitOverError"]


class WaitOverError(ZabError, TimeoutError):
    """What was waited for did not come within `wait_s`. Nothing of the attempt is left."""

    def __init__(self, path: str, wait_s: float | None) -> None:
        super().__init__(f"{path}: it did not come within {wait_s} s")
        self.path = path
        self.wait_s = wait_s


class LostError(ZabError):
    """What was held, or waited in its queue, is lost though the session may live: the text says why.

    Somebody else deleted the znode, or no server was heard for as long as the session allows.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class BadDataError(ZabError, ValueError):
    """The znode's data is not what the recipe keeps there: the path may belong to something else."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
