"""How a failing job of `zab pipeline` ends: with one sentence on standard error, and exit code 1.

That applies to everything wrong with the user's directories, ranges, outputs or cluster; Spark's own exceptions become
one sentence, too.
"""

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import Final

from zab.cli.exits import fail

__all__ = ["plain_end", "spark_errors", "spark_sentence"]

_NO_SPACE: Final = "No space left on device"
_CAUSE: Final = re.compile(r"^(?:E\s+)?(?:Caused by: )?(?:[\w.$]+(?:Exception|Error)): (.+)$", re.MULTILINE)
_ERROR_CLASS: Final = re.compile(r"^\[[A-Z_.]+\]\s*")
# Packages of the extra zab[pipeline], which may be missing.
_EXTRA: Final = {"pyspark", "pyarrow", "pandas", "numpy", "matplotlib", "py4j"}


@contextlib.contextmanager
def plain_end(label: str = "") -> Iterator[None]:
    """Turn errors that the user can fix into a sentence that begins with `label`, and exit code 1."""
    try:
        yield
    except _refusals() as error:
        fail(f"{label}{error}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        fail(f"{label}the pipeline needs {error.name}: pip install 'zab[pipeline]'")
    except BrokenPipeError:
        # The reader of standard output has gone: `zab.cli.main` ends the command.
        raise
    except OSError as error:
        fail(f"{label}{error}")
    except spark_errors() as error:
        from zab.pipeline.spark_session import whole_text

        fail(f"{label}{spark_sentence(whole_text(error))}")


def _refusals() -> tuple[type[BaseException], ...]:
    """The pipeline's own error. Without the extra, no part of it can be imported."""
    if "zab.pipeline.errors" not in sys.modules:
        return ()
    from zab.pipeline.errors import PipelineError

    return (PipelineError,)


def spark_errors() -> tuple[type[BaseException], ...]:
    """The exceptions of Spark; none as long as it was not imported."""
    if "pyspark" not in sys.modules:
        return ()
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError


def spark_sentence(text: str) -> str:
    """One sentence for the user from the text of Spark's exception, stack traces included."""
    if _NO_SPACE in text:
        return "the disk with Spark's temporary files is full; SPARK_LOCAL_DIRS names another"
    if "OutOfMemoryError" in text or "SparkOutOfMemory" in text:
        return "Spark ran out of memory; --memory gives it more"
    causes = [found[1] for found in _CAUSE.finditer(text)]
    reason = next((cause for cause in reversed(causes) if not cause.startswith("Job aborted")), "")
    reason = reason or next((line for line in text.splitlines() if line.strip()), "")
    reason = _ERROR_CLASS.sub("", reason).strip().rstrip(".")
    return f"Spark failed: {reason or 'it did not say why'}; --spark-log error shows more"
