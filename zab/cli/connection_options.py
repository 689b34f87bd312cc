"""The options of `zab` itself: how its commands reach their servers.

Options that are not on the command line come from the environment (`$ZAB_…`), or from a profile (`profiles.py`). The
file with profiles is only read for commands that talk to servers: a broken one stops no server. The password of a login
has no option, since other users can read the words of a command; credentials for `--auth` may be in a file or on
standard input.

Not here: how they are used (`zab.cli.znodes.caller`).
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from zab.cli.arguments import ConnectionOptions
from zab.cli.commands import COMMANDS
from zab.cli.exits import USAGE, fail
from zab.cli.terminal import say

if TYPE_CHECKING:
    from zab.cli.profiles import Profile

__all__ = [
    "AUTH_VARIABLE",
    "PASSWORD_VARIABLE",
    "AuthOption",
    "BookieTlsOption",
    "BootstrapOption",
    "CaOption",
    "CheckHostOption",
    "ClientConfigOption",
    "ConfigOption",
    "HostsOption",
    "JuteMaxbufferOption",
    "KeyStoreOption",
    "PasswordFileOption",
    "ProfileOption",
    "ReadOnlyOption",
    "SaslPasswordFileOption",
    "SaslUserOption",
    "SecureLedgersOption",
    "SessionTimeoutOption",
    "TlsOption",
    "WaitOption",
    "connection_of",
]

AUTH_VARIABLE: Final = "ZAB_AUTH"
PASSWORD_VARIABLE: Final = "ZAB_SASL_PASSWORD"

_IDENTITIES_BYTES_MAX: Final = 64 * 1024

_NAMED: Final = "zab.named"
_PROFILE: Final = "zab.profile"
_SECURITY: Final = "TLS and login"
_BROKERS: Final = "Brokers"
_ROOMS: Final = ("znodes", "operations", "brokers", "bookies", "ledger")
"""The packages of the commands that talk to servers."""


def _name(context: typer.Context, parameter: typer.CallbackParam, text: str | None) -> str | None:
    """Note the file or the profile that is named. Once both are known, before any other option, that is read."""
    named = context.meta.setdefault(_NAMED, {})
    named[parameter.name] = text or None
    if len(named) == 2 and context.obj in COMMANDS and COMMANDS[context.obj].room in _ROOMS:
        _configure(context, named["_config"], named["_profile"])
    return text


def _configure(context: typer.Context, path: str | None, name: str | None) -> None:
    """Make the profile, and what only the environment may say, the defaults of the other options."""
    from zab.cli.profiles import ProfileError, default_path, read_profile

    defaults: dict[str, object] = {}
    place = Path(path) if path else default_path()
    try:
        found = context.meta[_PROFILE] = read_profile(place, name)
        defaults.update(found.defaults)
    except FileNotFoundError:
        if path:
            fail(f"{path}: there is no such file", USAGE)
        if name is not None:
            fail(f"{place}: there is no such file, and so no profile {name}", USAGE)
    except ProfileError as error:
        fail(error, USAGE)
    if AUTH_VARIABLE in os.environ:
        # Credentials may contain blanks, at which a list of words would be split.
        defaults["auth"] = os.environ[AUTH_VARIABLE].splitlines()
    context.default_map = defaults


def identities_of(context: typer.Context, texts: list[str] | None) -> tuple[str, ...]:
    """What `--auth` says, else the environment or the profile; or the file that it names, or standard input."""
    source = context.get_parameter_source("auth")
    is_told = source is not None and source.name == "COMMANDLINE"
    found: list[str] = []
    for text in texts or ():
        if text == "-" and is_told:
            found += _lines(sys.stdin.read())
        elif text.startswith("@"):
            found += _lines(_read_identities(text[1:]))
        else:
            found.append(text)
    if is_told and any(text != "-" and not text.startswith("@") for text in texts or ()):
        better = f"${AUTH_VARIABLE}, --auth @FILE and --auth - keep them to you"
        say(f"zab: --auth: others may read credentials in the list of processes: {better}", sys.stderr)
    return tuple(found)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def _read_identities(path: str) -> str:
    from zab.host.files.private_file import PrivateFileError, read_private

    try:
        return read_private(path, _IDENTITIES_BYTES_MAX, "it has one identity a line").decode()
    except PrivateFileError as error:
        fail(f"--auth: {error}", USAGE)
    except UnicodeDecodeError:
        fail(f"--auth: {path}: it is not UTF-8", USAGE)


def login_of(context: typer.Context, user: str | None, password_file: str | None) -> tuple[str | None, str | None]:
    """(password, file of the password): of the option, else of the environment, else of the profile, for the user that
    is named there."""
    found: Profile | None = context.meta.get(_PROFILE)
    source = context.get_parameter_source("sasl_password_file")
    is_named = password_file is not None and source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT")
    if user is None:
        if is_named:
            fail("there is the password of a login, and no --sasl-user", USAGE)
        return None, None
    if is_named:
        return None, password_file
    if PASSWORD_VARIABLE in os.environ:
        return os.environ[PASSWORD_VARIABLE], None
    if found is None or found.defaults.get("sasl_user") != user:
        return None, None
    return found.sasl_password, password_file


def connection_of(context: typer.Context) -> ConnectionOptions:
    """What the options of `zab`, in its own context, say together."""
    values = context.params
    user = values["sasl_user"]
    password, password_file = login_of(context, user, values["sasl_password_file"])
    return ConnectionOptions(
        hosts=values["hosts"],
        session_timeout_ms=round(values["session_timeout_seconds"] * 1000),
        wait_ms=round(values["wait_seconds"] * 1000),
        auth=identities_of(context, values["auth"]),
        read_only=values["read_only"],
        jute_maxbuffer_bytes=values["jute_maxbuffer_bytes"],
        tls=values["tls"],
        ca=values["ca"],
        key_store=values["key_store"],
        password_file=values["password_file"],
        check_host=values["check_host"],
        sasl_user=user,
        sasl_password_file=password_file,
        sasl_password=password,
        secure_ledgers=values["secure_ledgers"],
        bookie_tls=values["bookie_tls"],
        bootstrap=values["bootstrap"],
        client_config=values["client_config"],
    )


HostsOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--server",
        "-s",
        metavar="HOSTS",
        envvar="ZAB_HOSTS",
        help="host:port,… and a chroot, such as /app, after the last.",
    ),
]
SessionTimeoutOption: TypeAlias = Annotated[
    float, typer.Option("--session-timeout", min=0.001, help="Seconds after which a lost session ends.")
]
WaitOption: TypeAlias = Annotated[float, typer.Option("--wait", min=0.001, help="Seconds to look for a server.")]
AuthOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--auth",
        metavar="@FILE | - | SCHEME:CREDENTIALS",
        show_default=False,
        help="A file with identities such as digest:user:password, one a line; - is standard input. Others may read in "
        f"the list of processes what is written here itself. ${AUTH_VARIABLE} has them too.",
    ),
]
ReadOnlyOption: TypeAlias = Annotated[bool, typer.Option("--read-only", "-r", help="Accept a server without a quorum.")]
JuteMaxbufferOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--jute-maxbuffer",
        metavar="BYTES",
        min=1,
        help="The maximum size of a request, as the servers' jute.maxbuffer.",
    ),
]
ConfigOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="ZAB_CONFIG",
        is_eager=True,
        callback=_name,
        help="The file with profiles; without it, ~/.config/zab/config.toml.",
    ),
]
ProfileOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        envvar="ZAB_PROFILE",
        is_eager=True,
        callback=_name,
        help="The profile in that file; without it, `default`.",
    ),
]
TlsOption: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--tls/--no-tls",
        envvar="ZAB_TLS",
        rich_help_panel=_SECURITY,
        show_default=False,
        help="Encrypt, and verify servers. On by default with --ca or --key-store.",
    ),
]
CaOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--ca",
        metavar="FILE",
        envvar="ZAB_CA",
        rich_help_panel=_SECURITY,
        help="Trusted CAs, PEM, PKCS#12 or JKS; by default, those of this machine.",
    ),
]
KeyStoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--key-store",
        "--cert",
        metavar="FILE",
        envvar="ZAB_KEY_STORE",
        rich_help_panel=_SECURITY,
        help="The client's key and certificate, PEM, PKCS#12 or JKS.",
    ),
]
PasswordFileOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        envvar="ZAB_PASSWORD_FILE",
        rich_help_panel=_SECURITY,
        help="The password of the key, one line.",
    ),
]
CheckHostOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--check-host/--no-check-host",
        envvar="ZAB_CHECK_HOST",
        rich_help_panel=_SECURITY,
        help="Verify that a server's certificate names its host.",
    ),
]
SaslUserOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--sasl-user",
        metavar="NAME",
        envvar="ZAB_SASL_USER",
        rich_help_panel=_SECURITY,
        help=f"Log in by SASL DIGEST-MD5. The password: a file, ${PASSWORD_VARIABLE}, or it is asked for.",
    ),
]
SaslPasswordFileOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--sasl-password-file",
        metavar="FILE",
        envvar="ZAB_SASL_PASSWORD_FILE",
        rich_help_panel=_SECURITY,
        help="The password of that user, one line.",
    ),
]
SecureLedgersOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--secure-ledgers/--open-ledgers",
        envvar="ZAB_SECURE_LEDGERS",
        rich_help_panel=_SECURITY,
        help="Ledger commands make znodes that others read and only this login changes.",
    ),
]
BookieTlsOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--bookie-tls/--no-bookie-tls",
        envvar="ZAB_BOOKIE_TLS",
        rich_help_panel=_SECURITY,
        help="Ledger commands speak TLS with bookies, too, with the same files.",
    ),
]
BootstrapOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT,…",
        envvar="ZAB_BOOTSTRAP_SERVER",
        rich_help_panel=_BROKERS,
        help="Brokers, one of which has to answer.",
    ),
]
ClientConfigOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--client-config",
        metavar="FILE",
        envvar="ZAB_CLIENT_CONFIG",
        rich_help_panel=_BROKERS,
        help="Properties of Kafka's clients: TLS, login, sizes.",
    ),
]
