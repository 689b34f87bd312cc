"""Four-letter words: shapes of ZooKeeper, and who may ask."""

import re
from pathlib import Path

import pytest

from tests.direct.members import Client, Ensemble, Server
from zab.member.four_letter import VERSION, WORDS
from zab.message import FRAME_BYTES_MAX

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


class Terminal(Client):
    """A connection that carries text."""

    def take(self, output: bytes) -> None:
        self.raw += output


def terminal(ensemble: Ensemble, server: Server | None = None) -> Terminal:
    found = Terminal(server or ensemble.servers[1], len(ensemble.clients) + 1)
    ensemble.clients[found.connection] = found
    return found


def say(ensemble: Ensemble, word: bytes, server: Server | None = None) -> str:
    connection = terminal(ensemble, server)
    connection.say(word)
    ensemble.settle()
    assert connection.is_closed
    return connection.raw.decode()


@pytest.fixture
def ensemble() -> Ensemble:
    return Ensemble(1, **{"4lw__commands__whitelist": "*"})


def test_words_that_are_not_whitelisted_are_refused_in_words() -> None:
    ensemble = Ensemble(1)
    assert say(ensemble, b"ruok") == "ruok is not executed because it is not in the whitelist.\n"
    assert say(ensemble, b"srvr").startswith("Zookeeper version: 3.9")


def test_the_page_has_every_word() -> None:
    section = OPERATIONS.read_text(encoding="utf-8").partition("## Four-letter words")[2]
    rows = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
    told = [word.strip("`").encode() for row in rows for word in row.split(", ")]
    assert sorted(told) == sorted(WORDS)


@pytest.mark.parametrize("word", sorted(WORDS))
def test_a_word_is_found_as_the_first_bytes_however_they_are_cut(ensemble: Ensemble, word: bytes) -> None:
    at_once = say(ensemble, word + b"\n")
    connection = terminal(ensemble)
    for byte in word:
        assert connection.raw == b""
        connection.say(bytes([byte]))
        ensemble.settle()
    assert connection.is_closed
    # Latencies and ports differ from one connection to the next.
    assert re.sub(r"\d+", "#", connection.raw.decode()) == re.sub(r"\d+", "#", at_once)
    assert ensemble.servers[1].member.metrics.large_requests_rejected == 0


def test_a_word_after_a_frame_is_a_length_that_cannot_be(ensemble: Ensemble) -> None:
    for client in (ensemble.session(), ensemble.client()):
        if client.response is None:
            client.say(client.connect_request() + b"ruok")
        else:
            client.say(b"ruok")
        ensemble.settle()
        assert client.is_closed
        assert b"imok" not in client.raw
    assert ensemble.servers[1].member.metrics.large_requests_rejected == 2


def test_every_word_is_no_length_of_a_frame() -> None:
    """That a limit of frames could be as large is refused with the configuration (`zab.member.config`)."""
    assert min(int.from_bytes(word, "big") for word in WORDS) > FRAME_BYTES_MAX


def test_unknown_word_is_a_length_that_cannot_be(ensemble: Ensemble) -> None:
    assert say(ensemble, b"nope") == ""


def test_ruok_and_isro_answer_always_and_the_others_only_while_clients_are_served() -> None:
    ensemble = Ensemble(3, start=False, **{"4lw__commands__whitelist": "*"})
    answers = {}
    for word in (b"ruok", b"isro", b"envi", b"srvr", b"mntr", b"cons"):
        connection = terminal(ensemble)
        connection.say(word + b"\n")
        ensemble.step(ensemble.servers[1])
        answers[word] = connection.raw.decode()
        assert connection.is_closed
    not_serving = "This ZooKeeper instance is not currently serving requests\n"
    assert answers == {
        b"ruok": "imok",
        b"isro": "null",
        b"envi": f"Environment:\nzookeeper.version={VERSION}\n",
        b"srvr": not_serving,
        b"mntr": not_serving,
        b"cons": not_serving,
    }
    ensemble.start()
    assert say(ensemble, b"isro") == "rw"


def test_srvr_and_stat_have_the_lines_of_zookeeper(ensemble: Ensemble) -> None:
    client = ensemble.session()
    ensemble.do(client, client.create(b"/a"), client.get(b"/a"))
    lines = say(ensemble, b"srvr").splitlines()
    patterns = [
        r"Zookeeper version: \d+\.\d+\.\d+\S*, built on \S+ \S+ UTC",
        r"Latency min/avg/max: 0/0\.0/0",
        r"Received: \d+",
        r"Sent: \d+",
        r"Connections: 2",
        r"Outstanding: 0",
        r"Zxid: 0x10000000[0-9a-f]",
        r"Mode: standalone",
        r"Node count: 5",
    ]
    assert len(lines) == len(patterns)
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), line
    text = say(ensemble, b"stat")
    assert re.search(r"\nClients:\n /127\.0\.0\.1:\d+\[1\]\(queued=0,recved=3,sent=3\)\n /.*\n\nLatency", text), text


