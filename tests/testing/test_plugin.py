"""The fixtures of the test kit, in runs of pytest as its users have them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]

PLAIN = """
    import pytest
    from kazoo.client import KazooClient

    def kazoo(hosts):
        client = KazooClient(hosts)
        client.start()
        return client
"""


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """In a process of its own, undisturbed by this run."""
    given = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "zab.testing.plugin", *arguments)
    return pytester.runpytest_subprocess(*given, timeout=120)


@pytest.mark.process
def test_plain_tests_have_servers_and_ensembles(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        PLAIN
        + """
    def test_server(zab_server):
        client = kazoo(zab_server.hosts)
        client.create("/a")
        zab_server.expire(client)
        client.stop()
        client.close()

    def test_client(zab_client):
        with zab_client() as zk:
            zk.create("/a", b"1")
            assert zk.get("/a")[0] == b"1"

    def test_ensemble(zab_ensemble):
        assert list(zab_ensemble.members) == [1, 2, 3]
        zab_ensemble.leader.kill()
        zab_ensemble.wait_until_serving()

    @pytest.mark.zab(size=5, observers=1, configuration={"4lw.commands.whitelist": "ruok"}, tickTime=100)
    def test_marked(zab_ensemble, zab_server):
        assert list(zab_ensemble.members) == [1, 2, 3, 4, 5, 6]
        assert list(zab_server.members) == [1]
    """
    )
    run(pytester).assert_outcomes(passed=4)


@pytest.mark.process
def test_tests_of_trio_and_of_asyncio_have_them_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
    import asyncio
    import pytest

    @pytest.mark.trio
    async def test_trio(zab_server, zab_client):
        async with zab_client() as one, zab_client(session_timeout_ms=2000) as two:
            await one.create("/a", b"1")
            await two.sync()
            assert (await two.get("/a"))[0] == b"1"
            assert one.session_id != two.session_id

    @pytest.mark.trio
    @pytest.mark.zab(size=3)
    async def test_client_of_an_ensemble(zab_client):
        async with zab_client() as zk:
            assert len((await zk.get("/zookeeper/config"))[0].split(b"server.")) == 4

    def test_asyncio(zab_server, zab_client):
        async def main():
            async with zab_client() as zk:
                await zk.create("/a", b"1")
                assert (await zk.get("/a"))[0] == b"1"
            reader, writer = await asyncio.open_connection("127.0.0.1", zab_server.members[1].client_port)
            writer.write(b"ruok")
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer

        assert asyncio.run(main()) == b"imok"
    """
    )
    run(pytester, "-p", "trio").assert_outcomes(passed=3)


@pytest.mark.process
@pytest.mark.parametrize(("scope", "ports"), [("function", 4), ("class", 3), ("module", 2), ("session", 1)])
def test_a_scope_says_who_shares_an_ensemble(pytester: pytest.Pytester, scope: str, ports: int) -> None:
    text = f"""
    import pytest

    pytestmark = pytest.mark.zab(scope="{scope}")

    class TestOne:
        def test_one(self, zab_server):
            print("port", zab_server.members[1].client_port)

        def test_two(self, zab_server):
            print("port", zab_server.members[1].client_port)
    """
    later = """
    def test_three(zab_server):
        print("port", zab_server.members[1].client_port)
    """
    pytester.makepyfile(test_first=text + later, test_second=text.partition("    class TestOne")[0] + later)
    result = run(pytester, "-s")
    result.assert_outcomes(passed=4)
    found = set(re.findall(r"port (\d+)", result.stdout.str()))
    # A test in no class has an ensemble of its own there.
    assert len(found) == ports


