"""The entry point: `zab [options] COMMAND [arguments]`.

Only the command that is called is loaded; the others (`zab.cli.commands`) are announced with their one line of help. So
`zab --help` loads neither trio, nor servers, nor Spark.

What was printed is written before `main` ends, so that an output that takes no more ends in a sentence, too.

Before that, `main` checks that the top-level packages `datatree` and `session` are this project's own
(`zab.host.process.refusal`).
"""

import errno
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Final, NoReturn

import typer

from zab.cli import connection_options as options
from zab.cli.arguments import DEFAULT_BOOTSTRAP, DEFAULT_HOSTS, JUTE_MAXBUFFER, arrange
from zab.cli.commands import COMMANDS, MissingExtraError
from zab.cli.exits import INTERRUPTED, REFUSED
from zab.cli.flags import show_flags_without_type
from zab.cli.plain_values import read_plainly
from zab.cli.terminal import say
from zab.host.process.refusal import foreign_packages

__all__ = ["build", "main"]

_COMPLETE: Final = "_ZAB_COMPLETE"
"""The variable by which a shell asks for completion (`zab.cli.completion`)."""

# What only a write ends with. The commands that write files of their own say so themselves.
_OUTPUT_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def _version(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from importlib.metadata import version

        from zab.native import loaded

        print(f"zab {version('zab')}, native: {loaded()}")
        raise typer.Exit


def _root(
    context: typer.Context,
    hosts: options.HostsOption = DEFAULT_HOSTS,
    session_timeout_seconds: options.SessionTimeoutOption = 30.0,
    wait_seconds: options.WaitOption = 5.0,
    auth: options.AuthOption = None,
    read_only: options.ReadOnlyOption = False,
    jute_maxbuffer_bytes: options.JuteMaxbufferOption = JUTE_MAXBUFFER,
    _config: options.ConfigOption = None,
    _profile: options.ProfileOption = None,
    tls: options.TlsOption = None,
    ca: options.CaOption = None,
    key_store: options.KeyStoreOption = None,
    password_file: options.PasswordFileOption = None,
    check_host: options.CheckHostOption = True,
    sasl_user: options.SaslUserOption = None,
    sasl_password_file: options.SaslPasswordFileOption = None,
    secure_ledgers: options.SecureLedgersOption = False,
    bookie_tls: options.BookieTlsOption = False,
    bootstrap: options.BootstrapOption = DEFAULT_BOOTSTRAP,
    client_config: options.ClientConfigOption = None,
    _show_version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    """A ZooKeeper-compatible coordination service: its servers, its tools, and a client for the command line.

    Exit codes of the commands for znodes and topics: 0 done, 1 refused or not found, 2 wrong usage, 3 no server
    reachable, 124 the time of --timeout is over, 130 interrupted.
    """
    context.obj = options.connection_of(context)


def build(called: str | None) -> typer.Typer:
    """The whole command line, with `called` loaded and the others announced."""
    app = typer.Typer(
        name="zab",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, command in COMMANDS.items():
        if name == called:
            command.add_to(app, name)
        else:
            command.announce_in(app, name)
    return app


def _command(called: str | None) -> Any:
    command = typer.main.get_command(build(called))
    read_plainly(command)
    show_flags_without_type(command)
    return command


def _complete(shell: str) -> None:
    """Print what the last word of a line may become, one candidate a line."""
    from zab.cli.completion import LINE_VARIABLE, candidates

    for each in candidates(shell, os.environ.get(LINE_VARIABLE, ""), _command):
        print(each)


def main(words: Sequence[str] | None = None) -> None:
    """Runs one command and exits with its code."""
    problems = foreign_packages()
    if problems:
        print("\n".join(f"zab: {problem}" for problem in problems), file=sys.stderr)
        print("zab: install zab into an environment of its own", file=sys.stderr)
        raise SystemExit(REFUSED)
    if _COMPLETE in os.environ and words is None:
        with suppress(MissingExtraError):
            _complete(os.environ[_COMPLETE])
        return
    with _warnings_in_a_line():
        _run(words)


def _run(words: Sequence[str] | None) -> None:
    called, arranged = arrange(list(sys.argv[1:] if words is None else words))
    try:
        try:
            command = _command(called)
            command(args=arranged, prog_name="zab", obj=called)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except MissingExtraError as error:
        say(f"zab: {error}", sys.stderr)
        raise SystemExit(REFUSED) from None
    except BaseExceptionGroup as group:
        # Ctrl-C reached one of several tasks, and the ends of the others are in the group with it.
        if group.subgroup(KeyboardInterrupt) is not None:
            raise SystemExit(INTERRUPTED) from None
        broken = group.subgroup(_is_of_output)
        if broken is None:
            raise
        _end_without_output(broken)
    except OSError as error:
        if not _is_of_output(error):
            raise
        _end_without_output(error)


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """A warning of Python is said as any other sentence, without the file and the line of code that warned."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        say(f"zab: {message}", sys.stderr)

    before = warnings.showwarning
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


def _is_of_output(error: BaseException) -> bool:
    return isinstance(error, OSError) and (isinstance(error, BrokenPipeError) or error.errno in _OUTPUT_ERRORS)


def _end_without_output(error: BaseException) -> NoReturn:
    """Whoever read the output has enough of it, or it is a file on a disk that is full."""
    # What is still buffered must not raise again at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, BrokenPipeError):
        assert isinstance(error, OSError)
        say(f"zab: the output cannot be written: {error.strerror}", sys.stderr)
    raise SystemExit(REFUSED) from None


if __name__ == "__main__":
    main()
