"""Tracing."""

from __future__ import annotations

from attrs import frozen

from zab.configuration.fields import fraction, setting


@frozen(kw_only=True)
class TracingSettings:
    """How many operations are traced."""

    sample_ratio: float = setting(
        "sampleRatio", 0.0, fraction, "0 to 1", "Ours. Of so many writes a span goes to OpenTelemetry; 0: none."
    )
