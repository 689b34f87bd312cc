"""Fuzzing with coverage, as `make fuzz` does it: each target of `targets` for its share of the time.

    python -m tests.fuzz.fuzzer [--seconds 600] [TARGET…]

What is found is in `fuzz/crashes/TARGET-…`, and the command exits with 1. It becomes a test when it is moved into
`tests/testdata/fuzz/TARGET`. What reached new code stays in `fuzz/corpus/TARGET`, from where the next run goes on.

It needs `atheris` (`pip install -e '.[fuzz]'`), which instruments the modules of the product before they are imported:
so each target has a process of its own, and the targets are imported in it. What is compiled of the product is used,
without coverage.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REGRESSIONS = Path(__file__).parents[1] / "testdata" / "fuzz"
PLACE = Path("fuzz")
INPUT_BYTES_MAX = 4096
INPUT_SECONDS_MAX = 5


def kept(name: str) -> Iterator[bytes]:
    """What was found once."""
    for path in sorted((REGRESSIONS / name).glob("*")):
        yield path.read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.fuzzer")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--in-this-process", action="store_true")
    parser.add_argument("names", nargs="*", metavar="TARGET")
    options = parser.parse_args()
    if options.in_this_process:
        [name] = options.names
        _fuzz(name, options.seconds)
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not there: pip install -e '.[fuzz]'")
        return 2
    return _fuzz_each(options.names or _names(), options.seconds)


def _names() -> list[str]:
    from tests.datatree.native_worlds import IS_COMPILED
    from tests.fuzz.native_targets import NATIVE
    from tests.fuzz.targets import TARGETS

    if IS_COMPILED:
        return list(TARGETS)
    print(f"nothing is compiled here, or it is switched off: without {', '.join(NATIVE)}")
    return [name for name in TARGETS if name not in NATIVE]


def _fuzz_each(names: list[str], seconds: int) -> int:
    (PLACE / "crashes").mkdir(parents=True, exist_ok=True)
    found = []
    for number, name in enumerate(names, 1):
        share = max(1, seconds // len(names))
        print(f"{number}/{len(names)} {name}: {share} s", flush=True)
        command = [sys.executable, "-m", "tests.fuzz.fuzzer", "--in-this-process", "--seconds", str(share), name]
        if subprocess.run(command, check=False).returncode:
            found.append(name)
    if found:
        print(f"found in {', '.join(found)}: see {PLACE / 'crashes'}")
    return 1 if found else 0


def _fuzz(name: str, seconds: int) -> None:
    """Does not return."""
    import atheris

    with atheris.instrument_imports(include=["zab", "datatree", "session"]):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    corpus = PLACE / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, example in enumerate([*target.examples(), *kept(name)]):
        (corpus / f"example-{number}").write_bytes(example)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={INPUT_SECONDS_MAX}",
        "-rss_limit_mb=1024",
        "-print_final_stats=1",
        f"-artifact_prefix={PLACE}/crashes/{name}-",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], target.decodes)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
