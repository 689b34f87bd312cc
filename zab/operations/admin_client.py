"""A client for the admin port of a member, over HTTP or HTTPS.

    AdminPort("http://127.0.0.1:8080")      also host:port, and a path before the commands, which is /commands by itself
    port.tell("monitor", seconds)           the JSON of a command, with the headers of its answer
    port.stream("snapshot", path, seconds)  an answer written to a file
    port.send("restore", path, seconds)     the same as `tell`, with a file for it
    port.ask("restore", seconds)            what it would say to a file

Everything here blocks: call it in a thread. Raises `AdminError`, whose text says what to do.

Limits: `ANSWER_BYTES_MAX` of an answer that is kept in memory; `seconds` for each time that nothing comes.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import re
import ssl
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from attrs import field, frozen

from zab.tls.contexts import context_of_client

__all__ = ["ANSWER_BYTES_MAX", "AdminError", "AdminPort", "Told", "admin_port"]

ANSWER_BYTES_MAX: Final = 64 << 20
_PIECE_BYTES: Final = 1 << 20
_COMMANDS: Final = "/commands"
_REASON_CHARACTERS: Final = 300
_TOO_SOON: Final = 429
_STATUSES: Final = {
    401: "it wants to know who asks: --auth digest:USER:PASSWORD (--auth @FILE keeps it to you)",
    403: "it is for the superuser, and for who is named by an ACL of / that nobody else may change",
    404: "it has no such command: this needs a member of zab",
    _TOO_SOON: "one was had a moment ago: wait for its admin.rateLimiterIntervalInMS",
}


class AdminError(Exception):
    """There is no usable answer. status and headers: HTTP's; status 0 without an answer. is_open: the whole request was
    sent, so it may have been executed."""

    def __init__(
        self, reason: str, status: int = 0, *, headers: Mapping[str, str] = MappingProxyType({}), is_open: bool = False
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers
        self.is_open = is_open


class Told(NamedTuple):
    """An answer: its JSON or bytes, and its headers by lower-case name."""

    value: Any
    headers: Mapping[str, str]


@frozen
class AdminPort:
    """The admin port of one member. authorization: `user:password` of the scheme digest, or None."""

    host: str
    port: int
    commands: str = _COMMANDS
    context: ssl.SSLContext | None = field(default=None, repr=False)
    authorization: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def tell(self, command: str, seconds: float, **parameters: str) -> Told:
        """The JSON of a command. Raises AdminError with what it refuses."""
        return self._told(command, self.said(command, seconds, **parameters))

    def said(self, command: str, seconds: float, **parameters: str) -> Told:
        """The JSON answer to a command, even if it reports an error."""
        return self._object(command, self.read(command, seconds, **parameters))

    def send(self, command: str, path: str, seconds: float) -> Told:
        """Send a file to a command; returns its JSON answer. Also raises OSError of the file."""
        with open(path, "rb") as file:
            return self._post(command, seconds, {}, file)

    def ask(self, command: str, seconds: float) -> Told:
        """What a command that takes a file answers before the file is sent; nothing is executed."""
        return self._post(command, seconds, {"ask": "true"}, io.BytesIO())

    def _post(self, command: str, seconds: float, parameters: Mapping[str, str], body: BinaryIO) -> Told:
        with _Asked(self, command, seconds, parameters, body) as (response, headers):
            return self._told(command, self._object(command, Told(response.read(ANSWER_BYTES_MAX), headers)))

    def _told(self, command: str, said: Told) -> Told:
        if said.value.get("error"):
            raise AdminError(f"{self}: {command}: {_line(str(said.value['error']))}", 200)
        return said

    def _object(self, command: str, raw: Told) -> Told:
        try:
            value = json.loads(raw.value)
        except ValueError:
            raise AdminError(f"{self}: what it answers to {command} is no JSON: is that an admin port?", 200) from None
        if not isinstance(value, dict):
            raise AdminError(f"{self}: what it answers to {command} is no object: is that an admin port?", 200)
        return Told(value, raw.headers)

    def read(self, command: str, seconds: float, **parameters: str) -> Told:
        """The bytes of an answer."""
        with self._asked(command, seconds, parameters) as (response, headers):
            body = response.read(ANSWER_BYTES_MAX + 1)
            if len(body) > ANSWER_BYTES_MAX:
                raise AdminError(f"{self}: {command} has more than {ANSWER_BYTES_MAX} bytes")
            return Told(body, headers)

    def stream(
        self,
        command: str,
        path: str,
        seconds: float,
        written: Callable[[int], object] | None = None,
        **parameters: str,
    ) -> Mapping[str, str]:
        """Write an answer to a new file that only its owner can read; returns the headers. Also raises OSError of the
        file.

        written: called with the number of bytes of each piece that has been written."""
        with self._asked(command, seconds, parameters) as (response, headers):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                while piece := response.read(_PIECE_BYTES):
                    file.write(piece)
                    if written is not None:
                        written(len(piece))
                file.flush()
                os.fsync(file.fileno())
            return headers

    def _asked(self, command: str, seconds: float, parameters: Mapping[str, str]) -> _Asked:
        return _Asked(self, command, seconds, parameters)


class _Asked:
    """One request. Any failure before its end is an `AdminError`."""

    def __init__(
        self,
        port: AdminPort,
        command: str,
        seconds: float,
        parameters: Mapping[str, str],
        body: BinaryIO | None = None,
    ) -> None:
        """`body` is the request's body; the method is then POST."""
        self._port = port
        self._body = body
        self._command = command
        self._path = f"{port.commands}/{quote(command)}" + (f"?{urlencode(parameters)}" if parameters else "")
        if port.context is None:
            self._connection = http.client.HTTPConnection(port.host, port.port, timeout=seconds)
        else:
            self._connection = http.client.HTTPSConnection(port.host, port.port, timeout=seconds, context=port.context)

    def __enter__(self) -> tuple[http.client.HTTPResponse, Mapping[str, str]]:
        port = self._port
        headers = {} if port.authorization is None else {"Authorization": f"digest {port.authorization}"}
        is_asked = False
        try:
            self._request({**headers, "Connection": "close"})
            is_asked = True
            response = self._connection.getresponse()
            if response.status != 200:
                raise AdminError(self._refused(response), response.status, headers=_headers(response))
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise AdminError(f"{port}: {_reason(error)}", is_open=is_asked) from None
        except AdminError:
            self._connection.close()
            raise
        return response, _headers(response)

    def _request(self, headers: dict[str, str]) -> None:
        if self._body is None:
            self._connection.request("GET", self._path, headers=headers)
            return
        headers["Content-Length"] = str(self._body.seek(0, os.SEEK_END))
        self._body.seek(0)
        # A server that refuses a body does not read all of it, but its answer is there.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._connection.request("POST", self._path, body=self._body, headers=headers)

    def __exit__(self, kind: object, error: BaseException | None, _trace: object) -> None:
        self._connection.close()
        if isinstance(error, http.client.HTTPException | ConnectionError | TimeoutError | ssl.SSLError):
            reason = f"it broke off within {self._command}: {_reason(error)}"
            raise AdminError(f"{self._port}: {reason}", is_open=True) from None

    def _refused(self, response: http.client.HTTPResponse) -> str:
        body = response.read(_PIECE_BYTES)
        try:
            said = str(json.loads(body).get("error"))
        except (ValueError, AttributeError):
            said = f"status {response.status}"
        help_ = _STATUSES.get(response.status)
        wait = response.getheader("Retry-After", "")
        if response.status == _TOO_SOON and re.fullmatch(r"[0-9]{1,9}", wait):
            help_ = f"one was had a moment ago: the next may be had in {wait} s"
        if response.status == _TOO_SOON and self._command == "snapshot":
            help_ = f"{help_}; another member may give one now"
        return f"{self._port}: {self._command}: {_line(said)}" + (f": {help_}" if help_ else "")


def admin_port(text: str, *, context: ssl.SSLContext | None = None, authorization: str | None = None) -> AdminPort:
    """`host:port`, or a URL that begins with http:// or https://. context: for https. Raises ValueError."""
    url = urlsplit(text if "://" in text else f"http://{text}")
    if url.scheme not in ("http", "https") or url.hostname is None or url.query or url.fragment or url.username:
        raise ValueError(f"{text!r} is no admin port: host:port, http://host:port or https://host:port")
    if url.port is None:
        raise ValueError(f"{text!r} has no port: the admin port is 8080 unless admin.serverPort says another")
    is_tls = url.scheme == "https"
    secured = (context or _believing_this_machine()) if is_tls else None
    return AdminPort(url.hostname, url.port, url.path.rstrip("/") or _COMMANDS, secured, authorization)


def _believing_this_machine() -> ssl.SSLContext:
    context = context_of_client()
    context.load_default_certs()
    return context


def _headers(response: http.client.HTTPResponse) -> Mapping[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    if isinstance(error, http.client.HTTPException):
        return f"{_line(str(error) or type(error).__name__)}: is that an admin port?"
    return _line(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _line(text: str) -> str:
    return " ".join(text.split())[:_REASON_CHARACTERS]
