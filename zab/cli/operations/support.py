"""`zab support`: packs what a helper needs to know into one file, without secrets.

    status.json             zab status, with the figures of each member that answers
    admin/<member>/…        the answers of each admin port about the member, its figures, and the others; missing.txt:
                            missing answers, and why
    configuration/…         each zoo.cfg and its dynamic file; only values of keys without secrets
    check/…                 zab server --check --json of each zoo.cfg
    logs/…                  the end of each journal named by log.file, with its older files; and of those given by --log
    brokers/…               of each server.properties of a broker: see `broker_support`
    about.json              versions and times

All text goes through `zab.operations.verdicts.redaction`, which knows the contents of the files of secrets, users and
passwords. The command asks for no data and no path of a znode. The audit log, which has paths, is only included with
--audit.

Missing parts are reported on standard error, once for each server and file.

Exit codes: 0 it is written and complete; 1 something is missing, or it cannot be written; 2 wrong usage.
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
from typing import Annotated, Any, Final

import attrs
import trio
import typer
from attrs import define, field

from zab.cli.exits import USAGE, fail
from zab.cli.json_form import JsonOption, json_line, time_text
from zab.cli.operations import broker_support
from zab.cli.operations.broker_doctor import is_of_broker
from zab.cli.operations.broker_support import BrokerParts
from zab.cli.operations.options import AdminOption, admin_ports
from zab.cli.operations.secret_texts import (
    CONFIGURATION_BYTES_MAX,
    PLAIN,
    SECRET_WORD,
    of_jaas,
    of_password_file,
    text_of,
)
from zab.cli.operations.status import lines_of
from zab.cli.terminal import count_of, say
from zab.cli.znodes.caller import options_of
from zab.cli.znodes.opening import opener, tls_of
from zab.client.four_letter import servers_of
from zab.configuration.properties import PropertiesError, parse_properties
from zab.operations.admin_client import AdminError, AdminPort
from zab.operations.asking import ask_all, ensemble_in_force, in_thread, targets_of
from zab.operations.verdicts.redaction import Redactor, redacted_configuration
from zab.operations.verdicts.status import status_of
from zab.server.config_check import SUPER_DIGEST, Checked, check, known_keys, public_keys, secret_keys

__all__ = ["support_command"]

COMMANDS: Final = (
    *("monitor", "server_stats", "configuration", "zabstate", "leader", "voting_view", "observers", "last_snapshot"),
    *("hash", "dirs", "environment", "initial_configuration"),
)
"""The commands sent to an admin port: none of them names a znode or a client."""
_NAME: Final = re.compile(r"[^A-Za-z0-9.-]+")
_TIMED_OUT: Final = "it does not answer in time"
_JOURNAL_ELSEWHERE: Final = "its journal is where its standard error goes, and not in this: --log FILE adds it"


@define
class _Found:
    """texts, and values for JSON, by name of the file. missing: why something is missing, by server or file."""

    texts: dict[str, str] = field(factory=dict)
    values: dict[str, Any] = field(factory=dict)
    missing: dict[str, list[str]] = field(factory=dict)

    def miss(self, name: str, reason: str) -> None:
        reasons = self.missing.setdefault(name, [])
        if reason not in reasons:
            reasons.append(reason)

    def add(self, parts: BrokerParts) -> None:
        """What a broker has."""
        self.texts |= parts.texts
        self.values |= parts.values
        for name, reason in parts.missing:
            self.miss(name, reason)

    def text_of(self, path: str, bytes_max: int, *, from_end: bool = False) -> str:
        """The text of a file; empty, with a note why, if it cannot be read. From the end, it begins with a whole
        line."""
        try:
            return _text_of(path, bytes_max, from_end=from_end)
        except OSError as error:
            reason = f"it cannot be read: {error.strerror or error}"
            self.miss(path, reason)
            return f"# {reason}\n"

    def without(self, redactor: Redactor) -> dict[str, str]:
        """All files to be written, without secrets. A list has a line for each of its objects."""
        written = {name: redactor.of(text) for name, text in self.texts.items()}
        for name, value in self.values.items():
            safe = redactor.of_value(value)
            lines = map(json_line, safe) if isinstance(safe, list) else [json.dumps(safe, indent=1)]
            written[name] = "".join(f"{line}\n" for line in lines)
        return written


def support_command(
    context: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE...",
            help="The zoo.cfg of members here, and the server.properties of brokers.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        Path, typer.Option("--to", metavar="FILE", help="The file to write; it must not exist.", dir_okay=False)
    ] = Path("zab-support.tar.gz"),
    admin: AdminOption = None,
    log: Annotated[
        list[str] | None,
        typer.Option(
            "--log", metavar="FILE", help="A journal that no log.file names. May be repeated.", show_default=False
        ),
    ] = None,
    log_bytes: Annotated[
        int,
        typer.Option("--log-bytes", metavar="N", min=0, help="The maximum to take from the end of each journal file."),
    ] = 4 << 20,
    audit: Annotated[
        bool, typer.Option("--audit", help="Include the audit log, which names znodes and users.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Asks the servers of -s and the admin ports, reads the configuration and the journals of the FILEs, and packs what
    it gets. Look into it before you send it.
    """
    if to.exists():
        fail(f"{to} is there already: name another file with --to", USAGE)
    options = options_of(context)
    admins = admin_ports(admin, options)
    found = _Found()
    of_brokers = [file for file in files or () if is_of_broker(file)]
    checked = {file: check(file) for file in files or () if file not in of_brokers}
    redactor = _redactor(options.auth, checked, of_brokers)
    try:
        servers, tls, open_client = servers_of(options.hosts), tls_of(options), opener(options)
    except ValueError as error:
        fail(error, USAGE)
    seconds = options.wait_ms / 1000

    async def ask() -> None:
        ensemble = await ensemble_in_force(open_client, seconds)
        targets = await targets_of(servers, ensemble, admins, seconds, with_tls=tls is not None)
        answers = await ask_all(targets, tls, seconds)
        found.values["status.json"] = [*lines_of(status_of(answers, ensemble)), *map(attrs.asdict, answers)]
        for each in answers:
            if not each.is_reached and each.server not in map(str, admins):
                found.miss(each.server, each.error)
        async with trio.open_nursery() as nursery:
            for port in admins:
                nursery.start_soon(_ask_admin, port, seconds, found)
        await _of_brokers(of_brokers, seconds, found, has_logs=bool(log))

    trio.run(ask, restrict_keyboard_interrupt_to_checkpoints=True)
    _of_members(checked, log_bytes, found, with_audit=audit, has_logs=bool(log))
    _of_logs(log or [], log_bytes, found)
    found.values["about.json"] = _about()
    written = found.without(redactor)
    try:
        size = _write(to, written)
    except OSError as error:
        fail(f"{to}: {error.strerror or error}")
    _report(to, size, sorted(written), found.missing, as_json=as_json)


