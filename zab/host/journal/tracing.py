"""Tracing: spans go to a collector of OpenTelemetry, over OTLP by HTTP, as its own environment variables say.

    OTEL_EXPORTER_OTLP_ENDPOINT     where the collector is; http://localhost:4318 without it
    OTEL_RESOURCE_ATTRIBUTES        what else is said of this server; its id is service.instance.id

Nothing waits for the collector: spans are handed to the thread of the library, which keeps `OTEL_BSP_MAX_QUEUE_SIZE` of
them and drops what comes on top.

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
    """What the library says stands in the journal of this server, once for spans that are lost: as long as it tries
    again they are not, and why it had to is the reason that it does not say in the end."""

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
    """See `zab.service.ports.Tracing`. It belongs to the loop's thread."""

    def __init__(self, provider: Any, now_ms: Callable[[], int]) -> None:
        """`provider`: a TracerProvider of OpenTelemetry. `now_ms`: the clock of the spans."""
        from opentelemetry.trace import SpanKind, Status, StatusCode

        self._provider = provider
        self._now_ms = now_ms
        self._tracer = provider.get_tracer("zab")
        self._kind, self._error = SpanKind.SERVER, Status(StatusCode.ERROR)

    def export(self, spans: Sequence[Span]) -> None:
        """Hand them over."""
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
        """Send what is there, for no longer than `STOP_SECONDS`: the library itself waits as long as an export may."""
        last = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        last.start()
        last.join(STOP_SECONDS)
        if last.is_alive():
            journal.warning("the collector does not answer -> stop without it")


def refuse_without_library(settings: TracingSettings, *, config_file: str) -> None:
    """Raise ServerFailedError where spans are wanted and the library that sends them is missing."""
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
    """Begin to trace; None where the settings switch it off. `instance`: the id of this server. Raises
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
