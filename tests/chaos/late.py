"""A server with a fault: its disk is slow while a file `late` is beside its configuration, and says how slow (s).

python -m tests.chaos.late [OPTIONS] FILE
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from datatree.log.disk import Then
from zab.host.storage.disk import RealFile
from zab.server.__main__ import main

NAME = "late"

_write_durable = RealFile.write_durable


def _late(file: RealFile, data: bytes, then: Then | None = None) -> None:
    mark = Path(sys.argv[-1]).with_name(NAME)
    if mark.exists():
        time.sleep(float(mark.read_text()))
    _write_durable(file, data, then)


if __name__ == "__main__":
    RealFile.write_durable = _late  # type: ignore[method-assign]
    sys.exit(main(sys.argv[1:]))
