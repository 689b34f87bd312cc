"""The admin server and the port of metrics of running members."""

import json
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from kazoo.security import make_digest_acl
from prometheus_client.parser import text_string_to_metric_families

from tests.rigs.admin_servers import Ports, Running, administered, facts, lines_of
from tests.rigs.certificates import Certificates, client_store_lines, quorum_store_lines
from tests.rigs.in_process import members_here
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.zab_server import zab_over_tls
from tests.rigs.zookeeper_server import LOOPBACK
from tests.tidy.sources import ROOT
from zab.member.words.admin_rights import NOT_AUTHORIZED
from zab.testing.kit.ports import free_ports


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with administered(3) as found, kazoo_client(found.servers.hosts) as client:
        client.create("/a", b"x" * 100)
        client.create("/e", b"", ephemeral=True)
        client.get("/a", watch=print)
        yield found


def test_leader_view_and_state_of_an_ensemble(running: Running) -> None:
    leader = running.servers.leader().server_id
    for sid in running.admin:
        told = running.get(sid, "/commands/leader").json()
        assert (told["is_leader"], told["leader_id"], told["leader_ip"]) == (sid == leader, leader, "127.0.0.1")
        state = running.get(sid, "/commands/zabstate").json()
        assert (state["myid"], state["is_leader"], state["zabstate"]) == (sid, sid == leader, "broadcast")
        view = running.get(sid, "/commands/voting_view").json()["current_config"]
        assert list(view) == ["1", "2", "3"]
        assert view["1"]["learnerType"] == "participant"
        assert "server.3=" in running.get(sid, "/commands/icfg").json()["initial_configuration"]
        assert running.get(sid, "/commands/mntr").json()["quorum_size"] == 3


def test_health(running: Running) -> None:
    assert running.get(1, "/health/live").status_code == 200
    ready = running.get(1, "/health/ready")
    assert (ready.status_code, ready.json()) == (200, {"ready": True})


def test_a_member_without_a_quorum_is_live_and_not_ready() -> None:
    with administered(3) as alone:
        alone.servers.members[1].kill()
        alone.servers.members[2].kill()
        while alone.get(1, "/health/ready").status_code == 200:
            pass
        assert alone.get(1, "/health/live").status_code == 200
        not_serving = "This ZooKeeper instance is not currently serving requests"
        assert alone.get(1, "/commands/ruok").json() == {"command": "ruok", "error": not_serving}
        assert alone.get(1, "/commands/mntr").json()["server_state"] == "looking"
        assert alone.get(1, "/commands/zabstate").json()["zabstate"] == "election"
        for command in ("snapshot", "log?after=0"):
            # Who saves what comes must not save this.
            answer = alone.get(1, f"/commands/{command}", Authorization="digest super:wire")
            assert (answer.status_code, answer.json()["error"]) == (503, not_serving)
        assert "\nquorum_size 3.0\n" in alone.scrape(1)


def test_a_snapshot_is_the_file_and_holds_what_was_written(running: Running, tmp_path: Path) -> None:
    with kazoo_client(running.servers.members[0].host) as client:
        client.create("/before", b"it")
        zxid = client.get("/before")[1].czxid
        answer = running.get(1, "/commands/snapshot", Authorization="digest super:wire")
    assert answer.status_code == 200
    assert int(answer.headers["last_zxid"], 16) >= zxid
    assert int(answer.headers["snapshot_size"]) == len(answer.content)
    taken = (
        running.servers.members[0].data_directory / "version-1" / f"snapshot.{int(answer.headers['last_zxid'], 16):x}"
    )
    assert answer.content == taken.read_bytes()
    last = running.get(1, "/commands/lsnp").json()
    assert (last["zxid"], last["timestamp"]) == (taken.suffix[1:], int(taken.stat().st_mtime))
    again = running.get(1, "/commands/snapshot?streaming=false", Authorization="digest super:wire")
    assert again.json() == {"command": "snapshot", "error": None}
    assert again.headers["last_zxid"]


