"""Builds wheels, with native parts for this machine or for another architecture of Linux, without a container.

    built           with the C compiler of this machine, if it has one
    built_for       with Zig's (PyPI's `ziglang`), for x86-64 or AArch64, from a tag of glibc on

Zig's compiler has the headers of each architecture, and the symbols of each version of glibc. Python's own headers are
those of this machine: between the two architectures, its `pyconfig.h` differs only in what is for the interpreter's own
sources. The tag is auditwheel's: it reads the architecture and the versions of symbols out of the native parts.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from zab.native import PARTS
from zab.service.version import VERSION

ROOT: Final = Path(__file__).parents[2]
ARCHITECTURES: Final = ("x86_64", "aarch64")
GLIBC_MINOR_MAX: Final = 28
"""glibc 2.28 is that of Debian 10 and RHEL 8. `pwritev2` needs 2.26."""
TOOLS: Final = ("ziglang", "auditwheel")

UNVERSIONED = """
import sys
from elftools.elf.elffile import ELFFile

for path in sys.argv[1:]:
    with open(path, "rb") as file:
        elf = ELFFile(file)
        versions = elf.get_section_by_name(".gnu.version")
        for number, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
            needed = symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["bind"] == "STB_GLOBAL"
            version = versions.get_symbol(number)["ndx"]
            if needed and isinstance(version, str) and not symbol.name.startswith(("Py", "_Py")):
                print(symbol.name)
"""
"""Prints the symbols that libraries need from glibc and that have no version: the glibc that is compiled for does not
have them, and neither the linker nor auditwheel says so."""


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    words, variables = [*map(str, command)], {**os.environ, **environment}
    done = subprocess.run(words, cwd=cwd, env=variables, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def built(python: str | Path, directory: Path, **environment: str) -> Path:
    """A wheel for this Python; the directory then has the sources, too."""
    # Not in the checkout: what the build leaves there would be part of the next wheel.
    source = directory / "source"
    run("git", "clone", "--quiet", "--local", ROOT, source, cwd=directory)
    command = (python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", directory, source)
    run(*command, cwd=directory, **environment)
    [wheel] = directory.glob("zab-*.whl")
    if wheel.name.split("-")[1] != VERSION:
        raise SystemExit(f"{wheel.name} is not of version {VERSION}")
    return wheel


def built_for(
    architecture: str, python: str | Path, tools: str | Path, directory: Path, target: str | None = None
) -> Path:
    """A wheel for this Python on an architecture. `tools` is a Python that has the TOOLS. `target` is what is compiled
    for, in Zig's words. Raises SystemExit where the native parts are not all there, or not of the architecture, or need
    a newer glibc."""
    compiler = f"{shlex.quote(str(tools))} -m ziglang cc -target "
    compiler += target or f"{architecture}-linux-gnu.2.{GLIBC_MINOR_MAX}"
    tag = run(python, "-c", "import sys; print(sys.implementation.cache_tag)", cwd=directory).strip()
    suffix = f".{tag}-{architecture}-linux-gnu.so"
    wheel = built(
        python,
        directory,
        CC=compiler,
        LDSHARED=f"{compiler} -shared",
        SETUPTOOLS_EXT_SUFFIX=suffix,
        _PYTHON_HOST_PLATFORM=f"linux-{architecture}",
    )
    missing = {f"zab/native/{part}{suffix}" for part in PARTS} - {*ZipFile(wheel).namelist()}
    if missing:
        raise SystemExit(f"{wheel.name} is without {', '.join(sorted(missing))}: {compiler} failed")
    with ZipFile(wheel) as archive:
        libraries = [archive.extract(name, directory / "parts") for name in archive.namelist() if name.endswith(suffix)]
    unversioned = run(tools, "-c", UNVERSIONED, *libraries, cwd=directory).split()
    if unversioned:
        raise SystemExit(f"{wheel.name} needs {', '.join(unversioned)}, which this glibc does not have")
    tagged = directory / "tagged"
    # Nothing has to be patched: the parts need no libraries but glibc's.
    run(tools, "-m", "auditwheel", "repair", "--patcher", "none", "--wheel-dir", tagged, wheel, cwd=directory)
    [wheel] = tagged.iterdir()
    found = re.search(rf"-manylinux_2_(\d+)_{architecture}\.whl$", wheel.name)
    if found is None or int(found[1]) > GLIBC_MINOR_MAX:
        raise SystemExit(f"{wheel.name} is not for {architecture} with glibc 2.{GLIBC_MINOR_MAX}")
    return wheel
