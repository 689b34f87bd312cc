"""Why a server ends: with an exit code, one of ZooKeeper's."""

UNEXPECTED_ERROR = 1
CONFIG_ERROR = 2
DATA_DIRECTORY_ERROR = 3
BIND_ERROR = 14


class ServerFailedError(Exception):
    """The server cannot go on; the process ends with this exit code."""

    def __init__(self, exit_code: int, reason: str) -> None:
        super().__init__(reason)
        self.exit_code = exit_code
        self.reason = reason
