"""How users log in by SCRAM: listed, set and removed. Passwords are salted and hashed by the client."""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import array, bytes_, int8, int16, int32, nested, request, response, string


@nested
class UserName:
    name: str = string()


@request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible_since=0)
class DescribeUserScramCredentialsRequest:
    users: tuple[UserName, ...] | None = array(UserName, nullable_since=0)
    """None or empty: all."""


@nested
class CredentialInfo:
    mechanism: int = int8()
    iterations: int = int32()


@nested
class DescribeUserScramCredentialsResult:
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    credential_infos: tuple[CredentialInfo, ...] = array(CredentialInfo)


@response(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible_since=0)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    results: tuple[DescribeUserScramCredentialsResult, ...] = array(DescribeUserScramCredentialsResult)


@nested
class ScramCredentialDeletion:
    name: str = string()
    mechanism: int = int8()


@nested
class ScramCredentialUpsertion:
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = bytes_()
    salted_password: bytes = bytes_()


@request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible_since=0)
class AlterUserScramCredentialsRequest:
    deletions: tuple[ScramCredentialDeletion, ...] = array(ScramCredentialDeletion)
    upsertions: tuple[ScramCredentialUpsertion, ...] = array(ScramCredentialUpsertion)


@nested
class AlterUserScramCredentialsResult:
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)


@response(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible_since=0)
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int = int32()
    results: tuple[AlterUserScramCredentialsResult, ...] = array(AlterUserScramCredentialsResult)
