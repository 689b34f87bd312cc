"""From what bookies have registered to a verdict: who serves, who is gone, and what an operator has to look at."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from zab.operations.verdicts.status import CRITICAL, WARNING, Alarm, by_severity

__all__ = ["BookieStatus", "Bookies", "bookie_alarms"]


@frozen
class BookieStatus:
    """One bookie. state: `writable`, `read-only` or `gone`. address, rack: None if it is not registered."""

    bookie: str
    state: str
    address: str | None = None
    rack: str | None = None


@frozen
class Bookies:
    """All bookies that have a cookie or are registered, by name."""

    bookies: tuple[BookieStatus, ...]

    def named(self, state: str) -> list[str]:
        """The names of those in this state."""
        return [each.bookie for each in self.bookies if each.state == state]


def bookie_alarms(found: Bookies) -> tuple[Alarm, ...]:
    """What an operator has to look at."""
    return by_severity(tuple(_alarms(found)))


def _alarms(found: Bookies) -> Iterator[Alarm]:
    if found.bookies and not found.named("writable"):
        action = "start them, or free space on their disks; their journals say more"
        yield Alarm(CRITICAL, "no_writable_bookie", "", "no bookie takes entries", action)
    for name in found.named("gone"):
        action = f"start it, or take its ledgers to others: zab bookie decommission {name}"
        yield Alarm(WARNING, "bookie_gone", "", f"bookie {name} is not registered", action)
    for name in found.named("read-only"):
        action = "free space on its disk, or end what was ordered"
        yield Alarm(WARNING, "bookie_read_only", "", f"bookie {name} takes no entries", action)
