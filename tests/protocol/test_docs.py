"""The tables of `docs/explanation/zab.md` are those of the code."""

import re
from pathlib import Path
from typing import get_args

import pytest

from tests.tidy.sources import module_of, modules_imported
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.handlers import HANDLERS

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "explanation" / "zab.md").read_text(encoding="utf-8")


def rows(title: str) -> dict[str, list[str]]:
    section = TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]
    table = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")][2:]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in table}


@pytest.mark.parametrize(("title", "kinds"), [("Events", get_args(ev.Event)), ("Effects", get_args(fx.Effect))])
def test_events_and_effects_are_documented_as_they_say_themselves(title: str, kinds: tuple[type, ...]) -> None:
    assert rows(title) == {kind.__name__: [" ".join((kind.__doc__ or "").split())] for kind in kinds}


def test_every_message_has_its_row_with_its_number_and_handlers() -> None:
    table = rows("Messages")
    assert table.keys() == {kind.__name__ for kind in msg.MESSAGES}
    for kind in msg.MESSAGES:
        number, _, _, handlers = table[kind.__name__]
        assert int(number) == kind.TYPE
        named = {name for name in re.findall(r"`(\w+)`", handlers) if name.startswith(("leader_", "learner_"))}
        used = {handler.__name__ for (_, _, handled), handler in HANDLERS.items() if handled is kind}
        assert used <= named, kind


def test_each_module_imports_only_what_comes_before_it_on_the_page() -> None:
    order = TEXT.split("imports only what comes before it here:\n\n```\n")[1].split("```")[0].split()
    room = "zab.protocol."
    modules = {module_of(path): path for path in (ROOT / "zab/protocol").glob("*.py") if path.stem != "__init__"}
    assert sorted(room + name for name in order) == sorted(modules)
    for place, name in enumerate(order):
        own = {module.removeprefix(room) for module in modules_imported(modules[room + name]) & modules.keys()}
        assert own <= set(order[:place]), name


def test_every_file_that_is_named_exists() -> None:
    for name in re.findall(r"`((?:zab|tests|docs)/[\w/]+\.\w+)`", TEXT):
        assert (ROOT / name).exists(), name
