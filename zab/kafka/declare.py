"""How a message is declared: a class per struct, whose fields say in which versions they are, and as what.

    @request(ApiKey.METADATA, versions=(0, 12), flexible_since=9)
    class MetadataRequest:
        topics: tuple[MetadataRequestTopic, ...] | None = array(MetadataRequestTopic, nullable_since=1)
        allow_auto_topic_creation: bool = boolean(since=4, default=True)

The words are those of Kafka's own schemas:

| argument | meaning |
|---|---|
| `since`, `until` | the versions that have the field, both inclusive |
| `nullable_since` | from which version on it may be null |
| `default` | its value where a version lacks it or a tagged field is absent; without it: 0, "", no elements |
| `ignorable` | a version that lacks it drops its value; else only the default can be encoded there |
| `tag` | it is a tagged field, written only if it differs from the default |

Fields are in the order of the wire. A constructor takes them by name, and requires those that have no `default`.
Instances are immutable for the type checker only: enforced at run time, it would double the cost of making one. Arrays
are tuples, so equal messages have equal hashes.

Not here: how they are read and written (`codec.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar, cast, dataclass_transform

import attrs

from zab.kafka.primitives import ZERO_UUID

T = TypeVar("T")


@enum.unique
class Kind(enum.Enum):
    """What a value is, if it is not a struct."""

    BOOLEAN = "boolean"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"


ZEROS: Final[dict[Kind, object]] = {
    Kind.BOOLEAN: False,
    Kind.INT8: 0,
    Kind.INT16: 0,
    Kind.INT32: 0,
    Kind.INT64: 0,
    Kind.FLOAT64: 0.0,
    Kind.UUID: ZERO_UUID,
    Kind.STRING: "",
    Kind.BYTES: b"",
    Kind.RECORDS: b"",
}

Of: TypeAlias = "Kind | type"
"""A kind, or the class of a struct."""

VERSION_MAX: Final = 0x7FFF
_METADATA: Final = "zab.kafka"
_REQUIRED: Final = object()


@attrs.frozen
class Field:
    """One declared field. `of` is what the value is, or what each element is if `is_array`."""

    name: str
    of: Of
    is_array: bool
    since: int
    until: int
    nullable_since: int | None
    default: Any
    ignorable: bool
    tag: int | None

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    def is_nullable(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since


@attrs.frozen
class Layout:
    """The declaration of one class. `versions` is None for a struct inside messages, whose versions are theirs, and
    `key` for what is no message."""

    key: int | None
    fields: tuple[Field, ...]
    versions: tuple[int, int] | None
    flexible_since: int | None

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since


LAYOUTS: Final[dict[type, Layout]] = {}


# --------------------------------------------------------------------------------------------------------------- fields


def _field(
    of: Of,
    since: int,
    until: int,
    nullable_since: int | None,
    default: object,
    ignorable: bool,
    tag: int | None,
    is_array: bool = False,
) -> Any:
    is_required = default is _REQUIRED
    if is_required:
        default = () if is_array else ZEROS[of] if isinstance(of, Kind) else None
    assert tag is None or not is_required, "a tagged field has a default"
    declared = Field("", of, is_array, since, until, nullable_since, default, ignorable, tag)
    return attrs.field(default=attrs.NOTHING if is_required else default, metadata={_METADATA: declared})


def _kind(kind: Kind) -> Callable[..., Any]:
    def field(
        *,
        since: int = 0,
        until: int = VERSION_MAX,
        nullable_since: int | None = None,
        default: object = _REQUIRED,
        ignorable: bool = False,
        tag: int | None = None,
    ) -> Any:
        return _field(kind, since, until, nullable_since, default, ignorable, tag)

    return field


boolean = _kind(Kind.BOOLEAN)
int8 = _kind(Kind.INT8)
int16 = _kind(Kind.INT16)
int32 = _kind(Kind.INT32)
int64 = _kind(Kind.INT64)
float64 = _kind(Kind.FLOAT64)
uuid = _kind(Kind.UUID)
string = _kind(Kind.STRING)
bytes_ = _kind(Kind.BYTES)
records = _kind(Kind.RECORDS)


def array(
    of: Of,
    *,
    since: int = 0,
    until: int = VERSION_MAX,
    nullable_since: int | None = None,
    default: object = _REQUIRED,
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    """A tuple of values of a kind, or of structs."""
    return _field(of, since, until, nullable_since, default, ignorable, tag, is_array=True)


def struct(
    of: type,
    *,
    since: int = 0,
    until: int = VERSION_MAX,
    nullable_since: int | None = None,
    default: object = _REQUIRED,
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    """One struct. If versions lack it, or it is tagged, it needs a `default`."""
    return _field(of, since, until, nullable_since, default, ignorable, tag)


# -------------------------------------------------------------------------------------------------------------- classes


def _declared(cls: type[T], key: int | None, versions: tuple[int, int] | None, flexible_since: int | None) -> type[T]:
    made = attrs.define(cls, kw_only=True, eq=True, unsafe_hash=True, slots=True)
    fields = []
    for each in attrs.fields(cast(Any, made)):
        declared: Field = each.metadata[_METADATA]
        field = attrs.evolve(declared, name=each.name)
        is_nested = isinstance(field.of, type) and not field.is_array
        always = field.since == 0 and field.until == VERSION_MAX and field.tag is None
        assert not is_nested or always or each.default is not attrs.NOTHING, f"{each.name} needs a default"
        fields.append(field)
    LAYOUTS[made] = Layout(key, tuple(fields), versions, flexible_since)
    return made


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(boolean, int8, int16, int32, int64, float64, uuid, string, bytes_, records, array, struct),
)
def nested(cls: type[T]) -> type[T]:
    """Declares a struct inside messages."""
    return _declared(cls, None, None, None)


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(boolean, int8, int16, int32, int64, float64, uuid, string, bytes_, records, array, struct),
)
def versioned(*, versions: tuple[int, int], flexible_since: int | None = None) -> Callable[[type[T]], type[T]]:
    """Declares what has versions of its own and is no message, such as the value of a record."""
    return lambda cls: _declared(cls, None, versions, flexible_since)


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(boolean, int8, int16, int32, int64, float64, uuid, string, bytes_, records, array, struct),
)
def request(key: int, *, versions: tuple[int, int], flexible_since: int | None = None) -> Callable[[type[T]], type[T]]:
    """Declares the body of a request. `versions` are those that can be read and written, both inclusive."""
    return lambda cls: _declared(cls, key, versions, flexible_since)


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(boolean, int8, int16, int32, int64, float64, uuid, string, bytes_, records, array, struct),
)
def response(key: int, *, versions: tuple[int, int], flexible_since: int | None = None) -> Callable[[type[T]], type[T]]:
    """Declares the body of a response. `versions` are those that can be read and written, both inclusive."""
    return lambda cls: _declared(cls, key, versions, flexible_since)


def default_of(cls: type, name: str) -> Any:
    """The very object that an instance has in this field if it was made without it."""
    return next(field.default for field in LAYOUTS[cls].fields if field.name == name)
