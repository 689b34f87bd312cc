"""The fields of each command's JSON, out of its page, and a check of what a command printed."""

from __future__ import annotations

import re
from typing import Any

from tests.tidy.sources import ROOT

PAGE = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")


def table(section: str) -> dict[str, list[str]]:
    """The rows of a section's table: the fields by what is in the first column."""
    text = PAGE.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    found = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            first, fields = line.strip("|").split("|")[:2]
            for name in re.findall(r"`([^`]+)`", first):
                found[name.removeprefix("zab ")] = [field.strip() for field in fields.split(",")]
    return found


FIELDS = table("Commands")

OBJECTS = table("Objects")


def check(name: str, value: dict[str, Any]) -> None:
    """The fields of a line, and of the objects in it, with what they are."""
    assert list(value) == FIELDS[name]
    check_values(value)


def check_values(value: dict[str, Any]) -> None:
    for field, content in value.items():
        if field in OBJECTS:
            for each in content if isinstance(content, list) else [content] if content is not None else []:
                assert list(each) == OBJECTS[field]
                check_values(each)
        elif field.endswith("zxid") or field in ("session", "ephemeral_owner", "digest"):
            assert content is None or re.fullmatch("0x[0-9a-f]{1,16}", content)
        elif field in ("time", "ctime", "mtime"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", content)
        elif field == "encoding":
            assert content in ("utf-8", "base64", None)
