"""The command line before typer sees it: which command is called, and for which servers.

    zab [options] COMMAND [arguments]

`-s HOSTS` belongs to `zab`, but `-s` belongs to commands too (`create -s`: sequential, `get -s`: with the stat). Before
the command it always names servers. After it, it names servers if

- what follows looks like host:port, and
- no path came before, or the command takes nothing but paths.

Then it is moved to the front. `--server` is moved to the front from anywhere. So `zab get /a -s localhost:2181` means
the server, and `zab create /a -s localhost:2181` a sequential znode with data.

`--bootstrap-server` and `--client-config`, as Kafka's tools have them, are moved to the front as well.

ZooKeeper's names of commands work as well as zab's.
"""

import re
from typing import Final

from attrs import field, frozen

from zab.cli.commands import ALIASES, TAKES_DATA

__all__ = ["DEFAULT_BOOTSTRAP", "DEFAULT_HOSTS", "JUTE_MAXBUFFER", "ConnectionOptions", "arrange", "expand_alias"]

DEFAULT_HOSTS: Final = "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183"

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
"""Where a broker of `zab ensemble` listens."""

JUTE_MAXBUFFER: Final = 0xFFFFF
"""The largest request in bytes: the default of ZooKeeper's clients and servers."""

_MOVED: Final = ("--server", "--bootstrap-server", "--client-config")
"""Options of `zab` itself that may follow the command."""
# Options of `zab` itself that are followed by a value.
_VALUED: Final = frozenset(
    {
        *_MOVED,
        *("-s", "--session-timeout", "--wait", "--auth", "--jute-maxbuffer", "--config", "--profile"),
        *("--ca", "--key-store", "--cert", "--password-file", "--sasl-user", "--sasl-password-file"),
    }
)
_RECONFIGURATION: Final = ("-add", "-remove", "-members", "-file")
"""The options by which ZooKeeper's shell tells `reconfig` what to do."""
_HOST: Final = r"(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):\d+"
_HOSTS: Final = re.compile(rf"{_HOST}(?:,{_HOST})*(?:/.*)?")


@frozen
class ConnectionOptions:
    """How a command reaches its servers. `auth` holds "scheme:credentials"; its text form shows no password.

    tls: None if not set; a CA or a key store then implies TLS. sasl_password: None if it is in a file, or was not
    entered yet. secure_ledgers: the znodes of ledgers are made with the ACL of `zkEnableSecurity`. bookie_tls: TLS is
    spoken with bookies, with the stores that are here. bootstrap, client_config: where brokers are, and the file with
    what else Kafka's clients are told; the others are for the members.
    """

    hosts: str = DEFAULT_HOSTS
    session_timeout_ms: int = 30_000
    wait_ms: int = 5_000
    auth: tuple[str, ...] = field(default=(), repr=False)
    read_only: bool = False
    jute_maxbuffer_bytes: int = JUTE_MAXBUFFER
    tls: bool | None = None
    ca: str | None = None
    key_store: str | None = None
    password_file: str | None = None
    check_host: bool = True
    sasl_user: str | None = None
    sasl_password_file: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    secure_ledgers: bool = False
    bookie_tls: bool = False
    bootstrap: str = DEFAULT_BOOTSTRAP
    client_config: str | None = None

    @property
    def wants_tls(self) -> bool:
        return (self.ca is not None or self.key_store is not None) if self.tls is None else self.tls


def expand_alias(words: list[str]) -> list[str]:
    """The words of a command, with ZooKeeper's names and its way to ask for help replaced by zab's."""
    if words[:1] == ["reconfig"]:
        return ["reconfig", *_reconfiguration(words[1:])]
    return [*ALIASES.get(words[0], words[:1]), *words[1:]] if words else []


def _reconfiguration(words: list[str]) -> list[str]:
    """Translate `-add LINES -remove IDS`, `-members LINES` or `-file FILE` to zab's commands; other words stay."""
    said: dict[str, list[str]] = {}
    rest: list[str] = []
    following = iter(words)
    for word in following:
        if word in _RECONFIGURATION:
            values = next(following, "").split(",")
            said.setdefault(word, []).extend(values)
        else:
            rest.append(word)
    if not said:
        return words
    joining, leaving, members, file = (said.get(name, []) for name in _RECONFIGURATION)
    if members or file:
        # Beside the others the command has words that it does not take, and says so.
        whole = [",".join(file)] if file else members
        return ["set", *rest, *whole, *(f"--add={line}" for line in joining), *(f"--remove={sid}" for sid in leaving)]
    if joining:
        return ["add", *rest, *joining, *(["--remove", ",".join(leaving)] if leaving else [])]
    return ["remove", *rest, *leaving]


def arrange(words: list[str]) -> tuple[str | None, list[str]]:
    """The command's name (None without one), and the words with options for `zab` in front and aliases expanded."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        if words[at] == "-server":
            # As of ZooKeeper's shell; else it would be `-s` with the servers `erver`.
            words = [*words[:at], "--server", *words[at + 1 :]]
        at += 2 if words[at] in _VALUED else 1
    if at >= len(words):
        return None, words
    front, (command, *rest) = words[:at], words[at:]
    moved: list[str] = []
    while (taken := _take_option(command, rest))[0]:
        moved, rest = moved + taken[0], taken[1]
    expanded = expand_alias([command, *rest])
    return expanded[0], [*front, *moved, *expanded]


def _take_option(command: str, words: list[str]) -> tuple[list[str], list[str]]:
    """The first option of `zab` itself after the command, with its value, and the words without it."""
    is_path_seen = False
    for at, word in enumerate(words):
        if word == "--":
            break
        following = words[at + 1 : at + 2]
        if word in _MOVED and following:
            return words[at : at + 2], words[:at] + words[at + 2 :]
        if word.partition("=")[0] in _MOVED and "=" in word:
            return [word], words[:at] + words[at + 1 :]
        names_hosts = word == "-s" and following and _HOSTS.fullmatch(following[0])
        if names_hosts and not (is_path_seen and command in TAKES_DATA):
            return words[at : at + 2], words[:at] + words[at + 2 :]
        is_path_seen = is_path_seen or word.startswith("/")
    return [], words
