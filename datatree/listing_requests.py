"""Requests for lists of children that ZooKeeper does not have: ClickHouse Keeper's and this project's
(`datatree.requests`)."""

from attrs import define

from datatree.jute import JuteError, Reader, Writer

__all__ = ["FilteredList", "GetChildrenPage", "filtered_list", "filtered_list_with", "get_children_page"]


@define
class FilteredList:
    """The children that are persistent (`which` 1), ephemeral (2), or all (0). It is filteredListWithStatsAndData if
    `stats` and `data` are not None: whether to include these."""

    path: bytes
    watch: bool
    which: int
    stats: bool | None = None
    data: bool | None = None

    def encode(self) -> bytes:
        flags = [self.watch, self.which, *(flag for flag in (self.stats, self.data) if flag is not None)]
        return Writer().string(self.path).raw(bytes(flags)).getvalue()


@define
class GetChildrenPage:
    """The first `count` children, sorted by name, that follow `after` and begin with `prefix`; both may be empty."""

    path: bytes
    after: bytes
    prefix: bytes
    count: int

    def encode(self) -> bytes:
        return Writer().string(self.path).string(self.after).string(self.prefix).int(self.count).getvalue()


def _path(buffer: bytes, at: int) -> tuple[bytes, int]:
    reader = Reader(buffer, at)
    path = reader.string()
    if path is None:
        raise JuteError(f"null path at offset {at}")
    return path, reader.offset


def filtered_list(buffer: bytes, at: int) -> tuple[FilteredList, int]:
    path, end = _path(buffer, at)
    return FilteredList(path, buffer[end] != 0, buffer[end + 1]), end + 2


def filtered_list_with(buffer: bytes, at: int) -> tuple[FilteredList, int]:
    path, end = _path(buffer, at)
    watch, which, stats, data = buffer[end], buffer[end + 1], buffer[end + 2], buffer[end + 3]
    return FilteredList(path, watch != 0, which, stats != 0, data != 0), end + 4


def get_children_page(buffer: bytes, at: int) -> tuple[GetChildrenPage, int]:
    reader = Reader(buffer, at)
    path = reader.string()
    if path is None:
        raise JuteError(f"null path at offset {at}")
    return GetChildrenPage(path, reader.string() or b"", reader.string() or b"", reader.int()), reader.offset
