"""One member that counts its calls: `python -m bench.counted_member OUTPUT FILE`, else as `python -m zab.server FILE`.

SIGUSR1 begins to count in the loop's thread. SIGUSR2 ends it and writes OUTPUT, beside FILE: a JSON array of
`[function, calls, is_python]`. The counts are exact: the interpreter calls its own hook for each call.
"""

from __future__ import annotations

import cProfile
import json
import os
import signal
import sys
from pathlib import Path
from types import CodeType
from typing import Any

from zab.server.__main__ import main


def counted(profile: cProfile.Profile) -> list[tuple[str, int, bool]]:
    """Every function that was called, how often, and whether it is one of Python's and not of C's."""
    return [(_name(entry.code), entry.callcount, isinstance(entry.code, CodeType)) for entry in profile.getstats()]


def _name(code: Any) -> str:
    if isinstance(code, CodeType):
        return f"{Path(code.co_filename).stem}:{code.co_qualname}"
    return str(code)


def run(output: Path, arguments: list[str]) -> int:
    profile = cProfile.Profile()

    def begin(_number: int, _frame: object) -> None:
        profile.clear()
        profile.enable()

    def end(_number: int, _frame: object) -> None:
        profile.disable()
        unfinished = output.with_suffix(".part")
        unfinished.write_text(json.dumps(counted(profile)))
        os.replace(unfinished, output)

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[-1]).parent / sys.argv[1], sys.argv[2:]))