def test_a_made_up_password_gives_nothing_while_the_root_is_open(running: Running) -> None:
    """Neither what is in the tree, nor who uses it, nor a change; and not by way of a page in somebody's browser."""
    listed = (
        "snapshot",
        "log?after=0",
        "dump",
        "watches",
        "wchp",
        "connections",
        "stat",
        "srst",
        "crst",
        "stmk?traceMask=1",
    )
    for command in listed:
        assert running.get(1, f"/commands/{command}").status_code == 401, command
        answer = running.get(1, f"/commands/{command}", Authorization="digest made:up")
        assert (answer.status_code, answer.json()["error"]) == (403, NOT_AUTHORIZED), command
        assert b"/e" not in answer.content
    assert running.post(1, "/commands/restore", b"", Authorization="digest made:up").status_code == 403
    assert "/e" in str(running.get(1, "/commands/dump", Authorization="digest super:wire").json())
    own = f"127.0.0.1:{running.admin[1]}"
    for headers, status in (
        ({"Host": "rebound.example"}, 403),
        ({"Origin": "http://rebound.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": f"http://{own}"}, 200),
        ({"Host": "localhost"}, 200),
        ({"Host": "zab1.named"}, 200),
    ):
        assert running.get(1, "/commands/ruok", **headers).status_code == status, headers
        assert running.get(1, "/commands", **headers).status_code == status, headers
        assert running.get(1, "/health/ready", **headers).status_code == 200


def test_who_may_is_named_by_the_root_or_the_superuser() -> None:
    ports = free_ports(2)
    with members_here(1, lines_of(*ports)) as servers:
        alone = Ports(ports[:1], ports[1:])
        with kazoo_client(servers.hosts) as client:
            client.set_acls(
                "/", [make_digest_acl("all", "of", all=True), make_digest_acl("some", "of", read=True, write=True)]
            )
        for who, status in (("all:of", 200), ("some:of", 403), ("x:y", 403), ("super:wire", 200)):
            answer = alone.get(1, "/commands/snapshot?streaming=false", Authorization=f"digest {who}")
            assert answer.status_code == status, who


def test_one_snapshot_in_an_interval() -> None:
    ports = free_ports(2)
    lines = {**lines_of(*ports), "admin.rateLimiterIntervalInMS": 300_000}
    with members_here(1, lines):
        alone = Ports(ports[:1], ports[1:])
        answers = [alone.get(1, "/commands/snapshot", Authorization="digest super:wire") for _ in range(3)]
        assert [each.status_code for each in answers] == [200, 429, 429]
        assert 0 < int(answers[2].headers["Retry-After"]) <= 300
        assert alone.get(1, "/commands/mntr").json()["snapshot_rate_limited_count"] == 2


def test_snapshot_and_restore_can_be_switched_off() -> None:
    ports = free_ports(2)
    lines = {**lines_of(*ports), "admin.snapshot.enabled": "false", "admin.restore.enabled": "false"}
    with members_here(1, lines):
        alone = Ports(ports[:1], ports[1:])
        assert alone.get(1, "/commands/snapshot", Authorization="digest super:wire").status_code == 503
        assert alone.post(1, "/commands/restore", b"", Authorization="digest super:wire").status_code == 503


def test_restore_says_what_it_would_say_before_a_snapshot_comes(running: Running) -> None:
    asked = "/commands/restore?ask=true"
    assert running.post(1, asked, b"").status_code == 401
    tells = [running.post(sid, asked, b"", Authorization="digest super:wire").json() for sid in (1, 2, 1)]
    assert [told["server_id"] for told in tells] == [1, 2, 1]
    assert {tuple(told["participants"]) for told in tells} == {(1, 2, 3)}
    assert len({told["lineage"] for told in tells}) == 1, "nothing began, so nothing has to be waited for"
    assert len(tells[0]["lineage"]) == 32


def test_restore_asks_who_it_is_and_for_a_snapshot(running: Running) -> None:
    assert running.post(1, "/commands/restore", b"x" * 10_000).status_code == 401
    assert running.post(1, "/commands/restore", b"x" * 10_000, Authorization="basic a:b").status_code == 401
    answer = running.post(1, "/commands/restore", b"x" * 10_000, Authorization="digest super:wire")
    assert answer.status_code == 400
    assert "what was sent at offset 0: checksum of the header does not match" in answer.json()["error"]
    for answer, method in ((running.post(1, "/commands/ruok", b""), "GET"), (running.get(1, "/commands/rest"), "POST")):
        assert (answer.status_code, answer.headers["Allow"]) == (405, method)
        assert answer.json()["error"].endswith(f"is asked for with {method}")
    for answer in (running.post(1, "/commands/none", b""), running.get(1, "/commands/none")):
        assert (answer.status_code, answer.json()["error"]) == (200, "Unknown command: none")


