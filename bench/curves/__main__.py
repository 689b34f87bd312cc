"""How cost grows: zab and the real ZooKeeper beside each other, over connections, members, znodes and much else.

    python -m bench.curves [--curves NAME ...] [--quick] [--rounds N] [--seconds S] [--sizes N] [--draw]

A curve starts both ensembles, on loopback and with the same limits, and measures each of its places on both in
alternating rounds; a ratio is the median of the rounds'. `shares` is no curve: it says where the time of a single
operation goes. Figures are kept in bench/curves.json after every curve, and those of other curves stay; from them come
bench/curves/*.png and a part of bench/CURVES.md. `--draw` measures nothing and makes both again. `--quick` is a look:
one short round of the two smallest sizes, kept below bench/build.
Everything started here is ended here, by its process id, whatever happens.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.cells import BUILD
from bench.curves import crowds, growth
from bench.curves.field import Field
from bench.curves.figures import Curve, load, save
from bench.curves.memory import memory
from bench.curves.page import DIRECTORY, PAGE, TARGET, page
from bench.curves.shares import shares
from bench.machine import command, commit, raise_descriptors, say, system, versions
from bench.table import write_page

CURVES: Final[Mapping[str, Callable[[Field], Curve]]] = {
    "connections": growth.connections,
    "members": growth.members,
    "znodes": growth.znodes,
    "data": growth.data,
    "children": growth.children,
    "multi": growth.multi,
    "watches": crowds.watches,
    "locks": crowds.locks,
    "sessions": crowds.sessions,
    "idle": crowds.idle,
    "memory": memory,
}
SHARES = "shares"
NAMES = (*CURVES, SHARES)
WARMUP_SECONDS = 12.0
QUICK_SIZES, QUICK_SECONDS, QUICK_WARMUP_SECONDS = 2, 0.5, 1.0
PLACE = Path(__file__).parents[1]


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    place = BUILD if options.quick else PLACE
    file = place / "curves.json"
    if not options.draw:
        _measure(options, file)
    figures = load(file)
    # Whoever has no matplotlib can have the rest.
    from bench.curves.drawing import draw

    for curve in figures.curves:
        draw(curve, place / DIRECTORY)
    text = page(figures)
    print(text)
    if not options.quick:
        write_page(PAGE, text, TARGET)
    return 0


def _measure(options: argparse.Namespace, file: Path) -> None:
    warmup_seconds = QUICK_WARMUP_SECONDS if options.quick else WARMUP_SECONDS
    field = Field(
        options.rounds, options.seconds, warmup_seconds, options.sizes, raise_descriptors(), options.directory
    )
    run = [system(), versions(), commit(), command("bench.curves", options.rounds, options.seconds)]
    for name in NAMES:
        if name not in options.curves:
            continue
        say(f"{name}: starting both")
        figures = load(file)
        if name == SHARES:
            figures.shares = shares(field)
            figures.shares.run = run
        else:
            curve = CURVES[name](field)
            curve.run = run
            figures.put(curve, NAMES)
        save(figures, file)


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.curves", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--curves", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="a look and not a measurement, kept below bench/build")
    parser.add_argument("--rounds", type=int, help="alternating rounds (5)")
    parser.add_argument("--seconds", type=float, help="of each run (2)")
    parser.add_argument("--sizes", type=int, help="of each curve, from the smallest on (all)")
    parser.add_argument("--draw", action="store_true", help="measure nothing: drawings and page from the figures")
    parser.add_argument("--directory", type=Path, help="where the servers keep their data (a temporary directory)")
    options = parser.parse_args(words)
    rounds, seconds, sizes = (1, QUICK_SECONDS, QUICK_SIZES) if options.quick else (5, 2.0, None)
    options.rounds = options.rounds or rounds
    options.seconds = options.seconds or seconds
    options.sizes = options.sizes or sizes
    return options


if __name__ == "__main__":
    sys.exit(main())
