"""`zab pipeline prepare`: the archive of Java's classes from which Spark starts faster."""

from zab.cli.pipeline.endings import plain_end

__all__ = ["prepare_command"]


def prepare_command() -> None:
    """Make every later start of Spark faster, by an archive of Java's classes; print its path.

    It takes some 200 MB in the virtual environment, and fits one version of Java and of Spark."""
    with plain_end():
        from zab.pipeline.class_archive import make_archive

        print(make_archive())
