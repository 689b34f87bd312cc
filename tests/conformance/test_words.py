"""Four-letter words: what ours say has the shape of what the real ZooKeeper says, word by word.

Both have the same past and the same client. Numbers, dates, addresses and versions are taken out of the answers;
what is left has to be equal, except for what `DIFFERENCES` lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, four_letter_word, zookeeper

pytestmark = pytest.mark.java

WORDS = ("ruok", "isro", "srvr", "stat", "cons", "crst", "srst", "dirs", "conf", "envi", "wchs", "wchc", "wchp", "dump")
MASKS = ("gtmk",)


@pytest.fixture(scope="module", params=[1, 3])
def both(request: pytest.FixtureRequest) -> Iterator[tuple[ZooKeeperEnsemble, ZooKeeperEnsemble]]:
    with zab_servers(request.param) as ours, zookeeper(request.param) as theirs:
        yield ours, theirs


@pytest.fixture(scope="module")
def clients(both: tuple[ZooKeeperEnsemble, ZooKeeperEnsemble]) -> Iterator[list[str]]:
    """A session at a learner of each, with watches and an ephemeral; the hosts."""
    found, started = [], []
    for servers in both:
        member = (servers.followers() or servers.members)[0]
        client = KazooClient(member.host, timeout=10)
        client.start()
        started.append(client)
        client.create("/a", b"x")
        client.create("/e", b"", ephemeral=True)
        client.get("/a", watch=print)
        client.get_children("/a", watch=print)
        client.exists("/nope", watch=print)
        found.append(member.client_port)
    yield found
    for client in started:
        client.stop()
        client.close()


def shape(text: str) -> list[str]:
    """The lines, without what differs from run to run."""
    for pattern, name in (
        (r"Zookeeper version: .*", "VERSION"),
        (r"(?m)^(zookeeper\.version|\w[\w.]*)=.*$", r"\1="),
        (r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d UTC \d{4}", "DATE"),
        (r"0x[0-9a-f]+", "HEX"),
        (r"\d+(\.\d+)?", "N"),
        (r"\[[0-9a-fN]\]", "[N]"),
    ):
        text = re.sub(pattern, name, text)
    return text.split("\n")


OF_JAVA = {
    *("java.version=", "java.vendor=", "java.home=", "java.class.path=", "java.library.path=", "java.io.tmpdir="),
    "java.compiler=",
}
OF_PYTHON = {"python.version=", "python.implementation=", "python.executable="}
"""D59."""


@pytest.mark.parametrize("word", WORDS)
def test_the_shape_is_zookeepers(word: str, clients: list[int]) -> None:
    ours, theirs = (shape(four_letter_word(port, word)) for port in clients)
    if word in ("cons", "stat", "dump", "wchc", "wchp"):
        # Which of two connections or paths comes first, or that two are due together, is chance.
        ours, theirs = ([*map(without_chance, sorted(lines))] for lines in (ours, theirs))
        ours, theirs = ([line for line in lines if line != "N expire at DATE:"] for lines in (ours, theirs))
    if word == "envi":
        ours = [line for line in ours if line not in OF_PYTHON]
        theirs = [line for line in theirs if line not in OF_JAVA]
    assert ours == theirs


LISTS = {
    "": {"srvr"},
    "stat, ruok, isro": {"srvr", "stat", "ruok", "isro"},
    "nonsense twice nonsense,,  ,$(!) , stat ,": {"srvr", "stat"},
    "ruok": {"srvr", "ruok"},
}
"""Cases of ZooKeeper's FourLetterWordsWhiteListTest: the list, and which of `WORDS` are answered then."""


@pytest.mark.parametrize("listed", LISTS)
def test_the_same_words_are_answered_by_the_same_list(listed: str) -> None:
    lines = {"4lw.commands.whitelist": listed}
    said = []
    for kind in (zab_servers, zookeeper):
        with kind(1, configuration=lines) as servers:
            port = servers.members[0].client_port
            said.append({word: four_letter_word(port, word) for word in WORDS})
    refused = {
        word: f"{word} is not executed because it is not in the whitelist.\n" for word in set(WORDS) - LISTS[listed]
    }
    for answers in said:
        assert {word: answers[word].rstrip("\n") + "\n" for word in refused} == refused
        assert not [word for word in LISTS[listed] if not answers[word] or "whitelist" in answers[word]]
    assert {word: said[0][word] for word in refused} == {word: said[1][word] for word in refused}


def without_chance(line: str) -> str:
    return re.sub(r"lop=\w+|lcxid=HEX,", "", line)


def test_trace_masks(clients: list[int]) -> None:
    assert [four_letter_word(port, "gtmk") for port in clients] == ["306", "306"]


@pytest.mark.parametrize("word", ["nope", "lead", "orst", "obsr"])
def test_words_that_neither_knows(word: str, clients: list[int]) -> None:
    assert [four_letter_word(port, word) for port in clients] == ["", ""]


def test_names_of_mntr_are_zookeepers_or_ours(both: tuple[ZooKeeperEnsemble, ZooKeeperEnsemble]) -> None:
    """A leader: names of zab are listed."""
    names = [
        {line.partition("\t")[0] for line in four_letter_word(servers.leader().client_port, "mntr").splitlines()}
        for servers in both
    ]
    ours = {name for name in names[0] - names[1] if not re.match(r"zk_(op_count_|\d+_learner_lag)", name)}
    of_an_ensemble = {"zk_members_without_room", "zk_server_id"}
    assert ours == OURS - (of_an_ensemble if len(both[0].members) == 1 else set())
    assert len(names[0] & names[1]) >= 90


OURS = {
    *(
        "zk_max_turn_us",
        "zk_disk_space",
        "zk_disk_reserve_given_up",
        "zk_sequence_numbers_left",
        "zk_writes_refused_for_room",
    ),
    *("zk_members_without_room", "zk_committed_zxid", "zk_durable_zxid", "zk_applied_zxid"),
    *("zk_writes_without_room_count", "zk_sessions_throttled", "zk_sessions_refused", "zk_members_refused"),
    *("zk_connection_limit", "zk_watch_limit", "zk_most_watches"),
    *("zk_connections_closed_for_output", "zk_connections_closed_for_input", "zk_audit_records_lost"),
    *("zk_connections_closed_for_watches", "zk_damage_found", "zk_server_id"),
}
