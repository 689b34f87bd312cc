"""The options of `zab.ledger`. Names may have any case.

option         value
dirs           directories of bookies, as a JSON list or with commas between them; not needed with logs
ledgers        ids and ranges: 3,7-12. Without it, all
metadata       where the metadata of the ledgers are (`metadata`): digests are checked, and payloads known
ledgersRoot    the znode that the ledgers are below; /ledgers
logs           where the lists of managed ledgers are (`metadata`): the copies in object stores that they name are read
logsRoot       the znode that the lists are below; /logs
digest         crc32c, crc32, hmac or dummy: of ledgers without metadata
password       with digest: the password of these ledgers
damaged        fail (default), or skip, which leaves out what cannot be read
"""

import json
import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.ids import ID_MAX
from zab.pipeline.errors import PipelineError
from zab.pipeline.ledgers.metadata import LOGS_ROOT, ROOT
from zab.pipeline.ledgers.rows import Key

__all__ = ["Ids", "LedgerOptions"]

_NAMES: Final = frozenset(
    {
        *("dirs", "path", "ledgers", "metadata", "ledgersroot", "logs", "logsroot"),
        *("digest", "password", "damaged"),
    }
)
_RUN: Final = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?", re.ASCII)


@frozen
class Ids:
    """A set of ids of ledgers as ascending runs; None: all."""

    runs: tuple[tuple[int, int], ...] | None = None

    def __contains__(self, ledger: int) -> bool:
        if self.runs is None:
            return True
        at = bisect_right(self.runs, (ledger, ID_MAX)) - 1
        return at >= 0 and ledger <= self.runs[at][1]

    @classmethod
    def parse(cls, text: str) -> "Ids":
        """Raises PipelineError."""
        runs: list[tuple[int, int]] = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            found = _RUN.fullmatch(part)
            first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
            if not first <= last <= ID_MAX:
                raise PipelineError(f"option ledgers is like 3,7-12, not {text[:200]!r}")
            runs.append((first, last))
        if not runs:
            raise PipelineError("option ledgers names no ledger")
        joined: list[tuple[int, int]] = []
        for first, last in sorted(runs):
            if joined and first <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
            else:
                joined.append((first, last))
        return cls(tuple(joined))


@frozen
class LedgerOptions:
    """The options of one read."""

    dirs: tuple[str, ...]
    ids: Ids = Ids()
    metadata: str | None = None
    root: str = ROOT
    logs: str | None = None
    logs_root: str = LOGS_ROOT
    key: Key | None = None
    skips_damage: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "LedgerOptions":
        """Raises PipelineError."""
        given = {name.lower(): value for name, value in options.items()}
        unknown = given.keys() - _NAMES
        if unknown:
            raise PipelineError(f"unknown option {', '.join(sorted(unknown))}")
        damaged = given.get("damaged", "fail")
        if damaged not in ("fail", "skip"):
            raise PipelineError(f"option damaged is fail or skip, not {damaged!r}")
        return cls(
            _dirs(given.get("dirs") or given.get("path") or "", is_needed="logs" not in given),
            Ids.parse(given["ledgers"]) if "ledgers" in given else Ids(),
            given.get("metadata"),
            given.get("ledgersroot", ROOT),
            given.get("logs"),
            given.get("logsroot", LOGS_ROOT),
            _key(given),
            damaged == "skip",
        )


def _dirs(text: str, *, is_needed: bool) -> tuple[str, ...]:
    try:
        listed = json.loads(text) if text.startswith("[") else [part.strip() for part in text.split(",")]
    except (ValueError, RecursionError):
        raise PipelineError(f"option dirs is no JSON: {text[:200]}") from None
    found = tuple(str(part) for part in listed if part)
    if not found and is_needed:
        raise PipelineError('option "dirs" is missing: the directories of bookies')
    return found


def _key(given: Mapping[str, str]) -> Key | None:
    if "digest" not in given:
        if "password" in given:
            raise PipelineError("option password needs the option digest")
        return None
    name = given["digest"].upper()
    if name not in DigestType.__members__:
        names = ", ".join(each.lower() for each in DigestType.__members__)
        raise PipelineError(f"option digest is one of {names}, not {given['digest']!r}")
    return Key(DigestType[name], given.get("password", "").encode())
