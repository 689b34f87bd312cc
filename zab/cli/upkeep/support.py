"""`zab support`: what somebody who helps needs to know, in one file, without what he must not know.

    status.json             zab status, with the figures of each member that answers
    admin/<member>/…        of each admin port: what it says of itself, of its figures, of the others
    configuration/…         each zoo.cfg and the dynamic file that it names; values of keys that hold no secret
    check/…                 zab server --check of each
    logs/…                  the end of each journal that log.file names, with its older files; and of those of --log
    about.json              versions and times

All text goes through `zab.upkeep.redaction`; what the files of secrets, users and passwords hold is known to it. No
data and no path of a znode is asked for. The audit log, which has some, is in it with --audit.

Exit codes: 0 it is written, with what could be had; 1 it cannot be written; 2 wrong usage.
"""

import io
import json
import os
import platform
import re
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final

import attrs
import trio
import typer

from zab.cli.exits import USAGE, fail
from zab.cli.json_form import JsonOption, json_line, time_text
from zab.cli.terminal import count_of, say
from zab.cli.upkeep.admin_client import AdminError, AdminPort
from zab.cli.upkeep.asking import ask_all, ensemble_in_force, in_thread, targets_of
from zab.cli.upkeep.options import AdminOption, admin_ports
from zab.cli.upkeep.status import lines_of
from zab.cli.znodes.caller import options_of
from zab.cli.znodes.opening import opener, tls_of
from zab.client.words import servers_of
from zab.server.config_check import Checked, check, public_keys
from zab.upkeep.redaction import Redactor, redacted_configuration
from zab.upkeep.status import status_of

__all__ = ["support_command"]

COMMANDS: Final = (
    *("monitor", "server_stats", "configuration", "zabstate", "leader", "voting_view", "observers", "last_snapshot"),
    *("hash", "dirs", "environment", "initial_configuration"),
)
"""Of an admin port: none of them names a znode or a client."""
SECRET_FILE_BYTES_MAX: Final = 64 << 10
_NAME: Final = re.compile(r"[^A-Za-z0-9.-]+")
_WORD: Final = re.compile(r"[^\s\"';:=,{}]+")


