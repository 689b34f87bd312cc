"""What `zab support` takes of a broker, by its `server.properties`: settings, logs, figures, and what is registered.

    configuration/…         the file; only values of keys without secrets
    check/…                 what a start would say of it
    brokers/N/directory.json
                            each partition in log.dirs: segments, bytes, offsets of the checkpoints, leader epochs
    brokers/N/registered.json
                            the brokers that are registered at zookeeper.connect, and partitions that are not well
    brokers/N/status.json, metrics.txt
                            what the port of http.port answers

Names of topics are in it; records are not. `parts_of` gives the files, and what is missing; `secrets_of` what has to be
removed from all texts.

Limits: CONFIGURATION_BYTES_MAX of a file (`secret_texts`); ANSWER_BYTES_MAX of an answer; PARTITIONS_MAX partitions of
a directory.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
from attrs import define, field

from zab.broker.configuration import StartRefusedError, hints, load
from zab.cli.operations.broker_doctor import registered_at
from zab.cli.operations.secret_texts import (
    PLAIN,
    SECRET_WORD,
    of_jaas,
    of_jaas_line,
    of_password_file,
    text_of,
)
from zab.cli.registered_brokers import broker_lines
from zab.configuration.fields import settings_of
from zab.configuration.properties import PropertiesError, parse_properties
from zab.operations.verdicts.brokers import alarms_of
from zab.operations.verdicts.redaction import redacted_configuration
from zab.partition.log.checkpoints import (
    CLEANED_ENDS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    CheckpointError,
    TopicPartition,
    parse_epochs,
    parse_meta_properties,
    parse_offsets,
)
from zab.partition.log.directory import CLEAN_SHUTDOWN
from zab.partition.log.paths import LEADER_EPOCHS, LOG
from zab.partition.settings.broker_config import IGNORED, REFUSED, BrokerConfig
from zab.partition.settings.topic_settings import twin_keys

__all__ = ["BrokerParts", "names_of", "parts_of", "public_keys", "secrets_of"]

ANSWER_BYTES_MAX: Final = 16 << 20
PARTITIONS_MAX: Final = 100_000
_PARTITION: Final = re.compile(r"([a-zA-Z0-9._-]+)-(\d{1,10})")
_CHECKPOINTS: Final = {
    "recovery_point": RECOVERY_POINTS,
    "log_start": LOG_STARTS,
    "high_watermark": HIGH_WATERMARKS,
    "cleaned_end": CLEANED_ENDS,
}
_MORE_KEYS: Final = frozenset({"log.dir", "log.retention.minutes", "log.retention.hours", "log.roll.hours"})
_SECRET_FILES: Final[Mapping[str, Callable[[str], Iterable[str]]]] = {
    ".passwordPath": of_password_file,
    ".secretFile": SECRET_WORD.findall,
    "java.security.auth.login.config": of_jaas,
}
"""Keys by how they end, and what is secret in the files that they name."""


@define
class BrokerParts:
    """Texts, and values for JSON, by the name of the file; and why something is missing, by what is missing."""

    texts: dict[str, str] = field(factory=dict)
    values: dict[str, Any] = field(factory=dict)
    missing: list[tuple[str, str]] = field(factory=list)


def public_keys() -> Callable[[str], bool]:
    """Says of each key of a broker whether its value may be shown: the key is known, and its value is no secret."""
    known = {each.key: each.is_secret for each in settings_of(BrokerConfig)}
    others = IGNORED.keys() | REFUSED.keys() | twin_keys().keys() | _MORE_KEYS
    return lambda key: not known[key] if key in known else key in others


def names_of(files: Iterable[str]) -> Iterator[str]:
    """All known keys of brokers, and those in the files."""
    yield from (each.key for each in settings_of(BrokerConfig))
    for file in files:
        yield from _entries(file)


def _entries(file: str) -> dict[str, str]:
    """The keys and values of a file; none if it cannot be read."""
    try:
        return {entry.key: entry.value for entry in parse_properties(text_of(file))}
    except (OSError, PropertiesError):
        return {}


async def parts_of(number: str, name: str, file: str, seconds: float) -> BrokerParts:
    """`number`: its directory below `brokers`. `name`: of its file. `seconds`: for what is asked."""
    found = BrokerParts()
    try:
        text = text_of(file)
    except OSError as error:
        found.missing.append((file, f"it cannot be read: {error.strerror or error}"))
        return found
    found.texts[f"configuration/{name}"] = redacted_configuration(text, public_keys())
    try:
        config = load(file)
    except StartRefusedError as error:
        found.values[f"check/{name}.json"] = [{"file": file, "is_good": False, "said": str(error)}]
        found.missing.append((file, "a start would end, so nothing else of this broker is in it"))
        return found
    found.values[f"check/{name}.json"] = [
        {"file": file, "is_good": True, "said": hint} for hint in (*hints(config), "its settings are good")
    ]
    at = f"brokers/{number}"
    directory = config.broker.log_directory
    try:
        found.values[f"{at}/directory.json"] = list(_directory(directory, found))
    except OSError as error:
        found.missing.append((directory, f"it cannot be read: {error.strerror or error}"))
    registered, _ = await registered_at(config, seconds)
    if isinstance(registered, str):
        found.missing.append((config.broker.servers, registered))
    else:
        alarms = [{"type": "alarm", **attrs.asdict(each)} for each in alarms_of(registered)]
        found.values[f"{at}/registered.json"] = [*broker_lines(registered), *alarms]
    if config.http.port:
        place = f"{config.http.host}:{config.http.port}"
        for path, kept in (("/status", "status.json"), ("/metrics", "metrics.txt")):
            try:
                found.texts[f"{at}/{kept}"] = _answer(config.http.host, config.http.port, path, seconds)
            except (OSError, http.client.HTTPException) as error:
                found.missing.append((place, f"{path}: {error}"))
    return found


def secrets_of(file: str) -> Iterator[str]:
    """The secrets that this user can read: values of keys that are not public, and contents of secret files."""
    is_public = public_keys()
    for key, value in _entries(file).items():
        of_file = next((of for name, of in _SECRET_FILES.items() if key.endswith(name)), None)
        if of_file is not None:
            with contextlib.suppress(OSError):
                yield from of_file(text_of(value))
        elif key.endswith(".sasl.jaas.config"):
            yield from of_jaas_line(value)
        elif not (is_public(key) or PLAIN.fullmatch(value)):
            yield value


def _directory(path: str, found: BrokerParts) -> Iterator[dict[str, Any]]:
    """A line for the directory, and one for each partition, up to the limit. Raises OSError."""
    names = sorted(os.listdir(path))
    offsets: dict[str, dict[TopicPartition, int]] = {}
    damaged: dict[str, str] = {}
    for said, name in _CHECKPOINTS.items():
        if name in names:
            try:
                offsets[said] = parse_offsets(Path(path, name).read_bytes())
            except (OSError, CheckpointError) as error:
                damaged[name] = str(error)
    owner = None
    if META_PROPERTIES in names:
        try:
            owner = attrs.asdict(parse_meta_properties(Path(path, META_PROPERTIES).read_bytes()))
        except (OSError, CheckpointError) as error:
            damaged[META_PROPERTIES] = str(error)
    is_clean = CLEAN_SHUTDOWN in names
    yield {"type": "directory", "path": path, "owner": owner, "is_clean": is_clean, "damaged": damaged}
    matches = [match for match in map(_PARTITION.fullmatch, names) if match is not None]
    if len(matches) > PARTITIONS_MAX:
        found.missing.append((path, f"{len(matches) - PARTITIONS_MAX} of its {len(matches)} partitions"))
    for match in matches[:PARTITIONS_MAX]:
        where = TopicPartition(match[1], int(match[2]))
        marks = {said: of_all.get(where) for said, of_all in offsets.items()}
        yield {"type": "partition", "name": match[0], **_partition(Path(path, match[0])), **marks}


def _partition(path: Path) -> dict[str, Any]:
    try:
        sizes = {each.name: each.stat().st_size for each in os.scandir(path) if each.is_file()}
    except OSError as error:
        return {"error": error.strerror or str(error)}
    epochs: Any = None
    if LEADER_EPOCHS in sizes:
        try:
            epochs = parse_epochs((path / LEADER_EPOCHS).read_bytes())
        except (OSError, CheckpointError) as error:
            epochs = str(error)
    logs = [name for name in sizes if name.endswith(LOG)]
    return {"segments": len(logs), "bytes": sum(sizes[name] for name in logs), "files": len(sizes), "epochs": epochs}


def _answer(host: str, port: int, path: str, seconds: float) -> str:
    """What the HTTP port says. Raises OSError, HTTPException."""
    connection = http.client.HTTPConnection(host or "127.0.0.1", port, timeout=seconds)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read(ANSWER_BYTES_MAX).decode("utf-8", "replace")
        if answer.status != http.client.OK:
            raise http.client.HTTPException(f"HTTP {answer.status}")
        return text
    finally:
        connection.close()
