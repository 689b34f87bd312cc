"""`zab doctor FILE`: whether the member, broker or bookie that FILE describes could run here, and with the others.

Exit codes: 0 every check passed or was skipped; 1 a check failed; 2 wrong usage.
"""

import os
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import trio
import typer
from attrs import define

from zab.cli.commands import BOOKIE_DOCTOR
from zab.cli.exits import REFUSED
from zab.cli.json_form import JsonOption, json_line
from zab.cli.operations import broker_doctor
from zab.cli.operations.options import AdminOption, admin_ports
from zab.cli.terminal import in_line, say
from zab.cli.znodes.caller import options_of
from zab.configuration.properties import PropertiesError, parse_properties
from zab.host.process.descriptors import for_clients
from zab.operations import probes
from zab.operations.admin_client import AdminError, AdminPort
from zab.operations.asking import in_thread, skew_of
from zab.operations.verdicts import checks
from zab.operations.verdicts.checks import Check, Port, Verdict, View
from zab.server.config_check import Checked, check
from zab.tls.stores import StoreError, read_password

__all__ = ["doctor_command"]

BOOKIE_KEYS: Final = frozenset(
    {
        *("bookiePort", "bookieId", "journalDirectory", "journalDirectories", "ledgerDirectories"),
        *("metadataServiceUri", "zkServers", "zkLedgersRootPath"),
    }
)
"""A file with one of these is that of a bookie."""
_LAG_SUFFIX: Final = "_learner_lag"


@define
class _Told:
    """The answers of one member's admin port."""

    view: View
    skew_seconds: float | None = None
    version: str | None = None


def doctor_command(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="The zoo.cfg of the member here, a broker's server.properties, or a bookie's bk_server.conf.",
            show_default=False,
        ),
    ],
    admin: AdminOption = None,
    syncs: Annotated[
        int,
        typer.Option(
            "--syncs", metavar="N", min=0, max=10_000, help="How much to write to measure the disk; 0 skips this."
        ),
    ] = probes.SYNCS,
    json: JsonOption = False,
) -> None:
    """Run it where the member runs, as the user that runs it. Each port and each name has the time of `zab --wait`.
    Exit code 1: something is not well.
    """
    options = options_of(context)
    ports = admin_ports(admin, options)
    seconds = options.wait_ms / 1000
    if _keys(file) & BOOKIE_KEYS:
        work = partial(BOOKIE_DOCTOR.load(), file, seconds, syncs)
    elif broker_doctor.is_of_broker(file):
        work = partial(broker_doctor.examine, file, seconds, syncs)
    else:
        work = partial(_examine, check(file), ports, seconds, syncs)
    found = trio.run(work, restrict_keyboard_interrupt_to_checkpoints=True)
    for each in found:
        say(json_line(_fields(each)) if json else _line(each))
    if not all(each.is_well for each in found):
        raise typer.Exit(REFUSED)


def _keys(file: str) -> set[str]:
    """None for a file that cannot be read."""
    try:
        return {entry.key for entry in parse_properties(Path(file).read_text(encoding="utf-8"))}
    except (OSError, UnicodeDecodeError, PropertiesError):
        return set()


def _fields(found: Check) -> dict[str, Any]:
    return {
        "name": found.name,
        "verdict": found.verdict.value,
        "subject": found.subject or None,
        "said": found.said,
        "action": found.action or None,
    }


def _line(found: Check) -> str:
    subject = f"{found.subject}: " if found.subject else ""
    action = f"; {found.action}" if found.action else ""
    return f"{found.verdict.value:<8} {found.name:<13} {in_line(subject + found.said)}{action}"


async def _examine(checked: Checked, ports: list[AdminPort], seconds: float, syncs: int) -> list[Check]:
    faults, warnings = [str(each) for each in checked.faults], [str(each) for each in checked.warnings]
    found = list(checks.of_configuration(faults, warnings))
    if checked.config is None:
        said = "the configuration cannot be read, so nothing else was looked at"
        return [*found, Check("members", Verdict.SKIPPED, "", said)]
    names, dialled, told = await _look_around(checked, ports, seconds)
    config = checked.config
    own = config.server_id
    found += checks.of_names(own, names)
    found += checks.of_ports(dialled)
    if not config.is_standalone:
        found += checks.of_views([each.view for each in told], config.ensemble.servers)
    told = [each for each in told if each.view.member is not None]
    skews = {f"server.{each.view.member}": each.skew_seconds for each in told}
    found += checks.of_clocks({name: skew for name, skew in skews.items() if skew is not None})
    limit = probes.descriptors()
    found += checks.of_limits(limit, for_clients(limit), config.limits.max_connections)
    found += await trio.to_thread.run_sync(_disks, checked, syncs)
    found += checks.of_certificates(_certificates(checked))
    versions = {f"server.{each.view.member}": each.version for each in told}
    found += checks.of_versions({name: version for name, version in versions.items() if version is not None})
    return found


