"""The checks of `zab doctor`: verdicts on what was measured about a member and its environment.

Each function takes facts and gives `Check`s: a verdict in one sentence, and what to do. Nothing is looked at here.

    ok          as it should be
    warning     it works, and will not in some case that is named
    failed      it does not work
    skipped     it could not be looked at, and why

Every bound has a name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from math import ceil
from typing import Final

from attrs import frozen

__all__ = [
    "Check",
    "Disk",
    "Port",
    "Verdict",
    "View",
    "of_certificates",
    "of_clocks",
    "of_configuration",
    "of_disk",
    "of_limits",
    "of_names",
    "of_ports",
    "of_versions",
    "of_views",
    "quantile",
]

SKEW_SECONDS_MAX: Final = 5.0
"""Between two members: clocks are reported in whole seconds."""
SYNC_MS_WARNING: Final = 50.0
SYNC_MS_FAILED: Final = 1000.0
"""For the slowest of a hundred syncs: members elect when a leader is silent for syncLimit ticks."""
DAYS_WARNING: Final = 14.0
CONNECT_MS_WARNING: Final = 200.0


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@frozen
class Check:
    """name: which check. subject: what it is about; empty for the whole ensemble. action: what to do, or empty."""

    name: str
    verdict: Verdict
    subject: str
    said: str
    action: str = ""

    @property
    def is_well(self) -> bool:
        return self.verdict in (Verdict.OK, Verdict.SKIPPED)


@frozen
class Port:
    """A port that was dialled. error: why it cannot be reached; empty if it was, within so many ms."""

    member: int
    kind: str
    place: str
    error: str = ""
    took_ms: float = 0.0


@frozen
class View:
    """What one member's admin server says about the others. learners: the servers that follow it, as a leader or
    master. member: None if it does not say which one it is; then there is an error."""

    member: int | None
    leader: int | None
    learners: frozenset[int] = frozenset()
    error: str = ""


@frozen
class Disk:
    """A directory that was written to. syncs_ms: how long each sync took; free_bytes afterwards; error: why it cannot
    be used."""

    path: str
    syncs_ms: Sequence[float] = ()
    free_bytes: int = 0
    error: str = ""


def of_configuration(faults: Sequence[str], warnings: Sequence[str]) -> Iterator[Check]:
    for fault in faults:
        yield Check("configuration", Verdict.FAILED, "", fault, "a start ends there: change that line")
    for warning in warnings:
        yield Check("configuration", Verdict.WARNING, "", warning, "remove the line, or write what was meant")
    if not faults and not warnings:
        yield Check("configuration", Verdict.OK, "", "nothing is wrong with it")


def of_names(own: int, addresses: Mapping[tuple[int, str], Collection[str] | str]) -> Iterator[Check]:
    """addresses: for each member and each of its hosts, the addresses, or why there are none."""
    others = [found for (sid, _), found in addresses.items() if sid != own and not isinstance(found, str)]
    for (sid, host), found in sorted(addresses.items(), key=lambda item: item[0]):
        subject = f"server.{sid}"
        if isinstance(found, str):
            action = f"put {host} into the DNS or /etc/hosts of every member"
            yield Check("names", Verdict.FAILED, subject, f"{host} stands for no address: {found}", action)
        elif sid == own and all(map(_is_loopback, found)) and any(not all(map(_is_loopback, each)) for each in others):
            said = f"{host} stands for {', '.join(sorted(found))} here, where no other member reaches it"
            action = f"take {host} off the loopback line of /etc/hosts, or set quorumListenOnAllIPs=true"
            yield Check("names", Verdict.FAILED, subject, said, action)
        else:
            yield Check("names", Verdict.OK, subject, f"{host} is {', '.join(sorted(found))}")


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def of_ports(ports: Sequence[Port]) -> Iterator[Check]:
    """A member may have several ports of a kind, at different addresses: one that is reachable makes the others
    warnings."""
    reached = {(port.member, port.kind) for port in ports if not port.error}
    for port in ports:
        subject = f"server.{port.member}"
        said = f"{port.kind} port {port.place}"
        if port.error and (port.member, port.kind) in reached:
            action = "see that network: another one of this member's addresses is reached, and would be alone"
            said = f"{said} cannot be reached from here: {port.error}"
            yield Check("ports", Verdict.WARNING, subject, said, action)
        elif port.error:
            action = "see that it runs, and what a firewall between here and there lets through"
            yield Check("ports", Verdict.FAILED, subject, f"{said} cannot be reached from here: {port.error}", action)
        elif port.took_ms > CONNECT_MS_WARNING:
            action = "see the network: every write waits for a majority"
            yield Check("ports", Verdict.WARNING, subject, f"{said} answers after {port.took_ms:.0f} ms", action)
        else:
            yield Check("ports", Verdict.OK, subject, f"{said} answers in {port.took_ms:.0f} ms")


def of_views(views: Sequence[View], members: Collection[int]) -> Iterator[Check]:
    """What the members say about one another."""
    told = [view for view in views if not view.error]
    for view in views:
        if view.error:
            action = "see its admin.serverAddress and admin.serverPort"
            yield Check("members", Verdict.WARNING, "", view.error, action)
    if not told:
        said = "no admin port was named, so nobody was asked about the others"
        yield Check("members", Verdict.SKIPPED, "", said, "name them with --admin")
        return
    leaders = {view.leader for view in told}
    if leaders == {None}:
        yield Check("members", Verdict.FAILED, "", "no member knows a leader", "zab status says what they wait for")
    elif len(leaders) > 1:
        said = "; ".join(f"server.{view.member} follows {_leader(view.leader)}" for view in told)
        yield Check(
            "members", Verdict.FAILED, "", said, "see the ports between them, and that all have one configuration"
        )
    reached = frozenset().union(*[view.learners for view in told])
    for view in told:
        if view.member is None or view.leader != view.member:
            continue
        missing = sorted(set(members) - reached - {view.member})
        for sid in missing:
            said = f"the leader, server.{view.member}, has no link with server.{sid}"
            action = (
                f"see that server.{sid} runs, and reaches the quorum port of server.{view.member}; what it waits for "
                "says zab status"
            )
            yield Check("members", Verdict.FAILED, f"server.{sid}", said, action)
        if not missing:
            yield Check("members", Verdict.OK, f"server.{view.member}", "the leader has links with all members")


def _leader(sid: int | None) -> str:
    return "nobody" if sid is None else f"server.{sid}"


def of_clocks(skews: Mapping[str, float]) -> Iterator[Check]:
    """skews: how far each clock is ahead of the one here, in seconds; the one here is 0."""
    if not skews:
        said = "no member says what time it is"
        yield Check("clocks", Verdict.SKIPPED, "", said, "name the admin ports with --admin")
        return
    all_skews = {"here": 0.0, **skews}
    slowest, fastest = min(all_skews, key=all_skews.__getitem__), max(all_skews, key=all_skews.__getitem__)
    spread = all_skews[fastest] - all_skews[slowest]
    if spread > SKEW_SECONDS_MAX:
        said = f"the clock of {fastest} is {spread:.0f} s ahead of the one of {slowest}"
        yield Check(
            "clocks", Verdict.WARNING, "", said, "let NTP set both: times of znodes and certificates go by them"
        )
    else:
        yield Check("clocks", Verdict.OK, "", f"no two differ by more than {max(spread, 1.0):.0f} s")


def of_limits(descriptors: int, for_clients: int, connections_max: int) -> Iterator[Check]:
    """descriptors: the process's limit. for_clients: how many of them are for clients. connections_max: maxCnxns; 0 for
    none."""
    if connections_max > for_clients:
        said = f"maxCnxns is {connections_max}, and {descriptors} descriptors are enough for {for_clients} clients"
        action = "raise `ulimit -n` (LimitNOFILE= of systemd), or lower maxCnxns"
        yield Check("limits", Verdict.WARNING, "", said, action)
    else:
        yield Check("limits", Verdict.OK, "", f"{descriptors} descriptors, of which clients may have {for_clients}")


def of_disk(disk: Disk, low_bytes: int) -> Iterator[Check]:
    """low_bytes: below this, a member considers its disk nearly full."""
    if disk.error:
        yield Check("disk", Verdict.FAILED, disk.path, disk.error, "see who owns it, and how it is mounted")
        return
    if disk.free_bytes < low_bytes:
        said = f"{disk.free_bytes >> 20} MiB are free, and below {low_bytes >> 20} MiB it is nearly full"
        yield Check("disk", Verdict.FAILED, disk.path, said, "make room")
    else:
        yield Check("disk", Verdict.OK, disk.path, f"{disk.free_bytes >> 20} MiB are free")
    if not disk.syncs_ms:
        return
    half, most = quantile(disk.syncs_ms, 0.5), quantile(disk.syncs_ms, 0.99)
    said = f"a sync takes {half:.1f} ms, and {most:.1f} ms at most in 99 of 100"
    action = "every write waits for it: give dataLogDir a disk of its own"
    verdict = Verdict.FAILED if most > SYNC_MS_FAILED else Verdict.WARNING if most > SYNC_MS_WARNING else Verdict.OK
    yield Check("disk", verdict, disk.path, said, "" if verdict is Verdict.OK else action)


def quantile(values: Sequence[float], share: float) -> float:
    """The least of these values that is not below this share of them."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def of_certificates(days: Mapping[str, float | str]) -> Iterator[Check]:
    """days: how long the certificate in each store is valid, or why it cannot be read."""
    for path, left in days.items():
        if isinstance(left, str):
            yield Check("certificates", Verdict.FAILED, path, left, "see the file, and its password")
        elif left <= 0:
            yield Check("certificates", Verdict.FAILED, path, "it has ended", "make a new one with `zab certs`")
        elif left < DAYS_WARNING:
            said = f"it ends in {left:.0f} days"
            yield Check("certificates", Verdict.WARNING, path, said, "make a new one with `zab certs`")
        else:
            yield Check("certificates", Verdict.OK, path, f"it is good for {left:.0f} days")


def of_versions(versions: Mapping[str, str]) -> Iterator[Check]:
    """versions: by member."""
    if len(set(versions.values())) > 1:
        said = "; ".join(f"{member} runs {version}" for member, version in versions.items())
        yield Check("versions", Verdict.WARNING, "", said, "finish the upgrade")
    elif versions:
        yield Check("versions", Verdict.OK, "", f"all that answer run {next(iter(versions.values()))}")
    else:
        yield Check("versions", Verdict.SKIPPED, "", "no member that answers says its version")
