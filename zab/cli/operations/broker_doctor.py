"""`zab doctor` for the `server.properties` of a broker: what is looked at on this machine and in the znodes.

Nothing is written, except for the syncs that measure the disk. The znodes are those below the path of
`zookeeper.connect`.

Not here: what is well (`zab.operations.verdicts.broker_checks`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import trio
from attrs import evolve

from zab.broker.configuration import StartRefusedError, hints, load
from zab.client import NoNodeError, Settings, ZabError, connect
from zab.client.access.ensemble_access import EnsembleAccess
from zab.configuration.properties import PropertiesError, parse_properties
from zab.operations import probes
from zab.operations.registered import read_registered
from zab.operations.verdicts import broker_checks, checks
from zab.operations.verdicts.broker_checks import Directory, Safety
from zab.operations.verdicts.brokers import Registered
from zab.operations.verdicts.checks import Check
from zab.partition.controller.znodes import CLUSTER_ID, MalformedError, decode_cluster_id
from zab.partition.log.checkpoints import (
    CLEANED_ENDS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    CheckpointError,
    MetaProperties,
    parse_meta_properties,
    parse_offsets,
    parse_partition_metadata,
)
from zab.partition.log.directory import CLEAN_SHUTDOWN
from zab.partition.settings.broker_config import BrokerConfig
from zab.partition.settings.topic_settings import topic_keys

__all__ = ["examine", "is_of_broker", "registered_at"]

KEYS: Final = frozenset({"broker.id", "log.dirs", "log.dir", "zookeeper.connect", "listeners"})
"""A file with one of these is that of a broker."""
CHECKPOINTS: Final = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANED_ENDS)
METADATA: Final = "partition.metadata"
_PARTITION: Final = re.compile(r"[a-zA-Z0-9._-]+-\d+")


def is_of_broker(file: str) -> bool:
    """Whether this is the file of a broker, and not of a member."""
    return bool(KEYS & _lines(file).keys())


async def examine(file: str, seconds: float, syncs: int) -> list[Check]:
    """All checks. seconds: for what the members are asked. syncs: to measure the disk with."""
    try:
        config = load(file)
    except StartRefusedError as error:
        return list(checks.of_configuration([str(error)], []))
    found = list(checks.of_configuration([], [f"{file}: {hint}" for hint in hints(config)]))
    found += broker_checks.of_safety(_safety(config), _named(_lines(file)))
    registered, cluster_id = await registered_at(config, seconds)
    path = config.broker.log_directory
    directory = await trio.to_thread.run_sync(_directory, path)
    broker_id = _id_of(config, directory)
    is_registered = not isinstance(registered, str) and any(each.id == broker_id for each in registered.brokers)
    found += broker_checks.of_directory(
        evolve(directory, is_registered=is_registered), config.broker.broker_id, cluster_id
    )
    if directory.exists and not directory.error:
        disk = await trio.to_thread.run_sync(lambda: probes.measured(path, syncs=max(syncs, 1)))
        if syncs <= 1:
            disk = checks.Disk(disk.path, (), disk.free_bytes, disk.error)
        found += checks.of_disk(disk, config.topics.segment_bytes)
    found += broker_checks.of_cluster(registered, broker_id)
    return found


def _lines(file: str) -> dict[str, int]:
    """The line of each key; empty for a file that cannot be read."""
    try:
        return {entry.key: entry.line for entry in parse_properties(Path(file).read_text(encoding="utf-8"))}
    except (OSError, UnicodeDecodeError, PropertiesError):
        return {}


def _named(lines: dict[str, int]) -> dict[str, int]:
    """The lines of defaults of topics also by their names as the checks have them."""
    twins = {key.twin: key.name for key in topic_keys().values()}
    return {**{twins[key]: line for key, line in lines.items() if key in twins}, **lines}


def _safety(config: BrokerConfig) -> Safety:
    return Safety(
        replicas=config.broker.replication_factor,
        offsets_replicas=config.groups.offsets_replication_factor,
        min_in_sync=config.topics.min_insync_replicas,
        elects_uncleanly=config.topics.unclean_leader_election_enable,
        syncs=config.topics.flush_mode == "batch",
        transactions_replicas=config.transactions.replication_factor,
        transactions_min_in_sync=config.transactions.in_sync_min,
    )


def _id_of(config: BrokerConfig, directory: Directory) -> int:
    return directory.owner[0] if config.broker.broker_id < 0 and directory.owner else config.broker.broker_id


async def registered_at(config: BrokerConfig, seconds: float) -> tuple[Registered | str, str | None]:
    """What the znodes say, or why they cannot be read; the id of the cluster."""
    servers = config.broker.servers
    with trio.move_on_after(seconds):
        try:
            access = EnsembleAccess(config.ensemble)
            settings = Settings(connect_wait_ms=int(seconds * 1000))
            async with connect(servers, dial=access.dial, sasl=access.login, settings=settings) as zk:
                data, _ = await zk.get(CLUSTER_ID)
                return await read_registered(zk), decode_cluster_id(data or b"")
        except NoNodeError:
            return f"no broker has registered at {servers} yet", None
        except MalformedError as error:
            return f"{servers}: {error}", None
        except (ZabError, OSError, ValueError) as error:
            return f"{servers} cannot be reached: {error}", None
    return f"{servers} does not answer in time", None


def _directory(path: str) -> Directory:
    try:
        names = sorted(os.listdir(path))
    except FileNotFoundError:
        return Directory(path=path, exists=False)
    except OSError as error:
        return Directory(path=path, error=f"it cannot be read: {error.strerror}")
    damaged: list[tuple[str, str]] = []
    owner: MetaProperties | None = None
    partitions = [name for name in names if _PARTITION.fullmatch(name) and os.path.isdir(os.path.join(path, name))]
    for name in (META_PROPERTIES, *CHECKPOINTS, *(f"{each}/{METADATA}" for each in partitions)):
        try:
            data = Path(path, name).read_bytes()
            if name == META_PROPERTIES:
                owner = parse_meta_properties(data)
            elif name in CHECKPOINTS:
                parse_offsets(data)
            else:
                parse_partition_metadata(data)
        except FileNotFoundError:
            if name.endswith(METADATA):
                damaged.append((name, "it is missing: the broker leaves the partition alone"))
        except (OSError, CheckpointError) as error:
            damaged.append((name, str(error)))
    return Directory(
        path=path,
        owner=None if owner is None else (owner.broker_id, owner.cluster_id),
        damaged=tuple(damaged),
        is_clean=CLEAN_SHUTDOWN in names,
        partitions=len(partitions),
    )
