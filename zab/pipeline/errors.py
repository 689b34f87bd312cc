"""What the user of the pipeline reads when an input cannot be used."""

__all__ = ["PipelineError"]


class PipelineError(Exception):
    """The text is one clear sentence: what is wrong with which directory, file, zxid or time, and what to do."""
