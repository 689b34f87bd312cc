"""`zab service install FILE`: writes a systemd unit for a member, made from its configuration.

    zab service install FILE            writes /etc/systemd/system/zab.service
    zab service install --print FILE    prints it, and writes nothing

The unit restricts writes of the member to the directories that FILE names. A unit written by this command before is
replaced; any other file of that name is left alone. Nothing is started. If the unit is written where systemd of this
machine finds it, its user must exist here, and the last line says how to start it; a unit that is printed, or written
elsewhere, may be for another machine. Missing directories are reported: without them the unit does not start.

Exit codes: 0; 1 it cannot be written, and the reason; 2 wrong usage, or FILE is no configuration of a member.
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from zab.cli.exits import fail
from zab.cli.terminal import say
from zab.member.settings.config import Config
from zab.member.settings.zoo_cfg import good
from zab.server.config_file import load_all

__all__ = ["service_app"]

MARK = "# Written by `zab service install`; it replaces this file when it is run again."
WATCHDOG_SECONDS = 30
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_SERVED_ELSEWHERE = ("/tmp", "/var/tmp")
"""Directories that a service with a private one does not see."""
_UNITS = Path("/etc/systemd/system")
_SYSTEMD = (_UNITS, Path("/run/systemd/system"), Path("/usr/local/lib/systemd/system"))
"""Where systemd looks for units of administrators."""

service_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@service_app.callback()
def _service() -> None:
    """A member as a service of this machine."""


@service_app.command("install")
def install_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The zoo.cfg of the member.", show_default=False)],
    user: Annotated[
        str, typer.Option("--user", metavar="USER", help="The user that runs it and owns its directories.")
    ] = "zab",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the unit.")] = "zab",
    directory: Annotated[
        Path, typer.Option("--directory", metavar="DIR", help="The directory of units.", file_okay=False)
    ] = _UNITS,
    python: Annotated[
        Path | None,
        typer.Option("--python", metavar="PATH", help="The Python that runs it; by default, this one.", dir_okay=False),
    ] = None,
    prints: Annotated[bool, typer.Option("--print", help="Print the unit; write nothing.")] = False,
) -> None:
    """The unit restarts a member that fails, and one whose loop stands still; it is started when it serves clients."""
    if not _USER.fullmatch(user):
        raise typer.BadParameter(f"{user!r} is no name of a user", param_hint="--user")
    if not _NAME.fullmatch(name):
        raise typer.BadParameter(f"{name!r} is no name of a unit", param_hint="--name")
    file = file.absolute()
    config = _configuration(file)
    try:
        unit = unit_of(config, file, user, python or Path(sys.executable))
    except ValueError as error:
        fail(error, 2)
    if prints:
        say(unit.removesuffix("\n"))
        return
    is_here = directory.resolve() in _SYSTEMD
    if not _is_user(user):
        if is_here:
            fail(
                f"this machine has no user {user}: `useradd --system {user}` makes one, who has to own the directories "
                "of the member; for another machine, --print or --directory",
                2,
            )
        say(f"zab: this machine has no user {user}; the machine that the unit is for needs one", sys.stderr)
    path = directory / f"{name}.service"
    try:
        _put(path, unit)
    except OSError as error:
        fail(f"{path}: {error.strerror or error}", 1)
    for key, missing in _missing(config).items():
        reason = f"{key}: {missing} is not there, and without it the unit does not start"
        say(f"zab: {reason}: install -d -m 700 -o {user} {shlex.quote(missing)}", sys.stderr)
    start = f"start it: systemctl daemon-reload && systemctl enable --now {name}"
    say(f"{path} is written; {start if is_here else f'its place on its machine is {_UNITS}'}")


def _configuration(file: Path) -> Config:
    """Read a configuration; ends the command with all its errors."""
    reading = load_all(str(file))
    faults = sorted(reading.faults, key=lambda fault: (fault.file != str(file), fault.line or sys.maxsize))
    for each in faults[:-1]:
        say(f"zab: {each}", sys.stderr)
    if faults:
        fail(faults[-1], 2)
    return good(reading)


def _missing(config: Config) -> dict[str, str]:
    return {key: path for key, path in _directories(config).items() if not os.path.isdir(path)}


def _directories(config: Config) -> dict[str, str]:
    """The directories in which a member writes, by key; each once."""
    named = {"dataDir": config.storage.data_dir, "dataLogDir": config.storage.data_log_dir}
    named |= {key: os.path.dirname(path) for key, path in _files(config).items()}
    return {key: path for at, (key, path) in enumerate(named.items()) if path not in list(named.values())[:at]}


def _files(config: Config) -> dict[str, str]:
    files = {"log.file": config.journal.file} if config.journal.file is not None else {}
    return files | ({"audit.file": config.audit_file} if config.audit.enabled else {})


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def unit_of(config: Config, file: Path, user: str, python: Path) -> str:
    """The text of the unit. Raises ValueError for a path that is not absolute, or cannot be written in a unit."""
    files = _files(config)
    for key, path in {"dataDir": config.storage.data_dir, "dataLogDir": config.storage.data_log_dir, **files}.items():
        if not path.startswith("/"):
            raise ValueError(f"{file}: {key}={path} is no absolute path: a service has no directory that it begins in")
    in_force = [str(file.parent)] if config.membership.reconfig_enabled else []
    written = dict.fromkeys([*_directories(config).values(), *in_force])
    everywhere = [*written, str(file), str(python)]
    hides_tmp = not any(path.startswith(f"{each}/") for path in everywhere for each in _SERVED_ELSEWHERE)
    low = any(0 < port < 1024 for port in _ports(config))
    reload = ["ExecReload=/bin/kill -HUP $MAINPID"] if config.journal.file is not None else []
    lines = [
        MARK,
        "[Unit]",
        f"Description=zab, {'standalone' if config.is_standalone else f'server {config.server_id}'}",
        "Wants=network-online.target",
        "After=network-online.target",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "# It is started when it serves clients, which may take until a quorum is there.",
        "Type=notify",
        "NotifyAccess=main",
        "TimeoutStartSec=infinity",
        f"ExecStart={_word(str(python), in_command=True)} -m zab.server {_word(str(file), in_command=True)}",
        *reload,
        f"User={user}",
        "UMask=0077",
        "# A loop that stands still is restarted.",
        f"WatchdogSec={WATCHDOG_SECONDS}",
        "Restart=on-failure",
        "RestartSec=2",
        "# 2, the configuration, and 3, the data directory: trying again helps nothing.",
        "RestartPreventExitStatus=2 3",
        "TimeoutStopSec=30",
        "LimitNOFILE=65536",
        "",
        "# It reads what is there, and writes its own directories alone.",
        "ProtectSystem=strict",
        "ProtectHome=read-only",
        f"ReadWritePaths={' '.join(map(_word, written))}",
        f"PrivateTmp={'yes' if hides_tmp else 'no'}",
        "PrivateDevices=yes",
        "NoNewPrivileges=yes",
        f"CapabilityBoundingSet={'CAP_NET_BIND_SERVICE' if low else ''}",
        f"AmbientCapabilities={'CAP_NET_BIND_SERVICE' if low else ''}",
        "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
        "RestrictNamespaces=yes",
        "RestrictRealtime=yes",
        "RestrictSUIDSGID=yes",
        "LockPersonality=yes",
        "ProtectClock=yes",
        "ProtectControlGroups=yes",
        "ProtectHostname=yes",
        "ProtectKernelLogs=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelTunables=yes",
        "RemoveIPC=yes",
        "SystemCallArchitectures=native",
        "SystemCallFilter=@system-service",
        "SystemCallFilter=~@privileged @resources",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _ports(config: Config) -> list[int]:
    ports = [address[1] for address in (config.client_address, config.secure_client_address) if address is not None]
    if config.own_line is not None:
        ports += [port for each in config.own_line.addresses for port in (each.quorum_port, each.election_port)]
    ports += [config.admin.port] if config.admin.enabled else []
    return ports + ([config.metrics.port] if config.commands.exports_metrics else [])


def _word(text: str, *, in_command: bool = False) -> str:
    """A word of a unit, quoted. Raises ValueError for control characters."""
    if not text.isprintable():
        raise ValueError(f"{text!r} cannot be written in a unit: it has control characters")
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return '"{}"'.format(text.replace("$", "$$") if in_command else text)


def _put(path: Path, unit: str) -> None:
    """Write the unit; it may only replace one that this command wrote. Raises OSError."""
    if path.is_symlink() or path.exists():
        is_ours = not path.is_symlink() and path.read_bytes().startswith(MARK.encode())
        if not is_ours:
            raise OSError(
                0, "it was not written by `zab service install`, and is left alone: move it away, or use --name"
            )
    aside = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "w") as out:
            out.write(unit)
            out.flush()
            os.fsync(out.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
