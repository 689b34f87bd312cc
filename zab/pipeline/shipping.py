"""The archive of this project's packages from which a cluster's workers run the pipeline.

A worker's Python needs what the extra `zab[pipeline]` installs (pyarrow, numpy, pandas, attrs, cbor2), but not the
project itself: Spark sends it this archive. The archive precedes an installed copy on the workers' path, so driver and
workers always run the same code. The same sources give the same bytes, and the name contains their checksum.
"""

import importlib
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Final
from zlib import crc32

from zab.pipeline.errors import PipelineError

__all__ = ["package_archive"]

PACKAGES: Final = ("datatree", "session", "zab")
_LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)


def package_archive(directory: Path | str) -> Path:
    """Write `zab-<checksum>.zip` into `directory` (created if missing), for `--py-files`; return its path.

    Raises PipelineError where the sources are not in files or the directory cannot be written."""
    sources = [
        (path.relative_to(root.parent).as_posix(), path.read_bytes())
        for root in map(_root_of, PACKAGES)
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    ]
    checksum = 0
    for name, content in sources:
        checksum = crc32(content, crc32(name.encode(), checksum))
    target = Path(directory) / f"zab-{checksum:08x}.zip"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(prefix="zab-", suffix=".tmp", dir=target.parent)
        with open(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sources:
                archive.writestr(zipfile.ZipInfo(name, _LONG_AGO), content, zipfile.ZIP_DEFLATED)
        # Workers may run as others.
        os.chmod(aside, 0o644)
        os.replace(aside, target)
    except OSError as error:
        raise PipelineError(f"cannot write the archive for the workers: {error}") from None
    return target


def _root_of(package: str) -> Path:
    file = importlib.import_module(package).__file__
    root = Path(file).parent if file is not None else Path(package)
    if not root.is_dir():
        raise PipelineError(
            f"the sources of {package} are not in files ({root}): they cannot be packed for the workers"
        )
    return root