def support_command(
    context: typer.Context,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE...", help="The zoo.cfg of members here.", show_default=False)
    ] = None,
    to: Annotated[
        Path, typer.Option("--to", metavar="FILE", help="The file to write; it must not exist.", dir_okay=False)
    ] = Path("zab-support.tar.gz"),
    admin: AdminOption = None,
    log: Annotated[
        list[str] | None,
        typer.Option(
            "--log",
            metavar="FILE",
            help="A journal that no log.file names; once for each.",
            show_default=False,
        ),
    ] = None,
    log_bytes: Annotated[
        int, typer.Option("--log-bytes", metavar="N", min=0, help="At most, of the end of each journal file.")
    ] = 4 << 20,
    audit: Annotated[bool, typer.Option("--audit", help="With the audit log, which names znodes and users.")] = False,
    json: JsonOption = False,
) -> None:
    """Asks the servers of -s and the admin ports, reads the configuration and the journals of the FILEs, and packs what
    it gets. Look into it before you send it.
    """
    if to.exists():
        fail(f"{to} is there already: name another file with --to", USAGE)
    options = options_of(context)
    admins = admin_ports(admin, options)
    found: dict[str, str] = {}
    checked = {file: check(file) for file in files or ()}
    redactor = Redactor([*_parts(options.auth), *_secrets(checked)])
    try:
        servers, tls, open_client = servers_of(options.hosts), tls_of(options), opener(options)
    except ValueError as error:
        fail(error, USAGE)
    seconds = options.wait_ms / 1000

    async def ask() -> None:
        ensemble = await ensemble_in_force(open_client, seconds)
        targets = await targets_of(servers, ensemble, admins, seconds, with_tls=tls is not None)
        answers = await ask_all(targets, tls, seconds)
        lines = [*lines_of(status_of(answers, ensemble)), *map(attrs.asdict, answers)]
        found["status.json"] = "".join(f"{json_line(each)}\n" for each in lines)
        async with trio.open_nursery() as nursery:
            for port in admins:
                nursery.start_soon(_ask_admin, port, seconds, found)

    trio.run(ask, restrict_keyboard_interrupt_to_checkpoints=True)
    for number, (file, each) in enumerate(checked.items(), 1):
        found |= _of_configuration(f"{number}-{_safe(Path(file).name)}", file, each)
        found |= _of_journals(str(number), each, log_bytes, with_audit=audit)
        if not log and each.config is not None and each.config.log_file is None:
            reason = "its journal is where its standard error goes, and not in this: --log FILE adds it"
            say(f"zab: {file} names no log.file: {reason}", sys.stderr)
    for number, path in enumerate(log or (), 1):
        found[f"logs/given-{number}-{_safe(os.path.basename(path))}"] = _text_of(path, log_bytes, from_end=True)
    about = {"zab": version("zab"), "python": sys.version, "machine": platform.platform()}
    found["about.json"] = json_line({**about, "time": time_text(time.time_ns() // 1_000_000)}) + "\n"
    try:
        size = _write(to, {name: redactor.of(text) for name, text in found.items()})
    except OSError as error:
        fail(f"{to}: {error.strerror or error}")
    if json:
        say(json_line({"path": str(to), "bytes": size, "files": sorted(found)}))
    else:
        say(f"{to}: {count_of(len(found), 'file')}, {size} bytes; look into it before you send it")


async def _ask_admin(port: AdminPort, seconds: float, found: dict[str, str]) -> None:
    for command in COMMANDS:
        name = f"admin/{_safe(str(port))}/{command}.json"
        found[name] = "it does not answer in time\n"
        with trio.move_on_after(seconds):
            try:
                told = await in_thread(partial(port.tell, command, seconds))
                found[name] = json.dumps(told.value, indent=1) + "\n"
            except AdminError as error:
                found[name] = f"{error}\n"


def _parts(identities: Iterable[str]) -> Iterator[str]:
    """The credentials, and the password in them."""
    for each in identities:
        yield each.partition(":")[2]
        yield each.rpartition(":")[2]


def _secrets(checked: dict[str, Checked]) -> Iterator[str]:
    """What must not be in it, as far as this user may read it: values of secret keys, and all words of the files that
    hold secrets."""
    for file, each in checked.items():
        text = _text_of(file, SECRET_FILE_BYTES_MAX)
        is_public = public_keys()
        for line in text.splitlines():
            key, equals, value = line.partition("=")
            if equals and not is_public(key.strip()):
                yield value.strip()
                yield from value.strip().split(":")
        config = each.config
        if config is None:
            continue
        paths = (
            *(config.quorum_secret_file, config.sasl_users_file, config.jaas_file),
            *(config.ssl_key_store_password_path, config.ssl_trust_store_password_path),
            *(config.ssl_quorum_key_store_password_path, config.ssl_quorum_trust_store_password_path),
        )
        for path in paths:
            if path is not None:
                yield from (word for word in _WORD.findall(_text_of(path, SECRET_FILE_BYTES_MAX)) if len(word) > 7)


def _of_configuration(name: str, file: str, checked: Checked) -> dict[str, str]:
    is_public = public_keys()
    found = {f"configuration/{name}": redacted_configuration(_text_of(file, SECRET_FILE_BYTES_MAX), is_public)}
    faults = [{"type": "error", "line": each.line, "reason": each.reason} for each in checked.faults]
    warnings = [{"type": "warning", **attrs.asdict(each)} for each in checked.warnings]
    found[f"check/{name}.json"] = "".join(f"{json_line(each)}\n" for each in (*faults, *warnings))
    config = checked.config
    if config is not None and config.dynamic_config_file is not None:
        text = _text_of(config.dynamic_config_file, SECRET_FILE_BYTES_MAX)
        found[f"configuration/{name}.dynamic"] = redacted_configuration(text, is_public)
    return found


def _of_journals(name: str, checked: Checked, bytes_max: int, *, with_audit: bool) -> dict[str, str]:
    config = checked.config
    found: dict[str, str] = {}
    if config is None:
        return found
    named = [(config.log_file, config.log_files_count)]
    if with_audit and config.audit_enabled:
        named.append((config.audit_file, config.audit_files_count))
    for path, count in named:
        if path is None:
            continue
        for each in (path, *(f"{path}.{number}" for number in range(1, count))):
            if os.path.isfile(each):
                found[f"logs/{name}-{_safe(os.path.basename(each))}"] = _text_of(each, bytes_max, from_end=True)
    return found


def _text_of(path: str, bytes_max: int, *, from_end: bool = False) -> str:
    """Empty, with a word why, where it cannot be read. From the end, it begins with a whole line."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            cut = from_end and size > bytes_max
            file.seek(size - bytes_max if cut else 0)
            data = file.read(bytes_max)
    except OSError as error:
        return f"# it cannot be read: {error.strerror}\n"
    text = data.decode("utf-8", "replace")
    return text.partition("\n")[2] if cut else text


def _safe(name: str) -> str:
    return _NAME.sub("_", name)


def _write(to: Path, texts: dict[str, str]) -> int:
    """Beside, for its owner alone, and renamed when it is whole. Its size in bytes."""
    aside = to.with_name(to.name + ".tmp")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz") as tar:
                for name, text in sorted(texts.items()):
                    data = text.encode("utf-8", "replace")
                    info = tarfile.TarInfo(f"zab-support/{name}")
                    info.size, info.mtime, info.mode = len(data), int(time.time()), 0o600
                    tar.addfile(info, io.BytesIO(data))
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, to)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    return to.stat().st_size
