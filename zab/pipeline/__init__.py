"""PySpark over logs and snapshots: a cluster's whole history as DataFrames.

Needs the extra `zab[pipeline]`; importing without it raises ModuleNotFoundError, which says so. The parts that
`zab restore` and `zab.operations.backup` use need only the extra `zab[backup]`: neither pandas nor PySpark. The names
below are imported from their modules when they are first used, so importing this package costs nothing. A job is a
function in the module of its name: `from zab.pipeline.jobs.audit import audit`.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zab.pipeline.errors import PipelineError
    from zab.pipeline.reading.frames import read_damage, read_log, register
    from zab.pipeline.reading.snapshot_source import read_snapshot

__all__ = ["PipelineError", "read_damage", "read_log", "read_snapshot", "register"]

_NEEDED = ("numpy", "pyarrow")
_NEEDED_BY_SPARK = ("pandas", "pyspark")
_MODULES = {
    "PipelineError": "errors",
    "read_damage": "reading.frames",
    "read_log": "reading.frames",
    "read_snapshot": "reading.snapshot_source",
    "register": "reading.frames",
}


def _check(*names: str) -> None:
    for name in names:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"zab.pipeline needs {name}: pip install 'zab[pipeline]'", name=name)


def check_spark() -> None:
    """Raise ModuleNotFoundError if Spark cannot be imported. Code that runs on Spark calls this first."""
    _check(*_NEEDED_BY_SPARK)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name != "PipelineError":
        check_spark()
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


_check(*_NEEDED)