def test_a_log_is_asked_for_by_a_zxid_in_both_forms(running: Running) -> None:
    """With 0x, as most commands write one, and without, as `hash` and `last_snapshot` do."""
    last = running.get(1, "/commands/zabstate").json()["last_zxid"]
    for after in (last, last.upper(), last.removeprefix("0x")):
        answer = running.get(1, f"/commands/log?after={after}", Authorization="digest super:wire")
        assert answer.status_code == 200, answer.text
        assert answer.headers["previous_zxid"] == last
    for after in ("", "x", "0x", "-1", "1" * 17):
        answer = running.get(1, f"/commands/log?after={after}", Authorization="digest super:wire")
        assert answer.status_code == 400
    assert running.get(1, "/commands/mntr").json()["restore_error_count"] == 1
    assert running.get(1, "/health/ready").status_code == 200


def test_a_taken_port_is_a_warning() -> None:
    ports = free_ports(2)
    with (
        members_here(1, lines_of(*ports)),
        members_here(1, lines_of(*ports)) as second,
    ):
        assert Ports(ports[:1], ports[1:]).get(1, "/commands/ruok").json()["error"] is None
        said = second.journal
        assert f"no HTTP server: cannot listen name=admin host=127.0.0.1 port={ports[0]}" in said
        assert f"no HTTP server: cannot listen name=metrics host=127.0.0.1 port={ports[1]}" in said
        assert second.members[1].is_serving


def test_https_and_another_path(tmp_path: Path) -> None:
    [port] = free_ports(1)
    member = Certificates(tmp_path).member("localhost")
    lines = {"admin.enableServer": "true", "admin.serverPort": port, "admin.commandURL": "/zoo"}
    with members_here(1, {**lines, **quorum_store_lines(member), "admin.forceHttps": "true"}) as servers:
        context = ssl.create_default_context(cafile=str(member / "quorum.truststore.pem"))
        answer = httpx.get(f"https://localhost:{port}/zoo/ruok", verify=context, timeout=60)
        assert answer.json() == {"command": "ruok", "error": None}
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://localhost:{port}/zoo/ruok", timeout=60)
        assert servers.members[1].is_running


def test_https_goes_on_with_the_certificate_that_is_there(tmp_path: Path) -> None:
    [port] = free_ports(1)
    authority = Certificates(tmp_path)
    member, later = authority.member("localhost"), authority.member("localhost", name="later")
    lines = {"admin.enableServer": "true", "admin.serverPort": port, "admin.forceHttps": "true"}
    reload = {"sslQuorumReloadCertFiles": "true"}
    with members_here(1, {**lines, **quorum_store_lines(member), **reload}) as servers:
        before = ssl.get_server_certificate(("127.0.0.1", port))
        store = member / "keystore.pem"
        whole = store.read_bytes()
        write_new(store, b"no certificate")
        wait_for(lambda: "the certificates of the admin server cannot be used" in servers.journal)
        assert ssl.get_server_certificate(("127.0.0.1", port)) == before
        assert (later / "keystore.pem").read_bytes() != whole
        write_new(store, (later / "keystore.pem").read_bytes())
        wait_for(lambda: ssl.get_server_certificate(("127.0.0.1", port)) != before)
        context = ssl.create_default_context(cafile=str(member / "quorum.truststore.pem"))
        answer = httpx.get(f"https://localhost:{port}/commands/ruok", verify=context, timeout=60)
        assert answer.json() == {"command": "ruok", "error": None}