@pytest.mark.process
def test_who_shares_an_ensemble_finds_it_as_new(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        PLAIN
        + """
    pytestmark = pytest.mark.zab(scope="module")
    ports = set()

    @pytest.mark.parametrize("number", range(3))
    def test_it(zab_ensemble, number):
        assert all(member.state in ("leading", "serving") for member in zab_ensemble.members.values())
        ports.add(zab_ensemble.members[1].client_port)
        assert len(ports) == 1
        client = kazoo(zab_ensemble.hosts)
        assert client.get_children("/") == ["zookeeper"]
        client.add_auth("digest", "me:mine")
        from kazoo.security import make_digest_acl
        client.create("/a/b/c", makepath=True, acl=[make_digest_acl("me", "mine", all=True)])
        client.stop()
        client.close()
        zab_ensemble.partition({1}, {2, 3})
        zab_ensemble.members[2].kill()
        zab_ensemble.members[3].pause()
    """
    )
    run(pytester).assert_outcomes(passed=3)


@pytest.mark.process
def test_a_shared_ensemble_that_is_broken_is_told_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
    import pytest
    from zab.member.events import StorageFailed

    pytestmark = pytest.mark.zab(scope="module")

    def test_one(zab_server):
        life = zab_server.members[1].life
        life.ask(lambda server: server.mailbox.put(StorageFailed("it burns")))
        life._thread.join()

    def test_two(zab_server):
        pass

    def test_three(zab_server):
        assert zab_server.leader
    """
    )
    result = run(pytester)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines("*member 1 ended: *it burns")


@pytest.mark.process
def test_the_report_of_a_failure_shows_what_members_said(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
    import pytest
    from zab.testing import Ensemble

    def test_fixture(zab_ensemble):
        assert False

    def test_own():
        with Ensemble():
            assert False

    @pytest.mark.zab(scope="module")
    def test_good(zab_server):
        pass

    @pytest.mark.zab(scope="module")
    def test_shared(zab_server):
        assert False

    def test_without():
        assert False
    """
    )
    result = run(pytester)
    result.assert_outcomes(failed=4, passed=1)
    text = result.stdout.str()
    parts = re.split(r"_{5,} test_", text)[1:]
    assert [(part.split()[0], len(re.findall(r"zab member \d \(call\)", part))) for part in parts] == [
        ("fixture", 3),
        ("own", 1),
        ("shared", 1),
        ("without", 0),
    ]
    assert parts[0].count("zab.server listening server_id=") == 3


@pytest.mark.process
@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("zab(5)", "takes names, such as size=5, not 5"),
        ("zab(scope='galaxy')", "the scope 'galaxy' is none of function, class, module, session"),
        ("zab(size=0)", "an ensemble has 1 to 9 members, not 0"),
        ("zab(tickTime='never')", "tickTime"),
    ],
)
def test_marks_that_make_no_sense_are_refused(pytester: pytest.Pytester, mark: str, said: str) -> None:
    pytester.makepyfile(f"import pytest\n\n@pytest.mark.{mark}\ndef test_it(zab_ensemble):\n    pass\n")
    result = run(pytester, "--strict-markers")
    result.assert_outcomes(errors=1)
    assert said in result.stdout.str()


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ((), {"passed": 1}),
        (("-p", "zab.testing.plugin"), {"passed": 1}),
        (("-p", "no:zab.testing.plugin"), {"errors": 1}),
    ],
)
def test_an_installed_package_brings_its_plugin(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], outcome: dict[str, int]
) -> None:
    """As its metadata say; whether they are those of this environment or not."""
    [(name, module)] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][
        "pytest11"
    ].items()
    metadata = pytester.mkdir("installed") / "zab_of_this_test-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: zab-of-this-test\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[pytest11]\n{name} = {module}\n")
    pytester.makepyfile("def test_it(zab_server):\n    pass\n")
    monkeypatch.setenv("PYTHONPATH", str(metadata.parent))
    pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments, timeout=120).assert_outcomes(**outcome)


