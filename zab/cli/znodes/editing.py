"""`zab edit`: a znode's data in an editor.

    read the data and its version -> $VISUAL, $EDITOR, or vi -> set, if that version is still the last

The text is in a file that only its owner can read. The file is removed when the data was set, or not changed; otherwise
it stays, and its path is printed: after BADVERSION, when another client was faster, after any other refusal, and after
an interrupt. So no text is lost.

Many editors end every file with a newline. If the data had none, it is removed again.

Data that is not text is refused, unless it is edited as hexadecimal digits (`--hex`), with any blanks and newlines.

While the editor runs, Ctrl-C goes to the editor.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from zab.cli.exits import fail
from zab.cli.terminal import is_text, say
from zab.cli.znodes.caller import Caller, options_of, perform
from zab.cli.znodes.options import PathArgument
from zab.client import BadVersionError, Client, Stat

__all__ = ["edit_command"]

_SUFFIX: Final = re.compile(r"\.[A-Za-z0-9]{1,12}\Z")
_HEX_BYTES_A_LINE: Final = 16


def edit_command(
    context: typer.Context,
    path: PathArgument,
    as_hex: Annotated[bool, typer.Option("-x", "--hex", help="Edit the data as hexadecimal digits.")] = False,
) -> None:
    """The editor is $VISUAL, or $EDITOR, or vi."""
    words = _editor()
    read: list[tuple[bytes, Stat]] = []

    async def get(zk: Client, _caller: Caller) -> None:
        data, stat = await zk.get(path)
        read.append((data or b"", stat))

    perform(context, get)
    [(data, stat)] = read
    if not as_hex and not is_text(data.replace(b"\r\n", b"\n")):
        fail(f"{path}: its data is no text; --hex edits it as hexadecimal digits")
    before = _digits(data) if as_hex else data
    with _kept_file(before, ".txt" if as_hex else _suffix(path)) as file:
        _run_editor(words, file)
        after = _read(file, before, len(before) + 4 * options_of(context).jute_maxbuffer_bytes)
        if after == before:
            say("zab: nothing is changed", sys.stderr)
            file.unlink()
            return
        changed = _of_digits(after) if as_hex else after

        async def change(zk: Client, _caller: Caller) -> None:
            try:
                await zk.set(path, changed, stat.version)
            except BadVersionError:
                raise BadVersionError(path, detail="somebody else has changed it meanwhile") from None

        perform(context, change)
        file.unlink()


def _editor() -> list[str]:
    """The words of the editor's command. Raises BadParameter."""
    for name in ("VISUAL", "EDITOR"):
        text = os.environ.get(name, "").strip()
        if text:
            try:
                return shlex.split(text)
            except ValueError as error:
                raise typer.BadParameter(f"${name} cannot be read: {error}") from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise typer.BadParameter("vi needs a terminal: set $EDITOR to an editor that needs none, or use get and set")
    return ["vi"]


def _suffix(path: str) -> str:
    """The suffix by which the editor recognizes the kind of text: that of the znode's name, if it is a plain one."""
    found = _SUFFIX.search(path)
    return ".txt" if found is None else found[0]


@contextmanager
def _kept_file(before: bytes, suffix: str) -> Iterator[Path]:
    """A file with this content. Its path is printed if the block leaves other content in it."""
    descriptor, name = tempfile.mkstemp(prefix="zab-edit-", suffix=suffix)
    file = Path(name)
    try:
        with open(descriptor, "wb") as writing:
            writing.write(before)
        yield file
    finally:
        if file.exists() and file.read_bytes() == before:
            file.unlink()
        elif file.exists():
            sys.stdout.flush()
            say(f"zab: your text is in {file}", sys.stderr, flush=True)


def _run_editor(words: list[str], file: Path) -> None:
    try:
        with _interrupts_left_alone():
            code = subprocess.run([*words, str(file)], check=False).returncode
    except OSError as error:
        fail(f"the editor {words[0]} cannot be run: {error.strerror}; $EDITOR names another")
    if code:
        fail(f"the editor {words[0]} ended with {code}: nothing is set")


@contextmanager
def _interrupts_left_alone() -> Iterator[None]:
    """Ctrl-C also reaches the editor. In the shell's thread, the shell handles it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Not SIG_IGN: the editor would inherit that.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _read(file: Path, before: bytes, bytes_max: int) -> bytes:
    try:
        with file.open("rb") as reading:
            after = reading.read(bytes_max + 1)
    except OSError as error:
        fail(f"{file}: it cannot be read: {error.strerror}; nothing is set")
    if len(after) > bytes_max:
        fail(f"{file}: it is larger than any request; nothing is set")
    if after.endswith(b"\n") and not before.endswith(b"\n"):
        return after[:-1]
    return after


def _digits(data: bytes) -> bytes:
    lines = (data[at : at + _HEX_BYTES_A_LINE].hex(" ") for at in range(0, len(data), _HEX_BYTES_A_LINE))
    return "".join(f"{line}\n" for line in lines).encode()


def _of_digits(text: bytes) -> bytes:
    try:
        return bytes.fromhex(text.decode("ascii"))
    except ValueError as error:
        fail(f"these are no hexadecimal digits: {error}; nothing is set")
