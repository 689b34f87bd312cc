"""`zab pipeline package`: the archive for clusters."""

from typing import Annotated

import typer

from zab.cli.pipeline.run import Run

__all__ = ["package_job"]


def package_job(
    run: Run,
    *,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Where to write it.")] = ".",
) -> None:
    """Write the archive that `spark-submit --py-files` takes, and print its path."""
    from zab.pipeline.shipping import package_archive

    print(package_archive(directory))
