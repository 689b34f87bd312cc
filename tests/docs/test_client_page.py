"""docs/reference/client.md and recipes.md: each example is run, and prints what the page says."""

import contextlib
import io
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.rigs.in_process import members_here
from zab.client import connect, recipes, sync
from zab.testing.ensemble import Ensemble

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE, RECIPES = [(REFERENCE / name).read_text(encoding="utf-8") for name in ("client.md", "recipes.md")]
EXAMPLES = [
    pytest.param(heading, kind, code, said, id=heading.lower().replace(" ", "-") + f"-{number}")
    for heading, section in re.findall(r"^#+ (.*?)$(.*?)(?=^#+ |\Z)", PAGE + RECIPES, re.M | re.S)
    for number, (kind, code, said) in enumerate(
        re.findall(r"^```python( blocking| program)?\n(.*?)^```\n```\n(.*?)^```$", section, re.M | re.S)
    )
]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    with members_here(1, {"keeperExtensionsEnabled": "true"}) as running:
        yield running


@pytest.mark.parametrize(("heading", "kind", "code", "said"), EXAMPLES)
def test_an_example_does_what_it_says(
    ensemble: Ensemble, heading: str, kind: str, code: str, said: str, request: pytest.FixtureRequest
) -> None:
    root = f"/{re.sub('[^a-z0-9]+', '-', request.node.name)}"
    with sync.connect(ensemble.hosts) as zk:
        zk.create(root)
    printed = io.StringIO()
    code = code.replace("127.0.0.1:2181", ensemble.hosts + root)
    with contextlib.redirect_stdout(printed):
        if kind == " program":
            exec(code, {})
        elif kind:
            with sync.connect(ensemble.hosts + root) as zk:
                exec(code, {"zk": zk})
        else:
            trio.run(run, ensemble.hosts + root, code)
    assert printed.getvalue() == said


async def run(hosts: str, code: str) -> None:
    """The example as the body of a function, with two clients."""
    made: dict[str, Any] = {}
    exec(f"async def example(zk, other):\n{textwrap.indent(code, '    ')}", made)
    async with connect(hosts) as zk, connect(hosts) as other:
        with trio.fail_after(30):
            await made["example"](zk, other)


def test_each_recipe_has_an_example_and_every_example_is_run() -> None:
    assert (PAGE + RECIPES).count("```python") == len(EXAMPLES)
    shown = "".join(code for _, _, code, _ in (example.values for example in EXAMPLES))
    made = [name for name in recipes.__all__ if name[0].isupper() and callable(getattr(recipes, name).__init__)]
    handed_out = {"BadDataError", "Delta", "DeltaKind", "Deltas", "Entry", "Following", "Held", "Leaders", "Leased"}
    handed_out |= {"Members", "Taken", "Values", "Barrier"}
    assert [name for name in made if name not in shown and name not in handed_out] == []
