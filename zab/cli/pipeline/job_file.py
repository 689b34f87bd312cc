"""`zab pipeline run FILE`: several jobs, one after the other, in one Spark session.

    # every night
    compact /backup/prod --out /lake/prod
    verify /backup/prod --snapshots
    report /backup/prod --out "/www/prod.html" --overwrite

A line is what follows `zab pipeline` on the command line, quoted as in a shell; nothing is expanded. `#` begins a
comment. The options of the session (`signatures.SESSION_OPTIONS`) are those of `run`.

All lines are checked first: if any are wrong, each is reported with its number, nothing runs, and the exit code is 2.
Errors that only the files show, such as a directory that does not exist, end only their job.

The file is not trusted: it has at most `FILE_BYTES_MAX` bytes and `JOBS_MAX` jobs, and only jobs that end.
"""

import shlex
import sys
from functools import cache
from typing import Annotated, Any, Final, NoReturn

import typer
from attrs import frozen

from zab.cli.exits import USAGE, fail
from zab.cli.pipeline import options
from zab.cli.pipeline.call import Call
from zab.cli.pipeline.driver import Driver, SparkOptions
from zab.cli.pipeline.jobs import JOBS
from zab.cli.pipeline.signatures import SESSION_OPTIONS, command_of
from zab.cli.terminal import count_of, say

__all__ = ["JobFile", "run_command"]

FILE_BYTES_MAX: Final = 1 << 20
JOBS_MAX: Final = 1_000
WRONG_TOLD: Final = 20
"""How many wrong lines are reported."""

_SESSION_NAMES: Final = {f"--{name.replace('_', '-')}" for name in SESSION_OPTIONS}
# The base class of typer's errors about wrong usage, which it does not export.
_WrongUsage: Final[Any] = typer.BadParameter.__mro__[1]


@frozen
class Line:
    """One job of the file; `number` is that of its line."""

    number: int
    name: str
    call: Call

    def run_in(self, driver: Driver) -> int:
        """Returns the exit code."""
        label = f"line {self.number}: "
        try:
            return self.call.run_in(driver, label)
        except typer.Exit as ending:
            return ending.exit_code
        except _WrongUsage as error:
            say(f"zab: {label}{error.format_message()}", sys.stderr)
            return USAGE


@frozen
class JobFile:
    """The jobs of a file, all of them right as far as that is known without looking at other files."""

    lines: list[Line]
    keep_going: bool
    spark: SparkOptions

    @property
    def all_read(self) -> list[str]:
        """The directories that the jobs read; empty if these are not all."""
        each = [line.call.all_read for line in self.lines]
        return [place for dirs in each for place in dirs] if all(each) else []

    def run_in(self, driver: Driver) -> int:
        """Run them in order, up to the first that does not end with 0 unless `keep_going`; return the highest code."""
        codes: list[int] = []
        for line in self.lines:
            sys.stdout.flush()
            say(f"{'' if line is self.lines[0] else chr(10)}==> line {line.number}: {line.name} <==")
            codes.append(line.run_in(driver))
            if codes[-1] and not self.keep_going:
                break
        self._tell(codes)
        return max(codes)

    def _tell(self, codes: list[int]) -> None:
        sys.stdout.flush()
        ended = [f"line {line.number} with {code}" for line, code in zip(self.lines, codes, strict=False) if code]
        left = len(self.lines) - len(codes)
        parts = [f"{count_of(len(codes) - len(ended), 'job')} done"]
        parts += [f"ended: {', '.join(ended)}"] if ended else []
        parts += [f"not run: {left}; --keep-going goes on after a job that does not end with 0"] if left else []
        say(f"zab: {'; '.join(parts)}", sys.stderr)


def run_command(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", show_default=False, help="One job a line, as after 'zab pipeline'; # comments."),
    ],
    keep_going: Annotated[bool, typer.Option("--keep-going", "-k", help="Continue after a job that fails.")] = False,
    spark_url: options.SparkUrl = None,
    memory: options.Memory = "2g",
    spark_log: options.SparkLog = "off",
) -> JobFile:
    """Run the jobs of a file one after the other in one Spark session. Exit code: the highest of theirs."""
    try:
        with open(file, "rb") as stream:
            content = stream.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        fail(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}")
    return JobFile(read_lines(file, content), keep_going, SparkOptions(spark_url, memory, spark_log))


def read_lines(file: str, content: bytes) -> list[Line]:
    """The jobs of a file. Reports each wrong line on standard error, then raises Exit with 2."""
    if len(content) > FILE_BYTES_MAX:
        _refuse([f"{file}: it is larger than {FILE_BYTES_MAX:,} bytes"])
    found: list[Line] = []
    wrong: list[str] = []
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            words = _words(line)
            if words:
                found.append(Line(number, words[0], _call(words)))
        except (_WrongUsage, ValueError) as error:
            sentence = error.format_message() if isinstance(error, _WrongUsage) else str(error)
            wrong.append(f"{file}: line {number}: {sentence}")
    if len(found) > JOBS_MAX:
        wrong.append(f"{file}: it has {len(found):,} jobs, and {JOBS_MAX:,} are the most")
    if not found and not wrong:
        wrong.append(f"{file}: it has no jobs")
    if wrong:
        _refuse(wrong)
    return found


def _refuse(wrong: list[str]) -> NoReturn:
    for sentence in wrong[:WRONG_TOLD]:
        say(f"zab: {sentence}", sys.stderr)
    if len(wrong) > WRONG_TOLD:
        say(f"zab: and {len(wrong) - WRONG_TOLD:,} more that are wrong", sys.stderr)
    raise typer.Exit(USAGE)


def _words(line: bytes) -> list[str]:
    """The words of a line; empty for a comment. Raises ValueError."""
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    if not text.replace("\t", " ").isprintable():
        raise ValueError("it has a control character")
    try:
        return shlex.split(text, comments=True)
    except ValueError as error:
        raise ValueError(f"{error}, and a job is one line".lower()) from None


@cache
def _commands() -> dict[str, Any]:
    """The commands that a file may have, by name."""
    app = typer.Typer()
    app.callback()(lambda: None)
    for name, job in JOBS.items():
        app.command(name)(command_of(name, job, has_session=False))
    return dict(typer.main.get_group(app).commands)


def _call(words: list[str]) -> Call:
    """The call for these words. Raises ValueError, and typer's errors."""
    name, *rest = words
    command = _commands().get(name)
    if command is None:
        raise ValueError(f"{name} is no job; there are {', '.join(JOBS)}")
    try:
        # --help makes no sense in a file.
        context = command.make_context(name, rest, help_option_names=[])
    except _WrongUsage as error:
        if getattr(error, "option_name", None) in _SESSION_NAMES:
            raise ValueError(f"{name}: {error.option_name} goes with run, for all jobs of the file") from None
        raise
    with context:
        call: Call = command.invoke(context)
    if call.is_endless:
        raise ValueError(f"{name} runs until Ctrl-C; in a file it needs --{call.job.ends_with}")
    assert call.job is JOBS[name]
    return call
