"""Spans of writes, at a collector of OpenTelemetry."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.rigs.processes import ended
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zab_server import member_of_lines, servers
from zab.client import NodeExistsError
from zab.client.sync import connect
from zab.host.journal import tracing
from zab.host.journal.tracing import Tracer
from zab.service.spans import SPANS_MAX, Span, Spans
from zab.testing.kit.ports import free_ports

pytestmark = pytest.mark.process


class Collector:
    """A collector on loopback: what it was told."""

    def __init__(self, port: int) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.changed = threading.Condition()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:  # noqa: N805
                body = handler.rfile.read(int(handler.headers["Content-Length"]))
                assert handler.path == "/v1/traces"
                self.hear(ExportTraceServiceRequest.FromString(body))
                handler.send_response(200)
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            def log_message(handler, *_: object) -> None:  # noqa: N805
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def hear(self, request: ExportTraceServiceRequest) -> None:
        with self.changed:
            for told in request.resource_spans:
                self.resources.append({each.key: each.value.string_value for each in told.resource.attributes})
                self.spans += [span for scope in told.scope_spans for span in scope.spans]
            self.changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.spans) >= count, PATIENCE_SECONDS), len(self.spans)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    (port,) = free_ports(1)
    found = Collector(port)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=tests")
    yield found
    found.server.shutdown()
    found.server.server_close()


def attributes(span: Any) -> dict[str, object]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_each_write_is_a_span_from_when_it_was_read_to_when_it_was_answered(
    collector: Collector, tmp_path: Path
) -> None:
    with servers(tmp_path, 3, "tracing.sampleRatio=1") as ensemble:
        ensemble.wait()
        with connect(ensemble.hosts) as zk:
            zk.create("/a", b"x")
            zk.set("/a", b"y")
            zk.get("/a")
            with pytest.raises(NodeExistsError):
                zk.create("/a")
            stat = zk.exists("/a")
            session = zk.session_id
        collector.wait_for(4)
    assert stat is not None
    by_xid = sorted(collector.spans, key=lambda span: int(attributes(span)["zookeeper.xid"]))  # type: ignore[call-overload]
    assert [span.name for span in by_xid] == ["create2", "setData", "create2", "closeSession"]
    assert [attributes(span).get("error.type") for span in by_xid] == [None, None, "NODEEXISTS", None]
    assert attributes(by_xid[1])["zookeeper.zxid"] == f"{stat.mzxid:#x}"
    assert {attributes(span)["zookeeper.session"] for span in by_xid} == {f"{session:#x}"}
    for span in by_xid:
        assert 0 <= span.end_time_unix_nano - span.start_time_unix_nano < PATIENCE_SECONDS * 10**9
    assert by_xid[0].start_time_unix_nano <= by_xid[1].start_time_unix_nano
    assert abs(by_xid[0].start_time_unix_nano / 1e6 - stat.ctime) < PATIENCE_SECONDS * 1000
    [told] = {(each["service.name"], each["deployment.environment.name"]) for each in collector.resources}
    assert told == ("zab", "tests")
    assert {each["service.instance.id"] for each in collector.resources} < {"1", "2", "3"}


def test_nobody_waits_for_a_collector_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with servers(tmp_path, 1, "tracing.sampleRatio=1") as ensemble:
        ensemble.wait()
        with connect(ensemble.hosts) as zk:
            for number in range(100):
                zk.create(f"/{number}")
        [member] = ensemble.members
        member.wait_until_it_says("spans cannot be exported")
        assert member.stop() == 0


def test_spans_that_are_sent_again_are_not_lost(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "zab.tracing")
    library = logging.Logger("library")
    library.addHandler(tracing._Library())
    for _ in range(3):
        library.warning(
            "Transient error %s encountered while exporting %s batch, retrying in %.2fs.", "refused", "a", 1
        )
    assert caplog.messages == []
    library.error("Failed to export a batch due to timeout")
    [line] = caplog.messages
    assert line.startswith("spans cannot be exported -> they are lost")
    assert "Failed to export a batch due to timeout; Transient error refused" in line


def test_what_is_there_is_sent_at_a_stop(collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    with servers(tmp_path, 1, "tracing.sampleRatio=1") as ensemble:
        ensemble.wait()
        with connect(ensemble.hosts) as zk:
            zk.create("/a")
        assert ensemble.members[0].stop() == 0
    assert [span.name for span in collector.spans] == ["create2", "closeSession"]


def test_a_stop_waits_no_longer_than_its_limit_for_a_collector_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Silent:
        """A provider whose last export goes on as long as the test does."""

        over = threading.Event()

        def get_tracer(self, _name: str) -> None:
            pass

        def shutdown(self) -> None:
            assert self.over.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(tracing, "STOP_SECONDS", 0.01)
    Tracer(Silent(), int).stop()
    assert not Silent.over.is_set()
    assert "the collector does not answer -> stop without it" in caplog.text
    Silent.over.set()


def test_without_the_library_the_key_is_refused(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    lines = [f"dataDir={tmp_path}/data", f"clientPort={port}", "tracing.sampleRatio=0.5", "admin.serverPort=0"]
    member = member_of_lines(1, tmp_path, port, lines)
    (tmp_path / "opentelemetry.py").write_text("raise ImportError('no such library')\n")
    with pytest.MonkeyPatch.context() as patch, ended([member]):
        patch.setenv("PYTHONPATH", str(tmp_path))
        member.start()
        assert member.wait() == 2
    assert "tracing.sampleRatio: needs pip install 'zab[tracing]'" in member.log_text()


def span(began: int) -> Span:
    return Span("setData", {}, "", began, began + 1)


@pytest.mark.parametrize(("ratio", "chosen"), [(1, 1000), (0.5, 500), (0.01, 10), (0.0001, 0)])
def test_one_in_so_many_writes_is_chosen(ratio: float, chosen: int) -> None:
    spans = Spans(ratio)
    count = 0
    for number in range(1000):
        if spans.samples_next():
            spans.add(span(number))
        count += len(spans.take())
    assert abs(count - chosen) <= 1
    assert spans.take() == []


def test_a_turn_keeps_no_more_than_its_limit() -> None:
    spans = Spans(1)
    for number in range(SPANS_MAX + 7):
        if spans.samples_next():
            spans.add(span(number))
    assert [taken.began for taken in spans.take()] == list(range(SPANS_MAX))