def _redactor(identities: Iterable[str], checked: dict[str, Checked], of_brokers: list[str]) -> Redactor:
    """It knows the secrets of the caller, of members and of brokers."""
    theirs = [secret for file in of_brokers for secret in broker_support.secrets_of(file)]
    return Redactor(
        [*_passwords(identities), *_secrets(checked), *theirs],
        [*_names(checked), *broker_support.names_of(of_brokers)],
    )


def _of_logs(paths: list[str], bytes_max: int, found: _Found) -> None:
    for number, path in enumerate(paths, 1):
        name = f"logs/given-{number}-{_safe(os.path.basename(path))}"
        found.texts[name] = found.text_of(path, bytes_max, from_end=True)


def _about() -> dict[str, Any]:
    about = {"zab": version("zab"), "python": sys.version, "machine": platform.platform()}
    return {**about, "time": time_text(time.time_ns() // 1_000_000)}


async def _of_brokers(files: list[str], seconds: float, found: _Found, *, has_logs: bool) -> None:
    for number, file in enumerate(files, 1):
        name = f"broker-{number}-{_safe(Path(file).name)}"
        found.add(await broker_support.parts_of(str(number), name, file, seconds))
        if not has_logs:
            say(f"zab: {file}: {_JOURNAL_ELSEWHERE}", sys.stderr)


def _of_members(
    checked: dict[str, Checked], log_bytes: int, found: _Found, *, with_audit: bool, has_logs: bool
) -> None:
    for number, (file, each) in enumerate(checked.items(), 1):
        _of_configuration(f"{number}-{_safe(Path(file).name)}", file, each, found)
        _of_journals(str(number), each, log_bytes, found, with_audit=with_audit)
        if not has_logs and each.config is not None and each.config.journal.file is None:
            say(f"zab: {file} names no log.file: {_JOURNAL_ELSEWHERE}", sys.stderr)


def _report(to: Path, size: int, names: list[str], missing: dict[str, list[str]], *, as_json: bool) -> None:
    """Report what is written and what is missing; ends the command with 1 if something is missing."""
    reasons = [(name, reason) for name, reasons in sorted(missing.items()) for reason in reasons]
    if as_json:
        not_had = [{"name": name, "reason": reason} for name, reason in reasons]
        say(json_line({"path": str(to), "bytes": size, "files": names, "missing": not_had}))
    else:
        say(f"{to}: {count_of(len(names), 'file')}, {size} bytes; look into it before you send it", flush=True)
    for name, reason in reasons:
        say(f"zab: {name}: {reason}", sys.stderr)
    if reasons:
        fail(f"{to} is not whole: what is said above is not in it")


async def _ask_admin(port: AdminPort, seconds: float, found: _Found) -> None:
    """Send all commands, one after the other, until the port cannot be reached."""
    name = f"admin/{_safe(str(port))}"
    refused: dict[str, list[str]] = {}
    for command in COMMANDS:
        reason, is_there = _TIMED_OUT, True
        with trio.move_on_after(seconds):
            try:
                told = await in_thread(partial(port.said, command, seconds))
                found.values[f"{name}/{command}.json"] = told.value
                continue
            except AdminError as error:
                reason = str(error).removeprefix(f"{port}: ").removeprefix(f"{command}: ")
                is_there = bool(error.status) or error.is_open
        refused.setdefault(reason, []).append(command)
        if not is_there:
            break
    for reason, commands in refused.items():
        answered = any(each.startswith(f"{name}/") for each in found.values)
        found.miss(str(port), f"{', '.join(commands)}: {reason}" if answered else reason)
    if refused:
        reasons = found.missing[str(port)]
        found.texts[f"{name}/missing.txt"] = "".join(f"{reason}\n" for reason in reasons)


def _passwords(identities: Iterable[str]) -> Iterator[str]:
    """The password after the name, which is public; for other schemes, the credentials."""
    for each in identities:
        _, _, credentials = each.partition(":")
        name, colon, password = credentials.partition(":")
        yield password if colon else name


def _entries(text: str) -> list[tuple[str, str]]:
    """Keys and values; of an invalid configuration, those that its lines show."""
    try:
        return [(entry.key, entry.value) for entry in parse_properties(text)]
    except PropertiesError:
        parts = (line.partition("=") for line in text.splitlines())
        return [(key.strip(), value.strip()) for key, equals, value in parts if equals]


def _names(checked: dict[str, Checked]) -> Iterator[str]:
    """All known keys, and those in the files."""
    found = set(known_keys())
    for file in checked:
        found |= {key for key, _ in _entries(_quietly(file))}
    for each in found:
        yield from (each, f"zookeeper.{each}")


def _secrets(checked: dict[str, Checked]) -> Iterator[str]:
    """The secrets that this user can read: values of secret keys, and contents of secret files."""
    is_public, is_secret = public_keys(), secret_keys()
    for file, each in checked.items():
        for key, value in _entries(_quietly(file)):
            if key.endswith(SUPER_DIGEST):
                yield value.partition(":")[2]
            elif is_secret(key) or not (is_public(key) or PLAIN.fullmatch(value)):
                yield value
        config = each.config
        if config is None:
            continue
        if config.quorum.secret_file is not None:
            yield from SECRET_WORD.findall(_quietly(config.quorum.secret_file))
        if config.login.users_file is not None:
            for line in _quietly(config.login.users_file).splitlines():
                yield from {line.partition(":")[2].strip(), line.rpartition(":")[2].strip()}
        if config.login.jaas_file is not None:
            yield from of_jaas(_quietly(config.login.jaas_file))
        for path in (
            *(config.client_tls.key_store_password_path, config.client_tls.trust_store_password_path),
            *(config.quorum_tls.key_store_password_path, config.quorum_tls.trust_store_password_path),
        ):
            if path is not None:
                yield from of_password_file(_quietly(path))


def _of_configuration(name: str, file: str, checked: Checked, found: _Found) -> None:
    is_public = public_keys()
    text = found.text_of(file, CONFIGURATION_BYTES_MAX)
    found.texts[f"configuration/{name}"] = redacted_configuration(text, is_public)
    found.values[f"check/{name}.json"] = list(checked.lines(file))
    config = checked.config
    if config is not None and config.membership.dynamic_config_file is not None:
        text = found.text_of(config.membership.dynamic_config_file, CONFIGURATION_BYTES_MAX)
        found.texts[f"configuration/{name}.dynamic"] = redacted_configuration(text, is_public)


def _of_journals(name: str, checked: Checked, bytes_max: int, found: _Found, *, with_audit: bool) -> None:
    config = checked.config
    if config is None:
        return
    named = [(config.journal.file, config.journal.files_count)]
    if with_audit and config.audit.enabled:
        named.append((config.audit_file, config.audit.files_count))
    for path, count in named:
        if path is None:
            continue
        for each in (path, *(f"{path}.{number}" for number in range(1, count))):
            if os.path.isfile(each) or (each == path and not os.path.exists(each)):
                text = found.text_of(each, bytes_max, from_end=True)
                found.texts[f"logs/{name}-{_safe(os.path.basename(each))}"] = text


def _quietly(path: str) -> str:
    """The text of a file; empty if it cannot be read."""
    try:
        return text_of(path)
    except OSError:
        return ""


def _text_of(path: str, bytes_max: int, *, from_end: bool = False) -> str:
    """The text of a file. From the end, it begins with a whole line. Raises OSError."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        cut = from_end and size > bytes_max
        file.seek(size - bytes_max if cut else 0)
        data = file.read(bytes_max)
    text = data.decode("utf-8", "replace")
    return text.partition("\n")[2] if cut else text


def _safe(name: str) -> str:
    return _NAME.sub("_", name)


def _write(to: Path, texts: dict[str, str]) -> int:
    """Write the bundle to a private temporary file, and rename it when it is complete. Returns its size in bytes."""
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
