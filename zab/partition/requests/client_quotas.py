"""DescribeClientQuotas and AlterClientQuotas (KIP-546): the quotas of users and client ids, in znodes.

The controller writes what changes; every broker learns of it from the znodes, as of other settings. A quota that is
above 0 is accepted, as in Kafka's later brokers: 0 would stop a client for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

from zab.kafka.api_key import ApiKey
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotas,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedQuotas,
    EntityData,
    OpData,
    QuotaAlteration,
    ValueData,
)
from zab.partition.controller.requests import AlterConfig, Answer
from zab.partition.controller.znodes import DEFAULT_NAME, quoted
from zab.partition.quotas.limits import KEYS, WHOLE, Entity, QuotaLimits, check
from zab.partition.requests.asking_controller import AskingController
from zab.partition.requests.dispatch import Handler
from zab.partition.requests.request import Request

USER: Final = "user"
CLIENT: Final = "client-id"
IP: Final = "ip"
"""Quotas of addresses limit new connections; there are none here."""
EXACT, DEFAULT, ANY = range(3)
NAME_CHARS_MAX: Final = 200
"""The longest name: it is the name of a znode, in which a character may have 12 bytes."""
ENTRIES_MAX: Final = 1000
"""How many entities are changed at a time."""
_EPSILON: Final = 1e-6


class _RefusedError(Exception):
    def __init__(self, text: str, error: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(text)
        self.error = error


class ClientQuotaRequests:
    """Answers from what the znodes say, and asks the controller for changes."""

    def __init__(self, limits: QuotaLimits, controller: AskingController) -> None:
        self._limits = limits
        self._controller = controller

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.DESCRIBE_CLIENT_QUOTAS: self.describe, ApiKey.ALTER_CLIENT_QUOTAS: self.alter}

    # ------------------------------------------------------------------------------------------------------- describe

    def describe(self, request: Request) -> None:
        """Handle DescribeClientQuotas."""
        body: DescribeClientQuotasRequest = request.body
        try:
            tests = _tests(body)
        except _RefusedError as error:
            answer = DescribeClientQuotasResponse(error_code=error.error, error_message=str(error), entries=None)
            request.answer(answer)
            return
        entries = tuple(
            DescribedQuotas(
                entity=_data_of(entity),
                values=tuple(ValueData(key=key, value=float(value)) for key, value in values.items()),
            )
            for entity, values in self._limits.of_entities.items()
            if tests[USER](entity.user) and tests[CLIENT](entity.client) and tests[IP](None)
        )
        request.answer(DescribeClientQuotasResponse(error_code=ErrorCode.NONE, error_message=None, entries=entries))

    # ---------------------------------------------------------------------------------------------------------- alter

    def alter(self, request: Request) -> None:
        """Handle AlterClientQuotas."""
        body: AlterClientQuotasRequest = request.body
        outcomes: list[tuple[ErrorCode, str | None]] = [(ErrorCode.NONE, None)] * len(body.entries)
        asked: dict[int, tuple[Entity, dict[str, str | None]]] = {}
        seen: set[Entity] = set()
        for number, entry in enumerate(body.entries):
            try:
                if number >= ENTRIES_MAX:
                    raise _RefusedError(f"a request changes at most {ENTRIES_MAX} entities")
                entity = _entity_of(entry)
                if entity in seen:
                    raise _RefusedError("the entity is named twice", ErrorCode.DUPLICATE_RESOURCE)
                seen.add(entity)
                asked[number] = entity, {op.key: _text_of(op) for op in entry.ops}
            except _RefusedError as error:
                outcomes[number] = error.error, str(error)
        waiting = set(asked)

        def answer_if_complete() -> None:
            if not waiting:
                entries = tuple(
                    AlteredQuotas(error_code=code, error_message=message, entity=entry.entity)
                    for entry, (code, message) in zip(body.entries, outcomes, strict=True)
                )
                request.answer(AlterClientQuotasResponse(entries=entries))

        def ask(number: int, entity: Entity, changes: dict[str, str | None]) -> None:
            def answered(answer: Answer) -> None:
                waiting.discard(number)
                outcomes[number] = answer.error, answer.message
                answer_if_complete()

            kind, _, name = entity.path.rpartition("/")
            self._controller.ask(
                lambda token: AlterConfig(token, kind, unquote(name), changes, validate_only=body.validate_only),
                answered,
            )

        for number, (entity, changes) in asked.items():
            ask(number, entity, changes)
        answer_if_complete()


def _tests(body: DescribeClientQuotasRequest) -> dict[str, Callable[[str | None], bool]]:
    """What each part of an entity has to be. Raises _RefusedError."""
    # A part that no component names may be there, unless only the parts that are named may.
    found: dict[str, Callable[[str | None], bool]] = {}
    for component in body.components:
        type_ = component.entity_type
        if type_ in found:
            raise _RefusedError(f"Duplicate {type_} filter component entity type")
        if not type_:
            raise _RefusedError("Unexpected empty filter component entity type")
        if type_ not in (USER, CLIENT, IP):
            raise _RefusedError(f"Custom entity type '{type_}' not supported", ErrorCode.UNSUPPORTED_VERSION)
        found[type_] = _test(component)
    if IP in found and len(found) > 1:
        raise _RefusedError("a filter by ip goes with no filter by user or client-id")
    for type_ in (USER, CLIENT):
        found.setdefault(type_, (lambda name: name is None) if body.strict else (lambda _name: True))
    found.setdefault(IP, lambda name: name is None)
    return found


def _test(component: ComponentData) -> Callable[[str | None], bool]:
    """Raises _RefusedError."""
    if component.match_type == EXACT and component.match is not None:
        wanted = quoted(component.match)
        return lambda name: name == wanted
    if component.match_type == DEFAULT:
        return lambda name: name == DEFAULT_NAME
    if component.match_type == ANY:
        return lambda name: name is not None
    raise _RefusedError(f"match type {component.match_type} of {component.entity_type} cannot be honoured")


def _entity_of(entry: QuotaAlteration) -> Entity:
    """Raises _RefusedError."""
    names: dict[str, str] = {}
    for each in entry.entity:
        name, type_ = each.entity_name, each.entity_type
        if type_ not in (USER, CLIENT):
            text = (
                "quotas of addresses are not supported"
                if type_ == IP
                else f"Unhandled client quota entity type: {type_}"
            )
            raise _RefusedError(text)
        if type_ in names:
            raise _RefusedError(f"{type_} is named twice")
        if name is not None and (not name or name == DEFAULT_NAME or len(name) > NAME_CHARS_MAX):
            raise _RefusedError(f"the {type_} is empty, too long, or has a meaning")
        names[type_] = DEFAULT_NAME if name is None else quoted(name)
    if not names:
        raise _RefusedError("Invalid empty client quota entity")
    return Entity(names.get(USER), names.get(CLIENT))


def _text_of(op: OpData) -> str | None:
    """What the znode has; None: the key is taken away. Raises _RefusedError."""
    if op.key not in KEYS:
        raise _RefusedError(f"Invalid configuration key {op.key}")
    if op.remove:
        return None
    try:
        check(op.value)
    except ValueError as error:
        raise _RefusedError(f"Quota {op.key} must be greater than 0") from error
    if op.key not in WHOLE:
        return str(op.value)
    whole = int(op.value + _EPSILON)
    if abs(whole - op.value) > _EPSILON:
        raise _RefusedError(f"Configuration {op.key} must be a Long value")
    return str(whole)


def _data_of(entity: Entity) -> tuple[EntityData, ...]:
    parts = ((USER, entity.user), (CLIENT, entity.client))
    return tuple(
        EntityData(entity_type=type_, entity_name=None if name == DEFAULT_NAME else unquote(name))
        for type_, name in parts
        if name is not None
    )