@pytest.mark.process
def test_the_plugin_imports_nothing_before_it_is_used() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import zab.testing.plugin; "
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('zab')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_assertions_of_members_are_those_of_production() -> None:
    """pytest marks its variables in code that it has rewritten."""
    import zab.quorum.quorums
    import zab.testing.ensemble

    for module in (zab.quorum.quorums, zab.testing.ensemble):
        assert "@pytest_ar" not in vars(module), module.__name__
    assert "@pytest_ar" in globals()


def test_in_this_run_a_trio_test_has_it(zab_server) -> None:
    assert zab_server.leader is zab_server.members[1]


@pytest.mark.process
def test_tests_have_brokers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
    import pytest
    from confluent_kafka import Producer

    def write(servers):
        producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        producer.produce("a", b"1")
        assert producer.flush(30) == 0

    def test_one(zab_broker, bootstrap_servers):
        assert bootstrap_servers == zab_broker.bootstrap_servers
        assert "," not in bootstrap_servers
        write(bootstrap_servers)
        assert [record.value for record in zab_broker.records("a")] == [b"1"]

    @pytest.mark.zab_brokers(count=2, members=3)
    def test_marked(bootstrap_servers, zab_brokers):
        assert (len(zab_brokers.members), len(zab_brokers.ensemble.members)) == (2, 3)
        assert len(bootstrap_servers.split(",")) == 2

    ports = set()

    @pytest.mark.zab_brokers(scope="module", configuration={"num.partitions": 3})
    @pytest.mark.parametrize("number", range(3))
    def test_shared(zab_broker, number):
        ports.add(zab_broker.members[1].port)
        assert len(ports) == 1
        assert zab_broker.topics == {}
        write(zab_broker.bootstrap_servers)
        assert zab_broker.topics == {"a": 3}
        zab_broker.pause()
        zab_broker.ensemble.members[1].pause()
    """
    )
    run(pytester).assert_outcomes(passed=5)


@pytest.mark.process
def test_the_report_of_a_failed_test_shows_what_brokers_said(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
    def test_it(zab_broker):
        raise RuntimeError
    """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*zab member 1 (call)*", "*zab broker 1 (call)*", "*zab.broker listens*"])
    assert result.stdout.str().count("zab member 1 (call)") == 1


@pytest.mark.process
def test_tests_have_bookies(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
    import pytest
    from zab.ledgers import sync

    def test_three(zab_bookies, metadata_service_uri):
        assert metadata_service_uri == zab_bookies.metadata_service_uri
        with zab_bookies.ensemble.connect() as zk, sync.open_store(zk) as store, store.create() as ledger:
            assert ledger.append(b"1") == 0

    @pytest.mark.zab_bookies(count=1, members=3)
    def test_marked(zab_bookies):
        assert (len(zab_bookies.members), len(zab_bookies.ensemble.members)) == (1, 3)

    @pytest.mark.zab_bookies(count=3)
    def test_place_of_the_mark(zab_bookies):
        assert len(zab_bookies.members) == 3

    ports = set()

    @pytest.mark.zab_bookies(count=2, scope="module", racks={1: "/one"})
    @pytest.mark.parametrize("number", range(3))
    def test_shared(zab_bookies, number):
        ports.add(zab_bookies.members[1].port)
        assert len(ports) == 1
        with zab_bookies.ensemble.connect() as zk, sync.open_store(zk) as store:
            assert list(store.ledgers()) == []
            assert len(store.bookies.available) == 2
            with store.create(ensemble=2, write=2, ack=2) as ledger:
                ledger.append(b"1")
            assert [each.id for each in store.ledgers()] == [ledger.id]
        zab_bookies.kill(2)
        zab_bookies.pause(1)
        zab_bookies.ensemble.members[1].pause()
    """
    )
    run(pytester).assert_outcomes(passed=6)


@pytest.mark.process
def test_the_report_of_a_failed_test_shows_what_bookies_said(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
    def test_it(zab_bookies):
        raise RuntimeError
    """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*zab member 1 (call)*", "*zab bookie 1 (call)*", "*zab.bookie *"])
    assert result.stdout.str().count("zab member 1 (call)") == 1
