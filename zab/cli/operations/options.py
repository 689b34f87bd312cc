"""The options that the commands for operators share."""

from __future__ import annotations

import ssl
from typing import Annotated, Final, TypeAlias

import typer

from zab.cli.arguments import ConnectionOptions
from zab.cli.exits import USAGE, fail
from zab.cli.znodes.opening import tls_of
from zab.client.tls_context import context_of
from zab.operations.admin_client import AdminPort, admin_port

__all__ = ["AdminOption", "PlainOption", "admin_ports", "authorization_of", "refuse_plain"]

_DIGEST: Final = "digest:"
_LOOPBACK: Final = ("127.", "localhost", "::1")

AdminOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--admin",
        metavar="[http[s]://]HOST:PORT",
        show_default=False,
        help="The admin port of a member. May be repeated.",
    ),
]


PlainOption: TypeAlias = Annotated[
    bool, typer.Option("--plain", help="Send --auth without TLS to another machine; others can read it on the way.")
]


def authorization_of(options: ConnectionOptions) -> str | None:
    """`user:password` of the first identity of the scheme digest."""
    return next((each.removeprefix(_DIGEST) for each in options.auth if each.startswith(_DIGEST)), None)


def admin_ports(texts: list[str] | None, options: ConnectionOptions, *, shows_who: bool = False) -> list[AdminPort]:
    """The admin ports. Ends the command if one is invalid. shows_who: the identity of `--auth` is sent to each of
    them."""
    authorization = authorization_of(options) if shows_who else None
    tls = tls_of(options)
    context: ssl.SSLContext | None = None
    try:
        if tls is not None:
            context = context_of(tls)
        return [admin_port(text, context=context, authorization=authorization) for text in texts or ()]
    except ValueError as error:
        fail(error, USAGE)


def refuse_plain(ports: list[AdminPort], *, plain: bool) -> None:
    """End the command if the password of `--auth` would go to another machine unencrypted."""
    for port in ports:
        is_near = port.host.startswith(_LOOPBACK)
        if port.authorization is not None and port.context is None and not is_near and not plain:
            reason = "the password of --auth would go over the network as it is: https://HOST:PORT, or --plain"
            fail(f"{port}: {reason}", USAGE)
