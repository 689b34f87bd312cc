"""A server with leaks: it keeps a descriptor, a thread, memory and a file more again and again.

python -m tests.chaos.leaky FILE
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from zab.server.__main__ import main

EVERY_SECONDS = 0.5
MEMORY_BYTES = 400_000
FILE_BYTES = 200_000

_kept: list[object] = []


def leak(directory: Path) -> None:
    """For as long as the process lives."""
    number = 0
    while True:
        time.sleep(EVERY_SECONDS)
        number += 1
        _kept.append(os.open(os.devnull, os.O_RDONLY))
        _kept.append(b"x" * MEMORY_BYTES)
        thread = threading.Thread(target=time.sleep, args=(3600,), daemon=True)
        thread.start()
        if directory.exists():
            (directory / f"log.leaked{number}").write_bytes(bytes(FILE_BYTES))


if __name__ == "__main__":
    history = Path(sys.argv[-1]).parent / "data" / "version-1"
    threading.Thread(target=leak, args=(history,), daemon=True).start()
    sys.exit(main(sys.argv[1:]))
