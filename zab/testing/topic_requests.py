"""Creates a topic as a client does, over one connection of its own: so no client has to be installed."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, Final

from zab.kafka.api_key import ApiKey
from zab.kafka.errors import ErrorCode
from zab.kafka.frames import decode_response, request_frame
from zab.kafka.headers import RequestHeader
from zab.kafka.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from zab.testing.errors import EnsembleError
from zab.testing.kit.ports import HOST

_VERSION: Final = 7
_SLACK_SECONDS: Final = 5.0
"""How much longer than the broker's own limit an answer is waited for."""


def create_topic(
    port: int, name: str, partitions: int, replication_factor: int, configs: Mapping[str, object], seconds: float
) -> None:
    """Ask the broker at this port. Raises EnsembleError with the broker's reason."""
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in configs.items()}
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in texts.items()),
    )
    try:
        answer = _asked(port, CreateTopicsRequest(topics=(topic,), timeout_ms=int(seconds * 1000)), seconds)
    except OSError as error:
        raise EnsembleError(f"the topic {name} was not created: {error}") from error
    [result] = answer.topics
    if result.error_code != ErrorCode.NONE:
        reason = result.error_message or ErrorCode(result.error_code).name
        raise EnsembleError(f"the topic {name} was not created: {reason}")


def _asked(port: int, body: Any, seconds: float) -> Any:
    """The answer. Raises OSError."""
    key = ApiKey.CREATE_TOPICS
    header = RequestHeader(api_key=key, api_version=_VERSION, correlation_id=1, client_id="zab.testing")
    with socket.create_connection((HOST, port), seconds) as connection:
        connection.settimeout(seconds + _SLACK_SECONDS)
        connection.sendall(request_frame(header, body))
        size = int.from_bytes(_read(connection, 4), "big")
        _, answer = decode_response(key, _VERSION, _read(connection, size))
    return answer


def _read(connection: socket.socket, size: int) -> bytes:
    answer = b""
    while len(answer) < size:
        piece = connection.recv(size - len(answer))
        if not piece:
            raise ConnectionResetError("the broker has closed the connection")
        answer += piece
    return answer
