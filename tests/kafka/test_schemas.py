"""The declarations against Kafka's own schemas, which kafka-python carries: each field's versions, kind and default."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.kafka.kafka_python import schema
from zab.kafka.apis import APIS
from zab.kafka.declare import LAYOUTS, VERSION_MAX, Field, Kind

CLASSES = [cls for api in APIS.values() for cls in (api.request, api.response) if schema(cls.__name__) is not None]
KINDS = {kind.value: kind for kind in Kind} | {"bool": Kind.BOOLEAN}


def range_of(text: str | None) -> range:
    """The versions that "3+", "2-7" or "4" stands for."""
    if text is None or text == "none":
        return range(0)
    first, _, last = text.rstrip("+").partition("-")
    return range(int(first), VERSION_MAX if text.endswith("+") else int(last or first) + 1)


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name.replace("V3AndBelow", "")).lower()


def test_how_many_there_are() -> None:
    assert len(CLASSES) == 2 * 47


@pytest.mark.parametrize("cls", CLASSES)
def test_a_message_is_declared_as_its_schema_says(cls: Any) -> None:
    layout = LAYOUTS[cls]
    found: Any = schema(cls.__name__)
    versions = layout.versions
    assert versions is not None
    assert layout.key == found["apiKey"]
    flexible = range_of(found["flexibleVersions"])
    for version in range(versions[0], versions[1] + 1):
        assert layout.is_flexible(version) == (version in flexible)
        compare(cls, found["fields"], version)


def compare(cls: Any, schemas: list[Any], version: int) -> None:
    """The fields of one version, in order."""
    present = [each for each in schemas if version in range_of(each["versions"])]
    ours = [field for field in LAYOUTS[cls].fields if field.is_in(version)]
    assert [field.name for field in ours] == [snake(each["name"]) for each in present]
    for field, each in zip(ours, present, strict=True):
        assert field.is_nullable(version) == (version in range_of(each.get("nullableVersions"))), field
        assert field.tag == each.get("tag"), field
        kind = each["type"].removeprefix("[]")
        assert field.is_array == each["type"].startswith("[]"), field
        if kind in KINDS:
            assert field.of is KINDS[kind], field
        else:
            compare(field.of, each["fields"], version)
        if "default" in each:
            assert field.default == default(field, str(each["default"])), field
    for field in LAYOUTS[cls].fields:
        each = next(each for each in schemas if snake(each["name"]) == field.name)
        if not field.is_in(version):
            assert field.ignorable == each.get("ignorable", False), field


def default(field: Field, text: str) -> object:
    if text in ("null", "true", "false"):
        return {"null": None, "true": True, "false": False}[text]
    return text if field.of is Kind.STRING else int(text, 0)
