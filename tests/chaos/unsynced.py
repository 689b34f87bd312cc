"""A server with a fault: what it logs is written, and never synced. `python -m tests.chaos.unsynced FILE`

`kill -9` cannot tell it from one that syncs, since the kernel keeps what was written; a power cut can.
"""

from __future__ import annotations

import sys

from datatree.log.disk import Then
from zab.host.storage.disk import RealFile
from zab.server.__main__ import main


def _unsynced(file: RealFile, data: bytes, then: Then | None = None) -> None:
    file.write(data)
    if then is not None:
        then()


if __name__ == "__main__":
    RealFile.write_durable = _unsynced  # type: ignore[method-assign]
    sys.exit(main(sys.argv[1:]))
