"""The reference that `make api` writes: it is made without a complaint, and has every name that programs may import."""

import importlib
import inspect
import re
import warnings
from pathlib import Path

import pytest

MAKEFILE = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")
MODULES = re.search(r"^API := ((?:.*\\\n)*.*)$", MAKEFILE, re.M)[1].replace("\\\n", "").split()  # type: ignore[index]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import pdoc

    directory = tmp_path_factory.mktemp("api")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        pdoc.render.configure(show_source=False)
        pdoc.pdoc(*MODULES, output_directory=directory)
    return directory


def public_names(module: str) -> list[str]:
    """The names in `__all__`; without one, the classes and functions that the module defines."""
    found = importlib.import_module(module)
    own = {name: value for name, value in vars(found).items() if inspect.isroutine(value) or inspect.isclass(value)}
    made = [name for name, value in own.items() if value.__module__ == module and not name.startswith("_")]
    return getattr(found, "__all__", made)


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(pages: Path, module: str) -> None:
    page = (pages / f"{module.replace('.', '/')}.html").read_text(encoding="utf-8")
    names = public_names(module)
    assert names
    assert [name for name in names if f'id="{name}"' not in page] == []


def test_the_reference_has_what_programs_use() -> None:
    assert {"zab.client", "zab.client.aio", "zab.client.sync", "zab.client.recipes", "zab.testing.ensemble"} <= {
        *MODULES
    }
