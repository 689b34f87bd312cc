"""Four-letter words: shapes of ZooKeeper, and who may ask."""

import re
from pathlib import Path

import pytest

from datatree.opcodes import OpCode
from datatree.requests import PathKind
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import SURROUNDINGS, Ensemble, Server
from zab.member.words.events import LookedAround
from zab.member.words.four_letter import WORDS, silent_until
from zab.protocol.frame_limits import FRAME_BYTES_MAX
from zab.service.version import shown

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "four-letter-words.md"


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
    section = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
    told = [word.strip("`").encode() for row in rows for word in row.split(", ")]
    assert sorted(told) == sorted(WORDS)


@pytest.mark.parametrize("word", sorted(WORDS))
def test_a_word_is_found_as_the_first_bytes_however_they_are_cut(ensemble: Ensemble, word: bytes) -> None:
    mask = (7).to_bytes(8, "big") if word == b"stmk" else b""
    at_once = say(ensemble, word + mask + b"\n")
    connection = terminal(ensemble)
    for byte in word + mask:
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
    """That a limit of frames could be as large is refused with the configuration (`zab.member.settings.zoo_cfg`)."""
    assert min(int.from_bytes(word, "big") for word in WORDS) > FRAME_BYTES_MAX


def test_unknown_word_is_a_length_that_cannot_be(ensemble: Ensemble) -> None:
    assert say(ensemble, b"nope") == ""


def test_a_leader_that_takes_no_clients_says_so_to_isro_and_tells_its_figures() -> None:
    ensemble = Ensemble(3, leaderServes="no", **{"4lw__commands__whitelist": "*"})
    servers = ensemble.leader, ensemble.follower
    assert [say(ensemble, b"isro", server) for server in servers] == ["null", "rw"]
    assert "\nMode: leader\n" in say(ensemble, b"srvr", ensemble.leader)


def test_ruok_and_isro_answer_always_and_the_others_only_while_clients_are_served() -> None:
    ensemble = Ensemble(3, start=False, **{"4lw__commands__whitelist": "*"})
    answers = {}
    for word in (b"ruok", b"isro", b"envi", b"gtmk", b"srvr", b"mntr", b"cons"):
        connection = terminal(ensemble)
        connection.say(word + b"\n")
        ensemble.step(ensemble.servers[1])
        if WORDS[word].looks_around:
            ensemble.step(ensemble.servers[1])
        answers[word] = connection.raw.decode()
        assert connection.is_closed
    not_serving = (
        "This ZooKeeper instance is not currently serving requests\n"
        "no service: servers 2, 3 were not heard. No member that was heard has any data, so this is a first start"
    )
    for word in (b"srvr", b"mntr", b"cons"):
        assert answers.pop(word).startswith(not_serving)
    assert answers == {
        b"ruok": "imok",
        b"isro": "null",
        b"envi": f"Environment:\nzookeeper.version={shown()}\nhost.name=here\nos.name=Linux\n",
        b"gtmk": "306",
    }
    ensemble.start()
    assert say(ensemble, b"isro") == "rw"


