"""The output directory of `compact`: Parquet by ensemble, epoch and day, and a manifest that says what is in it.

    OUT/ensemble=E/epoch=N/day=YYYY-MM-DD/<first zxid>-<last zxid>.parquet
    OUT/_manifest.json          what is done, by ensemble: first and last zxid, transactions, rows, files, holes
    OUT/_aside-…                what a run is writing

Readers of Parquet ignore names that begin with an underscore. A run is committed in four steps, so that, wherever it is
killed, every transaction is in the output once when the next run has begun:

    1. every file is complete in the aside directory        killed before: the next run removes that directory
    2. the manifest says which files go where (`pending`)   from here on the next run goes on with the renames
    3. the files get their names, one rename each
    4. the manifest says what is done now; the aside directory is removed

Invariants: the manifest is replaced as a whole; a file in a partition never changes. Not supported: two runs at once on
one OUT. The later one to finish fails and says so, unless both reach step 2 at the same moment.
"""

import contextlib
import json
import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Final

from attrs import asdict, define, evolve, field, frozen

from zab.pipeline.errors import PipelineError
from zab.pipeline.places import Place, open_place

__all__ = ["Done", "Manifest", "Output", "partition"]

MANIFEST: Final = "_manifest.json"
ASIDE: Final = "_aside-"
VERSION: Final = 1
_FORMAT: Final = "zab compact"
# Names that Spark would not take for text: numbers, with Java's suffixes, and dates.
_NO_TEXT: Final = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?[dDfF]?|[+-]?(NaN|Infinity)|[0-9]{4}-[0-9]{1,2}(-.*)?")
_ESCAPED: Final = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")


@frozen
class Done:
    """What the output has of one ensemble. `holes`: (zxid, zxid with which the history goes on)."""

    kind: str
    lineage: str | None
    first: int
    last: int
    transactions: int = 0
    rows: int = 0
    files: int = 0
    holes: tuple[tuple[int, int], ...] = ()


@define
class Manifest:
    """The manifest. `pending`: renames (from, to), below OUT, still to be done. `ensembles`: the content after them."""

    ensembles: dict[str, Done] = field(factory=dict)
    pending: list[tuple[str, str]] = field(factory=list)

    def pack(self) -> bytes:
        text = {
            "format": _FORMAT,
            "version": VERSION,
            "ensembles": {name: asdict(done) for name, done in sorted(self.ensembles.items())},
            "pending": self.pending,
        }
        return (json.dumps(text, indent=1) + "\n").encode()

    @classmethod
    def unpack(cls, data: bytes, where: str) -> "Manifest":
        """Raises PipelineError for data that is not a manifest of this version."""
        try:
            found = json.loads(data)
            if found["format"] != _FORMAT or found["version"] != VERSION:
                raise PipelineError(f"{where} has format {found['format']} {found['version']}, not {_FORMAT} {VERSION}")
            done = {name: _done(values) for name, values in found["ensembles"].items()}
            return cls(done, [(str(source), str(target)) for source, target in found["pending"]])
        except (ValueError, KeyError, TypeError) as error:
            raise PipelineError(f"{where} is damaged: {error}") from None


def _done(values: dict[str, Any]) -> Done:
    holes = tuple((int(after), int(following)) for after, following in values.pop("holes"))
    return evolve(Done(**values), holes=holes)


def partition(ensemble: str, epoch: int, day: str) -> str:
    """The directory below OUT. Raises PipelineError for a name that a reader would take for a number or a date."""
    if not ensemble or _NO_TEXT.fullmatch(ensemble):
        raise PipelineError(
            f"the name {ensemble!r} of an ensemble reads as a number or a date in a directory of Parquet: give it "
            "another name, as NAME=DIR"
        )
    escaped = _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", ensemble)
    return f"ensemble={escaped}/epoch={epoch}/day={day}"


@contextlib.contextmanager
def _plainly(place: Place) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error).partition("\n")[0].rstrip(".")
        raise PipelineError(f"{place} cannot be written: {reason}") from None


class Output:
    """An opened OUT: what a killed run left is finished or removed. Raises PipelineError, as does every method."""

    def __init__(self, out: str) -> None:
        self.place = open_place(out.rstrip("/") or out)
        self._system = self.place.file_system
        self.manifest = Manifest()
        with _plainly(self.place):
            kind = self.place.kind()
            self._is_new = not kind
            if kind == "file":
                raise PipelineError(f"{self.place} is a file: name a directory")
            if kind:
                self._take_over()

    def _take_over(self) -> None:
        names = {entry.name for entry in self.place.list()}
        if MANIFEST not in names and (others := {name for name in names if not name.startswith(ASIDE)}):
            raise PipelineError(f"{self.place} holds {min(others)} and no {MANIFEST}: it is no output of compact")
        if MANIFEST in names:
            self.manifest = self._read()
            if self.manifest.pending:
                self._rename()
        for name in names:
            if name.startswith(ASIDE):
                self._system.delete_dir((self.place / name).path)

    def _read(self) -> Manifest:
        place = self.place / MANIFEST
        return Manifest.unpack(place.read(), str(place))

    def _write(self) -> None:
        aside = self.place / f"{ASIDE}{secrets.token_hex(4)}.json"
        with self._system.open_output_stream(aside.path) as stream:
            stream.write(self.manifest.pack())
        self._system.move(aside.path, (self.place / MANIFEST).path)

    def begin(self) -> Place:
        """A new aside directory."""
        aside = self.place / f"{ASIDE}{secrets.token_hex(4)}"
        with _plainly(self.place):
            self._system.create_dir(aside.path)
        return aside

    def abandon(self, aside: Place) -> None:
        """Remove what a failed run has written, unless the manifest already says that it is to be kept."""
        if self.manifest.pending:
            return
        with contextlib.suppress(OSError):
            self._system.delete_dir(aside.path)
            if self._is_new and not self.place.list():
                self._system.delete_dir(self.place.path)

    def commit(self, aside: Place, moves: Sequence[tuple[str, str]], ensembles: dict[str, Done]) -> None:
        """Make the files of this run part of the output. moves: (name in the aside directory, path below OUT)."""
        with _plainly(self.place):
            if (self.place / MANIFEST).kind() and self._read() != self.manifest:
                raise PipelineError(f"another run has written to {self.place} meanwhile: run it again")
            if not aside.kind():
                raise PipelineError(f"another run has begun on {self.place} meanwhile: let one run at a time")
            there = {entry.name for entry in aside.list()}
            missing = [name for name, _ in moves if name not in there]
            if missing:
                raise PipelineError(
                    f"the workers wrote parts of {self.place} to disks of their own ({missing[0]} is not on this "
                    "machine): give a directory that all machines share, or the URI of a store"
                )
            self.manifest.ensembles.update(ensembles)
            self.manifest.pending = [(f"{aside.name}/{name}", target) for name, target in moves]
            self._write()
            self._rename()
            self._system.delete_dir(aside.path)

    def _rename(self) -> None:
        """Do steps 3 and 4. A rename that was done already is skipped."""
        for source, target in self.manifest.pending:
            self._move(self.place / source, self.place / target)
        self.manifest.pending = []
        self._write()

    def _move(self, source: Place, target: Place) -> None:
        if source.kind() == "file":
            self._system.create_dir(target.parent.path)
            self._system.move(source.path, target.path)
        elif target.kind() != "file":
            raise PipelineError(f"{self.place} was changed from outside: {source} and {target} are both missing")
