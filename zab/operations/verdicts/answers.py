"""A member's figures, parsed from the text or JSON of its answer.

    of_mntr(text), of_srvr(text)    figures, under the names of `mntr` without `zk_`
    of_monitor(value)               likewise from the admin command `monitor`
    refusal_of(text)                why the text has no figures, or None

Input from a network may be anything: what is not a figure is ignored.

Not here: who is asked, and how (`zab.operations.asking`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from attrs import field, frozen

__all__ = ["Answer", "Figure", "Figures", "of_mntr", "of_monitor", "of_srvr", "refusal_of", "waits_for"]

Figure: TypeAlias = "int | float | str"
Figures: TypeAlias = Mapping[str, Figure]

_NOT_SERVING: Final = "This ZooKeeper instance is not currently serving requests"
_NOT_LISTED: Final = "is not in the whitelist"
_WAITS: Final = re.compile(r"^no service(?: but to readers)?: (.*)$", re.MULTILINE)
_NUMBER: Final = re.compile(r"-?\d{1,19}")
_FRACTION: Final = re.compile(r"-?\d{1,19}\.\d{1,19}")
_LATENCY: Final = re.compile(r"Latency min/avg/max: (\d{1,19})/([\d.]{1,20})/(\d{1,19})")
_ZXID: Final = re.compile(r"0x[0-9a-fA-F]{1,16}")

_LINES_OF_SRVR: Final = {
    "Zookeeper version": "version",
    "Received": "packets_received",
    "Sent": "packets_sent",
    "Connections": "num_alive_connections",
    "Outstanding": "outstanding_requests",
    "Mode": "server_state",
    "Node count": "znode_count",
}


@frozen
class Answer:
    """The answer of one member. `error` says why there are no figures; it is empty if there are some.

    server: as it was addressed, `host:port`. waits: what the member says it waits for, or empty. source: `mntr`,
    `srvr`, `monitor`, or empty. days_left: of the certificate that it presents; None without one. skew_seconds: how far
    its clock is ahead of this one, within a second; None if not known.
    """

    server: str
    server_id: int | None = None
    error: str = ""
    waits: str = ""
    source: str = ""
    figures: Figures = field(factory=dict)
    days_left: float | None = None
    skew_seconds: float | None = None

    @property
    def is_reached(self) -> bool:
        """Whether it answered at all."""
        return bool(self.source)

    @property
    def is_serving(self) -> bool:
        return not (self.error or self.waits) and self.state in ("leader", "follower", "observer", "standalone")

    @property
    def state(self) -> str:
        """leader, follower, observer, standalone; looking, or unreachable."""
        if not self.is_reached:
            return "unreachable"
        return str(self.figures.get("server_state", "looking"))

    @property
    def zxid(self) -> int | None:
        """The zxid up to which it has applied."""
        return self.number("applied_zxid")

    def number(self, name: str) -> int | None:
        value = self.figures.get(name)
        return round(value) if isinstance(value, int | float) else None


def of_mntr(text: str) -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    for line in text.splitlines():
        name, tab, value = line.partition("\t")
        if tab and name.startswith("zk_"):
            found[name.removeprefix("zk_")] = _value(value.strip())
    return found


def of_srvr(text: str) -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(": ")
        if colon and name in _LINES_OF_SRVR:
            found[_LINES_OF_SRVR[name]] = _value(value.strip())
        elif colon and name == "Zxid" and _ZXID.fullmatch(value.strip()):
            found["applied_zxid"] = int(value, 16)
    latency = _LATENCY.search(text)
    if latency is not None:
        found["min_latency"], found["max_latency"] = int(latency[1]), int(latency[3])
        average = _value(latency[2])
        if not isinstance(average, str):
            found["avg_latency"] = average
    return found


def of_monitor(value: Any) -> dict[str, Figure]:
    if not isinstance(value, dict):
        return {}
    kept = {str(name): each for name, each in value.items() if isinstance(each, int | float | str)}
    kept.pop("command", None)
    kept.pop("error", None)
    return kept


def refusal_of(text: str) -> str | None:
    """Why this answer to a word has no figures."""
    if not text.strip():
        return "it says nothing"
    if _NOT_LISTED in text:
        return "its 4lw.commands.whitelist does not have the word"
    return "it serves nobody" if text.startswith(_NOT_SERVING) else None


def waits_for(text: str, figures: Figures) -> str:
    """What a member waits for, from the line or figure that tells it; empty if none does."""
    line = _WAITS.search(text)
    return line[1] if line is not None else str(figures.get("waits_for", ""))


def _value(text: str) -> Figure:
    if _NUMBER.fullmatch(text):
        return int(text)
    return float(text) if _FRACTION.fullmatch(text) else text
