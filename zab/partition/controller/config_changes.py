"""Settings of topics and brokers, in znodes, and how every broker learns of changes.

    /config/topics/<t>, /config/brokers/<id>, /config/brokers/<default>     the settings
    /config/users/<u>                                                       how users log in, and quotas
    /config/clients/<id>, /config/users/<u>/clients/<id>                    quotas
    /config/changes/config_change_<n>                                       which of them changed

Who changes settings writes them first, then a sequential notification. Every broker, the controller or not, watches the
notifications: it reads the settings that new ones name, those with a higher number than the last one it knows
(`Follower`). With each session it reads all settings. The controller deletes notifications of more than 15 minutes ago.

The controller changes settings for clients (`alter`). It also is the one who says which min.insync.replicas holds: a
leader takes it from the controller's messages, with the state of its partition. If a leader used a lower number than
the controller, it would acknowledge what the eligible leader replicas do not have. So a lower number first empties
ELRs, and is told to leaders afterwards; a higher one comes with the first state that has an ELR.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from attrs import Factory, define

from zab.coordination.operations import Children, CoordinationError, Create, Get, Result, Set, ZooKeeperError
from zab.coordination.steps import Steps, read
from zab.kafka.errors import ErrorCode
from zab.partition.controller import partition_states
from zab.partition.controller.effects import ConfigChanged
from zab.partition.controller.fencing import update_states, write_until_known
from zab.partition.controller.leaders import with_isr
from zab.partition.controller.notifications import numbers_of, purge
from zab.partition.controller.requests import AlterConfig, Answer
from zab.partition.controller.state import ControllerState, PartitionPhase, settings_problem
from zab.partition.controller.znodes import (
    CONFIG_CHANGE_PREFIX,
    CONFIG_CHANGES,
    DEFAULT_NAME,
    MalformedError,
    PartitionState,
    TopicPartition,
    config_path,
    decode_config,
    decode_config_change,
    encode_config,
    encode_config_change,
)
from zab.partition.settings.topic_settings import InvalidSettingError, broker_defaults

_PREFIX: Final = CONFIG_CHANGE_PREFIX.rpartition("/")[2]
_TOPICS, _BROKERS, _USERS, _CLIENTS = "topics", "brokers", "users", "clients"
_KINDS: Final = (_TOPICS, _BROKERS, _USERS, _CLIENTS)


# -------------------------------------------------------------------------------------------------------------- reading


def decoded_config(state: ControllerState, topic: str, result: Result) -> dict[str, str]:
    """A topic's settings from its znode. What is malformed or wrong is reported, and does not count."""
    path = config_path(_TOPICS, topic)
    if result.is_missing:
        return {}
    try:
        config = decode_config(path, result.must(path).data)
    except MalformedError as error:
        state.report(str(error))
        return {}
    problem = settings_problem(state.settings.topic_defaults, config)
    if problem is not None:
        state.report(f"{path}: {problem}")
    return config


def read_defaults(state: ControllerState) -> Steps[None]:
    """The dynamic settings of all brokers, as far as they hold for topics."""
    path = config_path(_BROKERS, DEFAULT_NAME)
    (found,) = yield from read((Get(path),))
    state.broker_config = {}
    state.forget_settings()
    if not found.is_missing:
        try:
            state.broker_config = decode_config(path, found.must(path).data)
        except MalformedError as error:
            state.report(str(error))


@define
class Follower:
    """What a broker knows of the notifications. last: the highest number that it has dealt with; -1: none yet.
    entities: users and client ids that had settings, as in `ConfigChanged`."""

    last: int = -1
    entities: set[str] = Factory(set)

    def on_session(self, state: ControllerState) -> Steps[None]:
        """Read all settings: notifications may be gone that this broker never saw."""
        (listed,) = yield from read((Children(CONFIG_CHANGES, watch=True),))
        kinds = yield from read(Children(f"/config/{kind}") for kind in _KINDS)
        paths = [
            f"{kind}/{name}"
            for kind, found in zip(_KINDS, kinds, strict=True)
            for name in found.must(f"/config/{kind}").children
        ]
        users = [path for path in paths if path.startswith(f"{_USERS}/")]
        of_users = yield from read(Children(f"/config/{user}/{_CLIENTS}") for user in users)
        paths += [
            f"{user}/{_CLIENTS}/{name}"
            for user, found in zip(users, of_users, strict=True)
            if not found.is_missing
            for name in found.must(f"/config/{user}/{_CLIENTS}").children
        ]
        # Those that are gone by now are read, too: they must not log in any longer, and have no quota.
        paths += sorted(self.entities.difference(paths))
        yield from self._read(state, paths)
        self.last = max([-1, *numbers_of(_PREFIX, listed.must(CONFIG_CHANGES).children)])

    def on_change(self, state: ControllerState) -> Steps[None]:
        """Read what changed."""
        (listed,) = yield from read((Children(CONFIG_CHANGES, watch=True),))
        numbers = numbers_of(_PREFIX, listed.must(CONFIG_CHANGES).children)
        new = sorted(number for number in numbers if number > self.last)
        notifications = yield from read(Get(f"{CONFIG_CHANGES}/{numbers[each]}") for each in new)
        yield from self._read(
            state, dict.fromkeys(path for each in notifications for path in _entity_path(state, each))
        )
        self.last = max([self.last, *numbers])
        if state.is_active:
            yield from purge(state, CONFIG_CHANGES, [numbers[each] for each in sorted(numbers)])

    def _read(self, state: ControllerState, paths: Iterable[str]) -> Steps[None]:
        wanted = list(paths)
        configs = yield from read(Get(f"/config/{path}") for path in wanted)
        for path, result in zip(wanted, configs, strict=True):
            yield from self._apply(state, path, result)

    def _apply(self, state: ControllerState, path: str, result: Result) -> Steps[None]:
        config: dict[str, str] = {}
        if not result.is_missing:
            try:
                config = decode_config(f"/config/{path}", result.must(f"/config/{path}").data)
            except (MalformedError, CoordinationError) as error:
                # A notification may name a path that is none.
                state.report(str(error))
                return
        if path.partition("/")[0] in (_USERS, _CLIENTS):
            (self.entities.add if config else self.entities.discard)(path)
        yield from _hold(state, path, config)