def test_modes_and_proposal_sizes_of_an_ensemble() -> None:
    ensemble = Ensemble(3, **{"4lw__commands__whitelist": "*"})
    ensemble.session()
    leader = say(ensemble, b"srvr", ensemble.leader)
    assert "Mode: leader\n" in leader
    assert re.search(r"Proposal sizes last/min/max: \d+/\d+/\d+\n$", leader)
    follower = say(ensemble, b"srvr", ensemble.follower)
    assert "Mode: follower\n" in follower
    assert "Proposal" not in follower


def test_mntr_has_name_tab_value_and_the_names_of_zookeeper() -> None:
    ensemble = Ensemble(3, **{"4lw__commands__whitelist": "*"})
    client = ensemble.session()
    ensemble.do(client, client.create(b"/a", b"data"), client.create(b"/e", b"", 1), client.get(b"/a", True))
    follower = say(ensemble, b"mntr", ensemble.follower)
    leader = say(ensemble, b"mntr", ensemble.leader)
    assert all(re.fullmatch(r"zk_\w+\t\S.*", line) for line in (leader + follower).splitlines())
    values = dict(line.split("\t") for line in leader.splitlines())
    assert values["zk_server_state"] == "leader"
    assert values["zk_peer_state"] == "leading - broadcast"
    assert values["zk_quorum_size"] == "3"
    assert values["zk_learners"] == values["zk_synced_followers"] == "2"
    assert values["zk_znode_count"] == "6"
    assert values["zk_ephemerals_count"] == "1"
    assert values["zk_global_sessions"] == "1"
    assert values["zk_avg_latency"] == "0.0"
    on_follower = dict(line.split("\t") for line in follower.splitlines())
    assert on_follower["zk_server_state"] == "follower"
    assert "zk_learners" not in on_follower
    served = dict(line.split("\t") for line in say(ensemble, b"mntr", client.server).splitlines())
    assert served["zk_watch_count"] == "1"
    assert served["zk_cnt_updatelatency"] == "2"
    assert int(served["zk_packets_received"]) >= 4


def test_latency_counts_the_time_that_writes_wait(ensemble: Ensemble) -> None:
    client = ensemble.session()
    server = ensemble.servers[1]
    server.durable_held = True
    ensemble.do(client, client.create(b"/a"), client.get(b"/a"))
    ensemble.now += 40
    ensemble.release(server)
    ensemble.settle()
    assert "Latency min/avg/max: 40/40.0/40\n" in say(ensemble, b"srvr")
    assert say(ensemble, b"srst") == "Server stats reset.\n"
    assert "Latency min/avg/max: 0/0.0/0\n" in say(ensemble, b"srvr")


def test_conf_has_the_configuration_and_the_ensemble() -> None:
    ensemble = Ensemble(3, **{"4lw__commands__whitelist": "conf"})
    text = say(ensemble, b"conf", ensemble.servers[2])
    assert text.startswith("clientPort=2181\nsecureClientPort=-1\ndataDir=/nowhere/2/version-1\n")
    assert (
        "\nserverId=2\ninitLimit=10\nsyncLimit=5\nelectionAlg=3\nelectionPort=3002\nquorumPort=2002\npeerType=0\n"
        in text
    )
    assert text.endswith("membership: \n" + str(ensemble.servers[2].member.config.ensemble))


def test_cons_and_crst(ensemble: Ensemble) -> None:
    client = ensemble.session()
    session = client.connection.session
    pattern = rf" /127\.0\.0\.1:40001\[1\]\(queued=0,recved=(\d),sent=(\d),sid={session:#x},to=10000\)\n"
    assert re.match(pattern, say(ensemble, b"cons")).groups() == ("1", "1")  # type: ignore[union-attr]
    assert say(ensemble, b"crst") == "Connection stats reset.\n"
    assert re.match(pattern, say(ensemble, b"cons")).groups() == ("0", "0")  # type: ignore[union-attr]


def test_watch_words(ensemble: Ensemble) -> None:
    client = ensemble.session()
    ensemble.do(client, client.get(b"/", True), client.exists(b"/x", True))
    session = client.connection.session
    assert say(ensemble, b"wchs") == "1 connections watching 2 paths\nTotal watches:2\n"
    head, *paths = say(ensemble, b"wchc").split("\n")
    assert (head, sorted(paths)) == (f"{session:#x}", ["", "", "\t/", "\t/x"])
    assert say(ensemble, b"wchp") == f"/\n\t{session:#x}\n/x\n\t{session:#x}\n\n"


def test_dump_lists_sessions_and_ephemerals() -> None:
    ensemble = Ensemble(3, **{"4lw__commands__whitelist": "dump"})
    client: Client = ensemble.session(ensemble.follower)
    ensemble.do(client, client.create(b"/e", b"", 1))
    ensemble.advance(1000)
    session = f"{client.connection.session:#x}"
    leader, follower = say(ensemble, b"dump", ensemble.leader), say(ensemble, b"dump", ensemble.follower)
    assert re.search(rf"Session Sets \(1\)/\(1\):\n1 expire in \d+ ms:\n\t{session}\n", leader)
    assert f"Global Sessions(1):\n{session}\t10000ms\n" in follower
    assert follower.endswith(f"Sessions with Ephemerals (1):\n{session}:\n\t/e\n")
