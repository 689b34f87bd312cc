"""An object store in memory that fails, forgets and damages at a chosen step: for tests of copies of ledgers."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field


@define(eq=False)
class MemoryObjects:
    """All directories of a store, by their URI. `before`: called in a thread with each step and its name (create,
    write, commit, size, read, names, remove), before it is done. What it raises, the step raises."""

    files: dict[str, bytes] = field(factory=dict)
    before: Callable[[str, str], None] = lambda _step, _name: None
    asked: list[tuple[str, str]] = field(factory=list)
    damage: Callable[[str, bytes], bytes] = lambda _name, data: data
    """What a read returns in place of what is there."""

    def open(self, uri: str) -> Directory:
        return Directory(self, uri)

    def step(self, step: str, name: str) -> None:
        self.asked.append((step, name))
        self.before(step, name)


@define(eq=False)
class Directory:
    store: MemoryObjects
    uri: str

    def _at(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def names(self) -> list[str]:
        self.store.step("names", "")
        prefix = self._at("")
        return sorted(each.removeprefix(prefix) for each in self.store.files if each.startswith(prefix))

    def _found(self, name: str) -> bytes:
        try:
            return self.store.files[self._at(name)]
        except KeyError:
            raise FileNotFoundError(name) from None

    def size(self, name: str) -> int:
        self.store.step("size", name)
        return len(self._found(name))

    def read(self, name: str, offset: int, length: int) -> bytes:
        self.store.step("read", name)
        return self.store.damage(name, self._found(name)[offset : offset + length])

    def create(self, name: str) -> NewFile:
        self.store.step("create", name)
        return NewFile(self, name)

    def remove(self, name: str) -> None:
        self.store.step("remove", name)
        self.store.files.pop(self._at(name), None)


@define(eq=False)
class NewFile:
    directory: Directory
    name: str
    data: bytes = b""

    def write(self, data: bytes) -> None:
        self.directory.store.step("write", self.name)
        self.data += data

    def commit(self) -> None:
        self.directory.store.step("commit", self.name)
        self.directory.store.files[f"{self.directory.uri}/{self.name}"] = self.data

    def abort(self) -> None:
        pass