def _hold(state: ControllerState, path: str, config: Mapping[str, str]) -> Steps[None]:
    """These settings hold from now on; `path` as in `ConfigChanged`."""
    state.effects.append(ConfigChanged(path, config))
    kind, _, name = path.partition("/")
    if state.is_active and kind == _TOPICS and name in state.topics:
        problem = settings_problem(state.settings.topic_defaults, config)
        if problem is not None:
            state.report(f"/config/{path}: {problem}")
        state.topics[name].config = dict(config)
        state.forget_settings()
        yield from _take_effect(state, state.topics[name].partitions)
    elif state.is_active and path == f"{_BROKERS}/{DEFAULT_NAME}":
        state.broker_config = dict(config)
        state.forget_settings()
        yield from _take_effect(state, list(state.all_partitions()))


def _entity_path(state: ControllerState, notification: Result) -> list[str]:
    if notification.is_missing:
        return []
    try:
        return [decode_config_change(CONFIG_CHANGES, notification.must(CONFIG_CHANGES).data)]
    except MalformedError as error:
        state.report(str(error))
        return []


def _take_effect(state: ControllerState, partitions: list[TopicPartition]) -> Steps[None]:
    """New settings: ELRs that are not due any longer are emptied, all leaders are told min.insync.replicas, and unclean
    elections may be allowed now."""
    state.pushes.changed.update(partitions)
    yield from empty_elrs(state, {each: state.min_isr(each) for each in partitions})
    yield from partition_states.bring_online(
        state,
        [each for each in partitions if state.phase(each) is PartitionPhase.OFFLINE and not state.is_deleting(each)],
    )


def empty_elrs(state: ControllerState, min_isr: Mapping[TopicPartition, int]) -> Steps[None]:
    """Where the ISR is not smaller than min.insync.replicas."""

    def compute(partition: TopicPartition, current: PartitionState) -> PartitionState | None:
        replicas = state.assignment(partition).replicas
        following = with_isr(current, current.isr, replicas=replicas, min_isr=min_isr[partition])
        return None if following == current else following

    yield from update_states(state, min_isr, compute)


# ------------------------------------------------------------------------------------------------------------- changing


def alter(state: ControllerState, asked: AlterConfig) -> Steps[None]:
    """Change settings, notify all brokers, and hold to them at once."""
    path = config_path(asked.kind, asked.name)
    (found,) = yield from read((Get(path),))
    try:
        before = {} if found.is_missing else decode_config(path, found.must(path).data)
    except MalformedError as error:
        state.report(f"{error}; it is replaced")
        before = {}
    config = {} if asked.replaces_all else dict(before)
    for key, value in asked.changes.items():
        if value is None:
            config.pop(key, None)
        else:
            config[key] = value
    refused = _refused(state, asked, config)
    if refused is not None or asked.validate_only:
        state.answer(Answer(asked.token, *(refused or (ErrorCode.NONE, None))))
        return
    data = encode_config(config)
    if found.is_missing:
        yield from _create_above(state, asked.kind)
    result = yield from write_until_known(state, Create(path, data) if found.is_missing else Set(path, data))
    if result.error in (ZooKeeperError.NODEEXISTS, ZooKeeperError.NONODE):
        result = yield from write_until_known(state, Set(path, data))
    result.must(path)
    entity_path = path.removeprefix("/config/")
    change = Create(CONFIG_CHANGE_PREFIX, encode_config_change(entity_path), sequential=True)
    (yield from write_until_known(state, change)).must(CONFIG_CHANGES)
    # Who asks this broker for the settings once the answer is there is told the new ones.
    yield from _hold(state, entity_path, config)
    state.answer(Answer(asked.token))


def _create_above(state: ControllerState, kind: str) -> Steps[None]:
    """What is above the client ids of a user: the user, and the parent of all of them."""
    if "/" in kind:
        user = f"/config/{kind.rpartition('/')[0]}"
        for path, data in ((user, encode_config({})), (f"/config/{kind}", b"")):
            result = yield from write_until_known(state, Create(path, data))
            if result.error != ZooKeeperError.NODEEXISTS:
                result.must(path)


def _refused(state: ControllerState, asked: AlterConfig, config: Mapping[str, str]) -> tuple[ErrorCode, str] | None:
    if asked.kind == _TOPICS:
        if asked.name not in state.topics or asked.name in state.deleting | state.to_delete:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {asked.name!r}"
        problem = settings_problem(state.settings.topic_defaults, config)
        return None if problem is None else (ErrorCode.INVALID_CONFIG, problem)
    if asked.kind.partition("/")[0] in (_USERS, _CLIENTS):
        return None
    is_broker = asked.name == DEFAULT_NAME or (asked.name.isascii() and asked.name.isdecimal())
    if asked.kind != _BROKERS or not is_broker:
        return ErrorCode.INVALID_REQUEST, f"{asked.kind}/{asked.name} has no settings"
    try:
        broker_defaults(config)
    except InvalidSettingError as error:
        return ErrorCode.INVALID_CONFIG, str(error)
    return None