async def _look_around(
    checked: Checked, ports: list[AdminPort], seconds: float
) -> tuple[dict[tuple[int, str], Collection[str] | str], list[Port], list[_Told]]:
    """Look up names, dial the ports of the others, and ask members, all at once."""
    assert checked.config is not None
    config = checked.config
    names: dict[tuple[int, str], Collection[str] | str] = {}
    dialled: dict[tuple[int, str, int], Port] = {}
    told: dict[int, _Told] = {}

    async def look_up(sid: int, host: str) -> None:
        names[sid, host] = await probes.addresses_of(host, seconds)

    async def dial(sid: int, kind: str, at: int, host: str, port: int) -> None:
        dialled[sid, kind, at] = await probes.dial(sid, kind, host, port, seconds)

    async def ask(at: int, port: AdminPort) -> None:
        told[at] = _Told(View(None, None, error=f"{port}: it does not answer in time"))
        with trio.move_on_after(seconds):
            told[at] = await _ask(port, seconds)

    async with trio.open_nursery() as nursery:
        for sid, line in config.ensemble.servers.items():
            for host in line.hosts:
                nursery.start_soon(look_up, sid, host)
            if sid != config.server_id and not config.is_standalone:
                for at, address in enumerate(line.addresses):
                    nursery.start_soon(dial, sid, "election", at, address.host, address.election_port)
                    nursery.start_soon(dial, sid, "quorum", at, address.host, address.quorum_port)
        for at, port in enumerate(ports):
            nursery.start_soon(ask, at, port)
    return names, [dialled[key] for key in sorted(dialled)], [told[at] for at in sorted(told)]


async def _ask(port: AdminPort, seconds: float) -> _Told:
    try:
        monitor = (await in_thread(partial(port.tell, "monitor", seconds))).value
        state, skew = await skew_of(port, seconds)
    except AdminError as error:
        return _Told(View(None, None, error=str(error)))
    sid = state.get("myid")
    if not isinstance(sid, int):
        return _Told(View(None, None, error=f"{port}: it is no member of an ensemble"), skew)
    try:
        leader = (await in_thread(partial(port.tell, "leader", seconds))).value.get("leader_id")
    except AdminError:
        leader = None
    learners = [
        name.removeprefix("learner_lag_").removesuffix(_LAG_SUFFIX) for name in monitor if "learner_lag" in name
    ]
    view = View(
        sid, leader if isinstance(leader, int) else None, frozenset(int(each) for each in learners if each.isdigit())
    )
    return _Told(view, skew, str(monitor.get("version")).partition(",")[0])


def _disks(checked: Checked, syncs: int) -> Iterator[Check]:
    assert checked.config is not None
    config = checked.config
    found: list[Check] = []
    for path in dict.fromkeys((config.storage.data_log_dir, config.storage.data_dir)):
        if not os.path.isdir(path):
            found.append(Check("disk", Verdict.SKIPPED, path, "there is no such directory yet"))
            continue
        count = syncs if path == config.storage.data_log_dir else min(syncs, 1)
        disk = probes.measured(path, syncs=count)
        found += checks.of_disk(disk if count > 1 else _without_syncs(disk), config.storage.disk_low_bytes)
    return iter(found)


def _without_syncs(disk: checks.Disk) -> checks.Disk:
    return checks.Disk(disk.path, (), disk.free_bytes, disk.error)


def _certificates(checked: Checked) -> dict[str, float | str]:
    assert checked.config is not None
    config = checked.config
    stores = (
        (
            config.client_tls.key_store,
            config.client_tls.key_store_type,
            config.client_tls.key_store_password,
            config.client_tls.key_store_password_path,
        ),
        (
            config.quorum_tls.key_store,
            config.quorum_tls.key_store_type,
            config.quorum_tls.key_store_password,
            config.quorum_tls.key_store_password_path,
        ),
    )
    found: dict[str, float | str] = {}
    for path, kind, password, password_path in stores:
        if path is None:
            continue
        try:
            if password_path is not None:
                password = read_password(password_path, "the password file")
            found[path] = probes.days_of(path, kind, password)
        except StoreError as error:
            found[path] = str(error)
    return found
