"""A client, made from the options of `zab`: servers, identities, TLS, a login.

Not here: what is done with it (`caller.py`).
"""

import getpass
import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from zab.cli.arguments import ConnectionOptions
from zab.cli.connection_options import PASSWORD_VARIABLE
from zab.client import Client, Observer, SaslLogin, Settings, Tls, connect
from zab.tls.private import why_not_private

__all__ = ["Opener", "login_of", "opener", "stores_of", "tls_of"]

Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[Client]]

_PASSWORD_CHARACTERS_MAX: Final = 4096


def opener(options: ConnectionOptions, observer: Observer | None = None) -> Opener:
    """`zab.client.connect` with the options of the command line. Raises ValueError for malformed ones.

    It may ask for a password: call it before trio runs, so that Ctrl-C works.
    """
    auth = []
    for text in options.auth:
        scheme, colon, credentials = text.partition(":")
        if not colon:
            raise ValueError("--auth: it is not scheme:credentials")
        auth.append((scheme, credentials))
    settings = Settings(
        session_timeout_ms=options.session_timeout_ms,
        connect_wait_ms=options.wait_ms,
        request_bytes_max=options.jute_maxbuffer_bytes,
    )
    return partial(
        connect,
        options.hosts,
        auth=auth,
        read_only=options.read_only,
        settings=settings,
        tls=tls_of(options),
        sasl=login_of(options),
        observer=observer,
    )


def tls_of(options: ConnectionOptions) -> Tls | None:
    """The TLS settings; None without encryption."""
    return stores_of(options) if options.wants_tls else None


def stores_of(options: ConnectionOptions) -> Tls:
    """The stores for TLS, and whether hosts are checked."""
    return Tls(
        trust_store=options.ca,
        key_store=options.key_store,
        password_file=options.password_file,
        check_host=options.check_host,
    )


def login_of(options: ConnectionOptions) -> SaslLogin | None:
    """User and password; asks for a missing password at a terminal. Raises ValueError."""
    user, password = options.sasl_user, options.sasl_password
    if user is None:
        return None
    if password is None and options.sasl_password_file is not None:
        password = _password_in(Path(options.sasl_password_file))
    if password is None:
        if not sys.stdin.isatty():
            more = f"--sasl-password-file names a file of it, or ${PASSWORD_VARIABLE} says it"
            raise ValueError(f"there is no password for {user}: {more}")
        password = getpass.getpass(f"Password of {user}: ")
    if not user or not password:
        raise ValueError("a login has a user and a password, and one of them is empty")
    return SaslLogin(user, password)


def _password_in(path: Path) -> str:
    """The first line of a file that no other user may read. Raises ValueError."""
    try:
        with path.open(encoding="utf-8") as file:
            reason = why_not_private(str(path), os.fstat(file.fileno()))
            password = file.readline(_PASSWORD_CHARACTERS_MAX).rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"{path}: it cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: it is not UTF-8") from None
    if reason is not None:
        raise ValueError(reason)
    return password
