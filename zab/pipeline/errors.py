"""Messages for the user of the pipeline: an input cannot be used, or costs more than necessary."""

__all__ = ["PipelineError", "WholeLogWarning"]


class PipelineError(Exception):
    """The text is one clear sentence: what is wrong with which directory, file, zxid or time, and what to do."""


class WholeLogWarning(UserWarning):
    """A DataFrame reads all of a large log, whatever is filtered afterwards."""
