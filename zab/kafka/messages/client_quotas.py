"""Quotas of clients: described and changed (KIP-546)."""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import array, boolean, float64, int8, int16, int32, nested, request, response, string


@nested
class ComponentData:
    """`match_type` 0: the name `match`; 1: the default; 2: any name, and the default."""

    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable_since=0)


@request(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1), flexible_since=1)
class DescribeClientQuotasRequest:
    """`strict`: without entities that have types which no component names."""

    components: tuple[ComponentData, ...] = array(ComponentData)
    strict: bool = boolean()


@nested
class EntityData:
    """`entity_name` null: the default."""

    entity_type: str = string()
    entity_name: str | None = string(nullable_since=0)


@nested
class ValueData:
    key: str = string()
    value: float = float64()


@nested
class DescribedQuotas:
    entity: tuple[EntityData, ...] = array(EntityData)
    values: tuple[ValueData, ...] = array(ValueData)


@response(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1), flexible_since=1)
class DescribeClientQuotasResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    entries: tuple[DescribedQuotas, ...] | None = array(DescribedQuotas, nullable_since=0)


@nested
class OpData:
    """`remove`: the value does not matter."""

    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@nested
class QuotaAlteration:
    entity: tuple[EntityData, ...] = array(EntityData)
    ops: tuple[OpData, ...] = array(OpData)


@request(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), flexible_since=1)
class AlterClientQuotasRequest:
    entries: tuple[QuotaAlteration, ...] = array(QuotaAlteration)
    validate_only: bool = boolean()


@nested
class AlteredQuotas:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    entity: tuple[EntityData, ...] = array(EntityData)


@response(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), flexible_since=1)
class AlterClientQuotasResponse:
    throttle_time_ms: int = int32(default=0)
    entries: tuple[AlteredQuotas, ...] = array(AlteredQuotas)
