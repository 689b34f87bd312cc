"""The steps of a page, as they are run."""

import re


def steps(text: str) -> list[tuple[str, str]]:
    """(command, what it prints), of all console blocks."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.S)
    return [step for block in blocks for step in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.M)]
