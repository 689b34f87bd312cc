"""`zab completion bash|zsh|fish`: the script that makes a shell complete commands, options, and paths of the live tree.

    source <(zab completion bash)               in ~/.bashrc
    source <(zab completion zsh)                in ~/.zshrc, after compinit
    zab completion fish | source                in ~/.config/fish/config.fish

The script calls `zab` again, with the name of the shell in $_ZAB_COMPLETE and the line up to the cursor in $_ZAB_LINE,
and takes what it prints, one candidate a line. typer provides the candidates, and `zab.cli.znodes.paths` those for
paths. It never writes to standard error, reads standard input, or asks for a password. Without candidates the shell
completes file names.

Names in the tree are not trusted. zsh and fish quote candidates themselves, and never evaluate them; for bash they are
quoted here, like the word that was begun. Names with control characters are not completed.

typer's own scripts were rejected: the one for zsh evaluates what is printed, including names of znodes.
"""

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Annotated, Any, Final

import typer

from zab.cli.arguments import arrange
from zab.cli.terminal import in_line
from zab.cli.unfinished_line import IN_SHELLS, split_line

__all__ = ["LINE_VARIABLE", "SHELL_VARIABLE", "Shell", "candidates", "completion_command"]

SHELL_VARIABLE: Final = "_ZAB_COMPLETE"
LINE_VARIABLE: Final = "_ZAB_LINE"
_PLAIN: Final = re.compile(r"[^\w@%+,./~:=-]", re.ASCII)
_BREAKS: Final = ":="
"""The characters at which bash begins a new word, so that what precedes them stays as it is."""
_WITHIN: Final = {"'": "'", '"': '"\\$`!'}
"""The characters that must be escaped inside these quotes."""

_SCRIPTS: Final = {
    "bash": """\
_zab_completion() {
    local candidate
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("$candidate")
    done < <(_ZAB_COMPLETE=bash _ZAB_LINE="${COMP_LINE:0:COMP_POINT}" "$1" 2>/dev/null </dev/null)
    if [[ ${COMPREPLY[0]-} == */* ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}
complete -o default -F _zab_completion zab
""",
    "zsh": """\
#compdef zab
_zab_completion() {
    local -a candidates
    local line="${(pj: :)words[1,CURRENT]}"
    candidates=("${(@f)$(_ZAB_COMPLETE=zsh _ZAB_LINE="$line" "${words[1]}" 2>/dev/null </dev/null)}")
    if [[ -z ${candidates[1]} ]]; then
        _files
    elif [[ ${candidates[1]} == /* ]]; then
        compadd -S '' -- "${candidates[@]}"
    else
        compadd -- "${candidates[@]}"
    fi
}
compdef _zab_completion zab
""",
    "fish": """\
function _zab_completion
    set --local line (commandline --cut-at-cursor --current-process | string collect)
    _ZAB_COMPLETE=fish _ZAB_LINE=$line zab 2>/dev/null </dev/null
end
complete --command zab --no-files --arguments '(_zab_completion)'
complete --command zab --condition 'test -z "$(_zab_completion)"' --force-files
""",
}


class Shell(Enum):
    """The shells for which there is a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion_command(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell.", show_default=False)],
) -> None:
    """bash: source <(zab completion bash) in ~/.bashrc. zsh: the same in ~/.zshrc, after compinit. fish: zab completion
    fish | source in config.fish.
    """
    print(_SCRIPTS[shell.value], end="")


def candidates(shell: str, line: str, command_of: Callable[[str | None], Any]) -> list[str]:
    """What the last word of the line may become, as the shell wants it. command_of: what is called by that name."""
    words, typed, word = split_line(line, IN_SHELLS)
    called, arranged = arrange(words[1:])
    found = _ask_typer(command_of(called), called, [*arranged, word])
    clean = [each for each in found if in_line(each) == each]
    return [text for each in clean if (text := _for_bash(each, typed)) is not None] if shell == "bash" else clean


def _ask_typer(command: Any, called: str | None, words: list[str]) -> list[str]:
    """typer's candidates for the last of these words; it takes them from the environment, and prints its answer."""
    from typer.completion import get_completion_inspect_parameters, shell_complete

    # It makes the shells known, too.
    get_completion_inspect_parameters()
    os.environ["COMP_WORDS"] = shlex.join(["zab", *words])
    os.environ["COMP_CWORD"] = str(len(words))
    said = io.StringIO()
    # A profile that is broken, and whatever else there is to say, is said when the command is called.
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()), _no_input():
        shell_complete(command, {"obj": called}, "zab", SHELL_VARIABLE, "complete_bash")
    return [line for line in said.getvalue().split("\n") if line]


@contextlib.contextmanager
def _no_input() -> Iterator[None]:
    """Neither identities nor a password are asked for."""
    before = sys.stdin
    with open(os.devnull, encoding="utf-8") as nothing:
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = before


def _for_bash(candidate: str, typed: str) -> str | None:
    """The candidate as typed in the line, or after the last break of the word; None if it cannot be typed there."""
    quote = typed[:1] if typed[:1] in _WITHIN else ""
    if quote:
        return None if any(each in candidate for each in _WITHIN[quote]) else candidate
    text = _PLAIN.sub(lambda found: f"\\{found[0]}", candidate)
    begun = max(map(typed.rfind, _BREAKS)) + 1
    return text[begun:] if text.startswith(typed[:begun]) else None
