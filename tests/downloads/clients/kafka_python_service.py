"""What the source distribution of kafka-python leaves out of its tests: `test.service`, which its fixtures import.

With a broker that runs already, only `ExternalService` is used, and does nothing.
"""


class ExternalService:
    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass


class SpawnedService:
    def __init__(self, *_: object) -> None:
        raise AssertionError("the broker runs already")
