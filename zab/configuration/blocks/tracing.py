"""Tracing."""

from __future__ import annotations

from attrs import frozen

from zab.configuration.fields import fraction, setting


@frozen(kw_only=True)
class TracingSettings:
    """How many operations are traced."""

    sample_ratio: float = setting(
        "sampleRatio",
        0.0,
        fraction,
        "0 to 1",
        "zab only. The part of writes that are traced with OpenTelemetry. 0: none.",
    )
