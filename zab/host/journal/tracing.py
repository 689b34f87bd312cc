"""Tracing: sends spans to an OpenTelemetry collector, by OTLP over HTTP. OpenTelemetry's environment variables apply:

    OTEL_EXPORTER_OTLP_ENDPOINT     the collector; http://localhost:4318 by default
    OTEL_RESOURCE_ATTRIBUTES        further attributes of this server; its id is service.instance.id

Nothing waits for the collector: spans go to the library's thread, which keeps `OTEL_BSP_MAX_QUEUE_SIZE` of them and
drops further ones.

Needs zab[tracing]. Not here: which operations have spans (`zab.service.spans`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from zab.configuration.blocks.tracing import TracingSettings
from zab.host.journal.journal import Journal
from zab.service.failure import CONFIG_ERROR, ServerFailedError
from zab.service.spans import Span

STOP_SECONDS: Final = 2.0
"""How long a stop waits for the collector."""
NS: Final = 1_000_000

journal = Journal("tracing")


_TRIES_AGAIN: Final = "Transient error"


class _Library(logging.Handler):
    """Writes the library's messages to the journal of this server. While the library retries, no spans are lost; the
    last reason for a retry is remembered, since its final message lacks it."""

    _last_try = ""

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        if said.startswith(_TRIES_AGAIN):
            journal.debug("spans are sent again", reason=said)
            self._last_try = f"; {said}"
            return
        reason, self._last_try = f"{said}{self._last_try}", ""
        journal.warning("spans cannot be exported -> they are lost, and the server goes on", reason=reason)


class Tracer:
    """The port `zab.service.ports.Tracing`. Belongs to the loop's thread."""

    def __init__(self, provider: Any, now_ms: Callable[[], int]) -> None:
        """`provider`: a TracerProvider of OpenTelemetry. `now_ms`: the clock of the spans."""
        from opentelemetry.trace import SpanKind, Status, StatusCode

        self._provider = provider
        self._now_ms = now_ms
        self._tracer = provider.get_tracer("zab")
        self._kind, self._error = SpanKind.SERVER, Status(StatusCode.ERROR)

    def export(self, spans: Sequence[Span]) -> None:
        """Hand the spans to the library's thread."""
        began = time.time_ns() - self._now_ms() * NS
        for span in spans:
            made = self._tracer.start_span(
                span.operation, kind=self._kind, attributes=span.attributes, start_time=began + span.began * NS
            )
            if span.error:
                made.set_attribute("error.type", span.error)
                made.set_status(self._error)
            made.end(end_time=began + span.ended * NS)

    def stop(self) -> None:
        """Send the remaining spans, for at most `STOP_SECONDS`: the library itself would wait for a whole export."""
        last = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        last.start()
        last.join(STOP_SECONDS)
        if last.is_alive():
            journal.warning("the collector does not answer -> stop without it")


def refuse_without_library(settings: TracingSettings, *, config_file: str) -> None:
    """Raise ServerFailedError if tracing is on and the library is missing."""
    if not settings.sample_ratio:
        return
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace.export  # noqa: F401
    except ImportError as error:
        reason = f"{config_file}: tracing.sampleRatio: needs pip install 'zab[tracing]': {error}"
        raise ServerFailedError(CONFIG_ERROR, reason) from None


def open_tracing(
    settings: TracingSettings, instance: str, now_ms: Callable[[], int], *, config_file: str
) -> Tracer | None:
    """Start tracing; None if the settings switch it off. `instance`: the id of this server. Raises
    ServerFailedError."""
    refuse_without_library(settings, config_file=config_file)
    if not settings.sample_ratio:
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    said = logging.getLogger("opentelemetry")
    said.propagate = False
    if not said.handlers:
        said.addHandler(_Library(logging.WARNING))
    resource = Resource.create({"service.name": "zab", "service.instance.id": instance})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    journal.info("writes are traced", ratio=settings.sample_ratio)
    return Tracer(provider, now_ms)
