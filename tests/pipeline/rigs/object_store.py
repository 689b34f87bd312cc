"""An object store in a process of its own."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from tests.rigs.waiting import PATIENCE_SECONDS
from zab.testing.kit.ports import free_ports

REGION = "us-east-1"

BUCKET = "backups"


class Store:
    """An S3 server on loopback with one bucket."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.files = fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{port}",
            scheme="http",
            region=REGION,
            allow_bucket_creation=True,
            connect_timeout=PATIENCE_SECONDS,
            request_timeout=PATIENCE_SECONDS,
        )
        self.files.create_dir(BUCKET)

    def uri(self, path: str) -> str:
        """As a user writes it, with the place of the store."""
        return f"s3://{BUCKET}/{path}?endpoint_override=127.0.0.1:{self.port}&scheme=http&region={REGION}"

    def put(self, source: Path, path: str) -> None:
        """All files below a directory."""
        for file in sorted(source.rglob("*")):
            if file.is_file():
                with self.files.open_output_stream(f"{BUCKET}/{path}/{file.relative_to(source)}") as stream:
                    stream.write(file.read_bytes())

    def names(self, path: str) -> set[str]:
        found = self.files.get_file_info(fs.FileSelector(f"{BUCKET}/{path}", recursive=True))
        return {info.path.removeprefix(f"{BUCKET}/{path}/") for info in found if info.is_file}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            # This store keeps the checksum after a body that comes in chunks as a part of it.
            ("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required"),
        ):
            patch.setenv(name, value)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                _wait_for(port, process)
                yield Store(port)
            finally:
                process.kill()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        assert process.poll() is None, "the store ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert time.monotonic() < deadline, "the store does not answer"
        time.sleep(0.05)
