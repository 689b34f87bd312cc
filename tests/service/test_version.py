"""The version of the package: its one place, and what tools read of it."""

import re
import tomllib
from pathlib import Path

from kazoo.client import ENVI_VERSION

from tests.tidy.sources import ROOT
from zab.service import version
from zab.service.version import VERSION, shown


def test_the_build_takes_it_from_the_module() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": f"{version.__name__}.VERSION"}
    path = Path(version.__file__)
    assert re.findall(r'^VERSION = "(.*)"$', path.read_text(encoding="utf-8"), re.M) == [VERSION]


def test_it_is_semantic() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", VERSION)


def test_tools_read_zookeepers_digits_and_tell_two_versions_of_ours_apart() -> None:
    found = ENVI_VERSION.match(shown())
    assert found is not None
    assert found.group(1) == "3.9.5"
    assert re.fullmatch(r"\d+\.\d+\.\d+-[^, ]+, built on \d{4}-\d\d-\d\d \d\d:\d\d UTC", shown())
    assert len({shown("0.1.0"), shown("0.1.1"), shown("0.2.0")}) == 3
