"""The HTTP port of a broker: metrics, health, and a summary, of a real one."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from confluent_kafka import Producer

from tests.rigs.kafka_broker import KafkaBroker, kafka_broker
from tests.rigs.scraping import scraped
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.testing.kit.ports import HOST, free_ports

pytestmark = [pytest.mark.process, pytest.mark.slow]


@attrs.frozen
class Observed:
    """A broker, and where it is asked."""

    broker: KafkaBroker
    port: int

    def ask(self, path: str) -> tuple[int, str]:
        """The status and the body."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.port}{path}", timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    [port] = free_ports(1)
    directory = tmp_path_factory.mktemp("observed")
    with kafka_broker(directory, settings=[f"http.port={port}", "log.flush.mode=batch"]) as broker:
        yield Observed(broker, port)


def test_a_scrape_has_what_was_written_and_how_long_its_sync_took(observed: Observed) -> None:
    producer = Producer({"bootstrap.servers": observed.broker.address})
    before = scraped(observed.port).get(("kafka_server_brokertopicmetrics_messagesin_total",), 0)
    producer.produce("metered", b"x" * 1000)
    assert producer.flush(PATIENCE_SECONDS) == 0
    found = scraped(observed.port)
    assert found["kafka_server_brokertopicmetrics_messagesin_total",] == before + 1
    assert found["kafka_server_brokertopicmetrics_bytesin_total", "metered"] > 1000
    assert found["kafka_log_logflushstats_logflushrateandtimems_count",] >= 1
    assert found["zab_log_write_ms_count",] >= 1
    assert found["zab_log_free_bytes",] > 0
    assert found["zab_max_turn_us",] > 0
    assert found["process_resident_memory_bytes",] > 1 << 20
    assert 0 < found["zab_open_file_descriptors",] < found["zab_max_file_descriptors",]


def test_a_broker_that_serves_is_live_and_ready(observed: Observed) -> None:
    assert observed.ask("/health/live") == (200, '{"live":true}')
    assert observed.ask("/health/ready") == (200, '{"ready":true}')
    assert observed.ask("/nothing")[0] == 404


def test_the_summary_says_who_it_is(observed: Observed) -> None:
    status = json.loads(observed.ask("/status")[1])
    assert (status["broker"], status["controller"], status["is_controller"]) == (1, 1, True)
    assert (status["life"], status["coordination_connected"]) == ("running", True)
    assert abs(status["time_ms"] / 1000 - time.time()) < PATIENCE_SECONDS
    assert status["under_replicated"] == status["under_min_isr"] == status["failed"] == 0


def test_a_port_that_is_taken_is_a_warning_and_the_broker_serves(observed: Observed, tmp_path: Path) -> None:
    with kafka_broker(tmp_path, settings=[f"http.port={observed.port}"]) as other:
        said = other.journal.read_text()
        assert "no HTTP server: cannot listen" in said
        assert json.loads(observed.ask("/status")[1])["cluster_id"] not in said