def test_srvr_and_stat_have_the_lines_of_zookeeper(ensemble: Ensemble) -> None:
    client = ensemble.session()
    ensemble.do(client, client.create(b"/a"), client.get(b"/a"))
    lines = say(ensemble, b"srvr").splitlines()
    patterns = [
        r"Zookeeper version: 3\.9\.5-zab-\d+\.\d+\.\d+\S*, built on \S+ \S+ UTC",
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
    assert text.startswith(
        "clientPort=2181\nsecureClientPort=-1\ndataDir=/nowhere/2/version-1\ndataDirSize=2000\n"
        "dataLogDir=/nowhere/2/version-1\ndataLogSize=3000\ntickTime=1000\n"
    )
    assert (
        "\nserverId=2\ninitLimit=10\nsyncLimit=5\nelectionAlg=3\nelectionPort=3002\nquorumPort=2002\npeerType=0\n"
        in text
    )
    assert text.endswith("membership: \n" + str(ensemble.servers[2].member.config.ensemble))


COUNTS = r" /127\.0\.0\.1:40001\[1\]\(queued=\d,recved=(\d),sent=(\d)"
SESSION = r",sid={session:#x},lop=(\w+),est=(\d+),to=10000,{cxid}lzxid=(0x\w+),lresp=(\d+),llat=(\d+),"
LATENCIES = r"minlat=(\d+),avglat=(\d+),maxlat=(\d+)\)\n"


def cons(ensemble: Ensemble, client: Client, cxid: str) -> tuple[str, ...]:
    pattern = COUNTS + SESSION.format(session=client.connection.session, cxid=cxid) + LATENCIES
    found = re.match(pattern, say(ensemble, b"cons"))
    assert found is not None
    return found.groups()


def test_cons_tells_what_a_connection_did_last_and_crst_forgets_it(ensemble: Ensemble) -> None:
    client = ensemble.session()
    began, wall = ensemble.now, client.connection.established
    assert wall > 0
    assert cons(ensemble, client, "lcxid=0x0,")[:2] == ("1", "1")
    assert cons(ensemble, client, "lcxid=0x0,")[2] == "SESS"
    server = ensemble.servers[1]
    server.durable_held = True
    ensemble.do(client, client.create(b"/a"), client.get(b"/a"))
    ensemble.now += 40
    ensemble.release(server)
    server.durable_held = False
    ensemble.settle()
    zxid = f"{server.member.applied:#x}"
    answered = ("3", "3", "GETD", str(wall), zxid, str(began + 40), "40", "40", "40", "40")
    assert cons(ensemble, client, "lcxid=0x2,") == answered
    ensemble.do(client, client.exists(b"/a"))
    assert cons(ensemble, client, "lcxid=0x3,")[2:] == ("EXIS", str(wall), zxid, str(began + 40), "0", "0", "26", "40")
    assert say(ensemble, b"crst") == "Connection stats reset.\n"
    forgotten = ("0", "0", "NA", str(wall), "0xffffffffffffffff", "0", "0", "0", "0", "0")
    assert cons(ensemble, client, "") == forgotten
    ensemble.do(client, client.set(b"/a", b"1"))
    assert cons(ensemble, client, "lcxid=0x4,")[2] == "SETD"


def test_cons_of_a_ping_alone_and_behind_a_write(ensemble: Ensemble) -> None:
    client = ensemble.session()
    ensemble.do(client, client.get(b"/"), client.request(OpCode.PING, xid=-2))
    assert cons(ensemble, client, "")[2] == "PING"
    server = ensemble.servers[1]
    server.durable_held = True
    ensemble.do(client, client.create(b"/a"), client.request(OpCode.PING, xid=-2))
    # ZooKeeper shows no xid below 0.
    assert cons(ensemble, client, "")[2] == "PING"


def test_a_word_is_a_connection_too_and_is_not_read_from(ensemble: Ensemble) -> None:
    assert say(ensemble, b"cons") == " /127.0.0.1:40001[0](queued=0,recved=1,sent=0)\n\n"
    assert "\n /127.0.0.1:40002[0](queued=0,recved=1,sent=0)\n" in say(ensemble, b"stat")
    assert ensemble.servers[1].member.metrics.packets_received == 2


def test_requests_are_counted_by_operation(ensemble: Ensemble) -> None:
    client = ensemble.session()
    ensemble.do(client, client.create(b"/a"), client.get(b"/a"), client.get(b"/a"), client.request(77))
    values = dict(line.split("\t") for line in say(ensemble, b"mntr").splitlines())
    assert values["zk_op_count_create"] == "1"
    assert values["zk_op_count_get_data"] == "2"
    assert values["zk_op_count_total"] == "3"


def test_trace_mask_is_kept_until_another_is_set(ensemble: Ensemble) -> None:
    assert say(ensemble, b"gtmk") == "306"
    assert say(ensemble, b"stmk" + (7).to_bytes(8, "big")) == "7"
    assert say(ensemble, b"gtmk") == "7"


def test_a_mask_that_does_not_come_is_waited_for_as_any_greeting(ensemble: Ensemble) -> None:
    connection = terminal(ensemble)
    connection.say(b"stmk" + bytes(7))
    ensemble.settle()
    assert (connection.raw, connection.is_closed) == (b"", False)
    for _ in range(30):
        ensemble.advance(1000)
    assert (connection.raw, connection.is_closed) == (b"", True)


def test_hash_has_the_digests_at_batch_ends(ensemble: Ensemble) -> None:
    client = ensemble.session()
    ensemble.do(client, client.create(b"/a"))
    member = ensemble.servers[1].member
    assert say(ensemble, b"hash").splitlines()[-1] == f"{member.applied:x}: {member.tree.digest}"


def test_dirs_and_descriptors_are_what_was_seen_around(ensemble: Ensemble) -> None:
    assert say(ensemble, b"dirs") == "datadir_size: 2000\nlogdir_size: 3000\n"
    values = dict(line.split("\t") for line in say(ensemble, b"mntr").splitlines())
    assert values["zk_open_file_descriptor_count"] == str(SURROUNDINGS.open_descriptors)
    assert values["zk_max_file_descriptor_count"] == str(SURROUNDINGS.max_descriptors)
    assert values["zk_outstanding_tls_handshake"] == str(SURROUNDINGS.tls_handshakes)
    assert values["zk_tls_handshake_exceeded"] == str(SURROUNDINGS.tls_handshakes_exceeded)


def test_handshakes_that_failed_are_those_of_tls_and_first_frames_that_are_none(ensemble: Ensemble) -> None:
    def counted() -> str:
        return dict(line.split("\t") for line in say(ensemble, b"mntr").splitlines())["zk_unsuccessful_handshake"]

    assert counted() == str(SURROUNDINGS.tls_handshakes_failed) == "3"
    ensemble.servers[1].member.metrics.unsuccessful_handshake += 1
    assert counted() == "4"


def test_words_that_wait_for_one_look_are_all_answered_and_who_is_gone_is_not(ensemble: Ensemble) -> None:
    server = ensemble.servers[1]
    asking = [terminal(ensemble) for _ in range(3)]
    for connection in asking:
        connection.say(b"dirs")
    looks = []
    server.look_around = lambda: looks.append(1)  # type: ignore[method-assign]
    ensemble.settle()
    assert len(looks) == 1
    asking[1].close()
    ensemble.settle()
    server.answers.append(LookedAround(SURROUNDINGS))
    ensemble.settle()
    said = b"datadir_size: 2000\nlogdir_size: 3000\n"
    assert [connection.raw for connection in asking] == [said, b"", said]


def test_watch_words(ensemble: Ensemble) -> None:
    client = ensemble.session()
    ensemble.do(client, client.get(b"/", True), client.exists(b"/x", True))
    session = client.connection.session
    assert say(ensemble, b"wchs") == "1 connections watching 2 paths\nTotal watches:2\n"
    head, *paths = say(ensemble, b"wchc").split("\n")
    assert (head, sorted(paths)) == (f"{session:#x}", ["", "", "\t/", "\t/x"])
    assert say(ensemble, b"wchp") == f"/\n\t{session:#x}\n/x\n\t{session:#x}\n\n"


@pytest.mark.parametrize("word", [b"wchp", b"wchc", b"dump"])
def test_no_path_is_a_line_of_its_own_or_a_command_to_a_terminal(ensemble: Ensemble, word: bytes) -> None:
    client = ensemble.session()
    strange = "/a\x1b[2J\r\n\t0x1\x85\u202eb\u2028".encode()
    ensemble.do(client, client.exists(strange, True), client.create("/\u202eb\u2028".encode(), flags=1))
    said = say(ensemble, word)
    expected = r"/\u202eb\u2028" if word == b"dump" else r"/a\x1b[2J\r\n\t0x1\x85\u202eb\u2028"
    assert sum(expected in line for line in said.split("\n")) == 1
    assert said.replace("\n", "").replace("\t", "").isprintable()


def test_a_path_watched_in_two_ways_is_watched_once(ensemble: Ensemble) -> None:
    client = ensemble.session()
    body = PathKind(b"/x", 0).encode()
    ensemble.do(client, client.exists(b"/x", True), client.request(OpCode.ADD_WATCH, body))
    assert say(ensemble, b"wchs") == "1 connections watching 1 paths\nTotal watches:1\n"


def test_dump_lists_sessions_ephemerals_and_connections() -> None:
    ensemble = Ensemble(3, **{"4lw__commands__whitelist": "dump"})
    client: Client = ensemble.session(ensemble.follower)
    ensemble.do(client, client.create(b"/e", b"", 1))
    ensemble.advance(1000)
    session = f"{client.connection.session:#x}"
    leader, follower = say(ensemble, b"dump", ensemble.leader), say(ensemble, b"dump", ensemble.follower)
    date = r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z][a-z] \d\d \d\d:\d\d:\d\d UTC 2023"
    assert re.search(rf"Session Sets \(1\)/\(1\):\n1 expire at {date}:\n\t{session}\n", leader)
    assert f"Global Sessions(1):\n{session}\t10000ms\n" in follower
    connections = rf"1 expire at {date}:\n\tip: /127\.0\.0\.1:{client.connection.port} sessionId: {session}\n"
    ephemerals = rf"Sessions with Ephemerals \(1\):\n{session}:\n\t/e\n"
    assert re.search(rf"{ephemerals}Connections dump:\nConnections Sets \([12]\)/\(2\):\n", follower)
    assert re.search(connections, follower) or f"sessionId: {session}\n" in follower


def test_connections_are_closed_when_dump_says_that_they_are(ensemble: Ensemble) -> None:
    quiet = terminal(ensemble)
    client = ensemble.session()
    member = ensemble.servers[1].member
    due = {connection: silent_until(member, connection) for connection in member.clients.all}
    assert len(due) == 2
    for connection, when in due.items():
        while not connection.closing:
            assert ensemble.now < when
            ensemble.advance(100)
        assert abs(ensemble.now - when) <= 1000
    assert quiet.is_closed
    assert client.is_closed
