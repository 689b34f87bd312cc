"""The real Pulsar, unmodified, on members and bookies of ours (case 20): messages are kept while bookies and brokers
are killed, and another broker takes over the topic."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from tests.downloads.bookies import zab_bookies
from tests.downloads.pulsar import PulsarBroker, client, set_up
from tests.rigs.processes import ended
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zab_server import zab_servers

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

TOPIC = "persistent://public/default/events"


def unload(broker: PulsarBroker) -> None:
    """The broker gives the topic up, until a client asks for it again."""
    url = f"http://127.0.0.1:{broker.web_port}/admin/v2/{TOPIC.replace('://', '/')}/unload"
    with urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=PATIENCE_SECONDS):
        pass


def test_messages_outlive_bookies_and_brokers(tmp_path: Path) -> None:
    with zab_servers(3, directory=tmp_path / "members") as ensemble:
        brokers = [PulsarBroker(tmp_path / f"broker-{number}", ensemble.hosts) for number in (1, 2)]
        set_up(tmp_path, ensemble.hosts, brokers[0])
        with zab_bookies(tmp_path, 3, ensemble.hosts) as bookies, ended(brokers):
            brokers[0].serve()
            client(tmp_path, brokers[:1], TOPIC, "produce", 0, 100)
            client(tmp_path, brokers[:1], TOPIC, "consume", 0, 50)
            for bookie in bookies:
                bookie.kill()
                bookie.serve()
            unload(brokers[0])
            client(tmp_path, brokers[:1], TOPIC, "produce", 100, 100)
            brokers[1].serve()
            brokers[0].kill()
            client(tmp_path, brokers[1:], TOPIC, "produce", 200, 100)
            client(tmp_path, brokers[1:], TOPIC, "consume", 50, 250)