def test_who_is_not_let_in_over_tls_is_said(tmp_path: Path) -> None:
    [port] = free_ports(1)
    member = Certificates(tmp_path / "ours").member("localhost")
    stranger = Certificates(tmp_path / "theirs").member("localhost")
    lines = {"admin.enableServer": "true", "admin.serverPort": port, "admin.forceHttps": "true"}
    lines |= {**quorum_store_lines(member), "admin.needClientAuth": "true"}
    with members_here(1, lines) as servers:
        context = ssl.create_default_context(cafile=str(member / "quorum.truststore.pem"))
        context.load_cert_chain(stranger / "keystore.pem")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"https://localhost:{port}/commands/ruok", verify=context, timeout=60)
        said = "zab.http TLS handshake failed -> connection is closed client=127.0.0.1"
        wait_for(lambda: said in servers.journal)
        socket.create_connection(("127.0.0.1", port)).close()
        context.load_cert_chain(member / "keystore.pem")
        answer = httpx.get(f"https://localhost:{port}/commands/ruok", verify=context, timeout=60)
        assert answer.json()["error"] is None
        assert servers.journal.count("TLS handshake failed") == 1


def write_new(path: Path, data: bytes) -> None:
    """As anyone who renews certificates does: nobody reads half of it."""
    beside = path.with_suffix(".new")
    beside.write_bytes(data)
    beside.chmod(0o600)
    beside.replace(path)


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_long_answer_is_whole_and_json(running: Running) -> None:
    with kazoo_client(running.servers.members[1].host) as client:
        for number in range(3_000):
            client.exists_async(f"/watched/{number:05}", watch=print)
        client.exists("/")
        told = running.get(2, "/commands/watches_by_path", Authorization="digest super:wire").json()
        summary = running.get(2, "/commands/watch_summary").json()
    assert sum(path.startswith("/watched/") for path in told["path_to_session_ids"]) == 3_000
    assert summary["num_total_watches"] >= 3_000


# ------------------------------------------------------------------------------------------------------------ metrics


def samples_of(text: str) -> set[str]:
    return {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}


def test_what_usual_alert_rules_and_dashboards_ask_for_is_there(running: Running) -> None:
    leader = running.servers.leader().server_id
    follower = running.servers.followers()[0].server_id
    on_leader, on_follower = (samples_of(running.scrape(sid)) for sid in (leader, follower))
    assert set(facts("everywhere.txt")) <= on_follower
    assert set(facts("everywhere.txt")) <= on_leader
    assert set(facts("leader.txt")) <= on_leader


def test_our_dashboard_asks_for_nothing_else(running: Running) -> None:
    leader = running.servers.leader().server_id
    known = samples_of(running.scrape(leader)) | {"up"}
    dashboard = json.loads((ROOT / "docs" / "deploy" / "dashboard.json").read_text(encoding="utf-8"))
    asked = set()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            asked |= set(re.findall(r"([a-z_]+)\{", target["expr"]))
    assert asked <= known
    assert len(asked) > 20


def test_a_scrape_has_quantiles_lag_and_marks(running: Running) -> None:
    leader = running.servers.leader().server_id
    text = running.scrape(leader)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    quantiles = [sample.labels.get("quantile") for sample in families["updatelatency"].samples]
    assert quantiles == ["0.5", "0.9", "0.99", None, None]
    lags = {sample.labels["key"] for sample in families["learner_lag"].samples}
    assert lags == {str(sid) for sid in running.admin if sid != leader}
    assert families["commit_count"].type == "unknown"
    values = {sample.name: sample.value for family in families.values() for sample in family.samples}
    assert values["applied_zxid"] <= values["committed_zxid"] <= values["durable_zxid"]
    assert values["fsynctime_count"] > 0
    assert values["open_file_descriptor_count"] > 5
    assert values["process_resident_memory_bytes"] > 1_000_000


def test_handshakes_of_tls_that_are_under_way_are_told(tmp_path: Path) -> None:
    with zab_over_tls(client_store_lines(Certificates(tmp_path).member("localhost"))) as (member, host):
        with socket.create_connection((LOOPBACK, int(host.rpartition(":")[2])), timeout=60) as half:
            half.sendall(b"\x16\x03\x01")
            wait_for(lambda: "zk_outstanding_tls_handshake\t1\n" in member.word("mntr"))
        wait_for(lambda: "zk_outstanding_tls_handshake\t0\n" in member.word("mntr"))


def test_there_is_no_port_of_metrics_unless_it_is_asked_for() -> None:
    [port] = free_ports(1)
    with members_here(1, {"metricsProvider.httpPort": port}), pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60)
