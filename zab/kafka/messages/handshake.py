"""What a connection begins with: which versions the server has, and who the client is (SASL)."""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import Kind, array, boolean, bytes_, int16, int32, int64, nested, request, response, string


@request(ApiKey.API_VERSIONS, versions=(0, 4), flexible_since=3)
class ApiVersionsRequest:
    """Served before a client has logged in. Names and versions of clients are checked by the server, not here."""

    client_software_name: str = string(since=3, default="", ignorable=True)
    client_software_version: str = string(since=3, default="", ignorable=True)


@nested
class ApiVersion:
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@nested
class SupportedFeatureKey:
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


@nested
class FinalizedFeatureKey:
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


@response(ApiKey.API_VERSIONS, versions=(0, 4), flexible_since=3)
class ApiVersionsResponse:
    """Its header is always that of version 0, since the client cannot know yet which versions the server has."""

    error_code: int = int16()
    api_keys: tuple[ApiVersion, ...] = array(ApiVersion)
    throttle_time_ms: int = int32(since=1, default=0, ignorable=True)
    supported_features: tuple[SupportedFeatureKey, ...] = array(
        SupportedFeatureKey, since=3, default=(), ignorable=True, tag=0
    )
    finalized_features_epoch: int = int64(since=3, default=-1, ignorable=True, tag=1)
    finalized_features: tuple[FinalizedFeatureKey, ...] = array(
        FinalizedFeatureKey, since=3, default=(), ignorable=True, tag=2
    )
    zk_migration_ready: bool = boolean(since=3, default=False, ignorable=True, tag=3)
    """Has no meaning for a server that is not on its way off ZooKeeper."""


@request(ApiKey.SASL_HANDSHAKE, versions=(0, 1))
class SaslHandshakeRequest:
    """Version 1 is followed by SaslAuthenticate requests, version 0 by tokens without headers."""

    mechanism: str = string()


@response(ApiKey.SASL_HANDSHAKE, versions=(0, 1))
class SaslHandshakeResponse:
    error_code: int = int16()
    mechanisms: tuple[str, ...] = array(Kind.STRING)


@request(ApiKey.SASL_AUTHENTICATE, versions=(0, 2), flexible_since=2)
class SaslAuthenticateRequest:
    """One token of the mechanism that SaslHandshake named."""

    auth_bytes: bytes = bytes_()


@response(ApiKey.SASL_AUTHENTICATE, versions=(0, 2), flexible_since=2)
class SaslAuthenticateResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    auth_bytes: bytes = bytes_()
    session_lifetime_ms: int = int64(since=1, default=0, ignorable=True)
