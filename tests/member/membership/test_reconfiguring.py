"""Reconfiguration of whole members: who may, what is answered, and what the others know of it."""

from __future__ import annotations

import pytest

from datatree.acl import READ, WRITE, digest_identity
from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.requests import OPEN_ACL, AddAuth, Multi, PathWatch, Reconfig, SetAcl, SetData
from tests.member.membership.reconfigurable import line, reconfigurable
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble, Server
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.states import FOLLOWING, LEADING, OBSERVING
from zab.quorum.ids import ServerId
from zab.simulator.world.disk import FaultyDisk

SUPER = b"root:secret"
CONFIG = b"/zookeeper/config"


@pytest.fixture
def ensemble() -> Ensemble:
    return reconfigurable()


def ask(
    ensemble: Ensemble,
    client: Client,
    joining: str | None = None,
    leaving: str | None = None,
    members: str | None = None,
    version: int = -1,
) -> tuple[int, object]:
    encoded = [None if text is None else text.encode() for text in (joining, leaving, members)]
    body = Reconfig(*encoded, version).encode()
    [(_, error, answer)] = ensemble.do(client, client.request(OpCode.RECONFIG, body))
    return error, answer


def shown(ensemble: Ensemble, client: Client) -> str:
    [(_, _, body)] = ensemble.do(client, client.request(OpCode.GET_DATA, PathWatch(CONFIG, False).encode()))
    data, _ = body
    return data.decode()


def voters(server: Server) -> set[int]:
    return set(server.member.peer.quorum.voters)


def test_the_file_is_the_first_configuration_of_the_history(ensemble: Ensemble) -> None:
    for server in ensemble.servers.values():
        assert server.member.peer.memberships.in_force.version == 0x1_0000_0001
    client = ensemble.session(ensemble.follower)
    text = shown(ensemble, client)
    assert text.splitlines() == [f"server.{n}=127.0.0.1:{2000 + n}:{3000 + n}:participant" for n in (1, 2, 3)] + [
        "version=100000001"
    ]


def test_without_the_key_nothing_is_written_and_all_is_refused() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.follower)
    assert ask(ensemble, client, joining=line(4))[0] == ErrorCode.RECONFIGDISABLED
    assert ensemble.leader.member.tree.configuration == b""
    assert shown(ensemble, client).endswith("version=0")


def test_a_server_joins_with_an_address_on_each_network() -> None:
    ensemble = reconfigurable(**{"multiAddress.enabled": "true"})
    client = ensemble.session(ensemble.follower)
    ensemble.add(4)
    several = "server.4=127.0.0.1:2004:3004|[::1]:2005:3005:observer;127.0.0.1:4004"
    error, _ = ask(ensemble, client, joining=several)
    assert error == 0
    assert several in shown(ensemble, client).splitlines()


def test_a_server_joins_and_has_a_vote(ensemble: Ensemble) -> None:
    ensemble.add(4)
    assert ensemble.servers[4].member.serving
    assert voters(ensemble.leader) == {1, 2, 3}
    client = ensemble.session(ensemble.follower)
    error, answer = ask(ensemble, client, joining=line(4))
    assert error == 0
    data, stat = answer
    version = ensemble.leader.member.peer.memberships.in_force.version
    assert data.decode() == shown(ensemble, client)
    assert data.decode().splitlines()[-2:] == [line(4), f"version={version:x}"]
    [(_, _, exists)] = ensemble.do(client, client.exists(CONFIG))
    assert exists == stat
    assert stat[8:16] == version.to_bytes(8, "big"), "it was changed by its version"
    for server in ensemble.servers.values():
        assert voters(server) == {1, 2, 3, 4}


def test_watches_tell_of_it(ensemble: Ensemble) -> None:
    watcher = ensemble.session(ensemble.servers[1])
    ensemble.do(watcher, watcher.request(OpCode.GET_DATA, PathWatch(CONFIG, True).encode()))
    ensemble.add(4)
    assert ask(ensemble, ensemble.session(ensemble.servers[2]), joining=line(4))[0] == 0
    assert watcher.events() == [(3, CONFIG)]


def test_the_whole_of_it_at_once(ensemble: Ensemble) -> None:
    client = ensemble.session(ensemble.leader)
    members = "\n".join([line(2), line(3), line(1, "observer"), "version=77"])
    assert ask(ensemble, client, members=members)[0] == 0
    ensemble.start()
    states = {sid: server.member.peer.state for sid, server in ensemble.servers.items()}
    assert states[1] is OBSERVING
    assert sorted([states[2], states[3]]) == [FOLLOWING, LEADING]


@pytest.mark.parametrize("of", ["leader", "follower"])
def test_a_leader_that_leaves_is_followed_by_another(ensemble: Ensemble, of: str) -> None:
    client = ensemble.session(getattr(ensemble, of))
    leader = ensemble.leader
    assert ask(ensemble, client, leaving=str(leader.sid), version=0x1_0000_0001)[0] == 0
    ensemble.advance(1_000)
    ensemble.start()
    assert ensemble.leader is not leader
    assert voters(ensemble.leader) == {1, 2, 3} - {leader.sid}
    assert leader.member.serving, "it goes on without a vote"


REFUSED = [
    ({"joining": line(4), "version": 5}, ErrorCode.BADVERSION),
    ({"joining": "server.4"}, ErrorCode.BADARGUMENTS),
    ({"joining": "server.4=127.0.0.1:2004:3004"}, ErrorCode.BADARGUMENTS),
    ({"joining": "server.4=127.0.0.1:2003:3004;4004"}, ErrorCode.BADARGUMENTS),
    ({"joining": "server.4=127.0.0.1:2004:3004|127.0.0.2:2004:3004;4004"}, ErrorCode.BADARGUMENTS),
    ({"joining": "group.1=1:2"}, ErrorCode.BADARGUMENTS),
    ({"leaving": "1,x"}, ErrorCode.BADARGUMENTS),
    ({"leaving": "1,2"}, ErrorCode.BADARGUMENTS),
    ({"leaving": "1,2,3"}, ErrorCode.BADARGUMENTS),
    ({"members": "dataDir=/tmp"}, ErrorCode.BADARGUMENTS),
    ({"members": "server.1=a\\nb:1:2;3,server.2=b:1:2;3"}, ErrorCode.BADARGUMENTS),
    ({"members": "\\u00"}, ErrorCode.BADARGUMENTS),
    ({"members": "group.1=1"}, ErrorCode.BADARGUMENTS),
    ({"joining": line(4) + "," + line(5) + "," + line(6) + "," + line(7)}, ErrorCode.NEWCONFIGNOQUORUM),
    ({"members": line(7) + "," + line(8)}, ErrorCode.NEWCONFIGNOQUORUM),
]


@pytest.mark.parametrize(("request_", "code"), REFUSED)
def test_what_is_refused(ensemble: Ensemble, request_: dict[str, object], code: ErrorCode) -> None:
    client = ensemble.session(ensemble.follower)
    assert ask(ensemble, client, **request_)[0] == code
    assert voters(ensemble.leader) == {1, 2, 3}
    assert ensemble.do(client, client.create(b"/on", b""))[0][1] == 0


def test_bytes_that_are_no_request(ensemble: Ensemble) -> None:
    client = ensemble.session(ensemble.follower)
    [(_, error, _)] = ensemble.do(client, client.request(OpCode.RECONFIG, Reconfig(b"\xff", None, None, -1).encode()))
    assert error == ErrorCode.BADARGUMENTS
    [(_, error, _)] = ensemble.do(client, client.request(OpCode.RECONFIG, b"\0"))
    assert error == ErrorCode.MARSHALLINGERROR


def test_one_at_a_time(ensemble: Ensemble) -> None:
    client, other = ensemble.session(ensemble.leader), ensemble.session(ensemble.leader)
    body = Reconfig(None, None, None, -1).encode()
    answers = ensemble.do(client, client.request(OpCode.RECONFIG, body), client.request(OpCode.RECONFIG, body))
    assert [error for _, error, _ in answers] == [0, ErrorCode.RECONFIGINPROGRESS]
    assert ask(ensemble, other)[0] == 0


def test_a_standalone_server_has_none() -> None:
    ensemble = reconfigurable(1)
    client = ensemble.session()
    assert ask(ensemble, client, joining=line(2))[0] == ErrorCode.UNIMPLEMENTED


def test_the_last_participant_stays_where_one_alone_is_an_ensemble() -> None:
    ensemble = reconfigurable(3, standaloneEnabled="false")
    client = ensemble.session(ensemble.leader)
    others = sorted({1, 2, 3} - {ensemble.leader.sid})
    assert ask(ensemble, client, leaving=",".join(map(str, others)))[0] == 0
    assert voters(ensemble.leader) == {ensemble.leader.sid}
    assert ensemble.do(client, client.create(b"/alone", b""))[0][1] == 0


def test_only_who_may_write_the_znode() -> None:
    digest = digest_identity(SUPER)[1].decode()
    ensemble = Ensemble(3, reconfigEnabled="true", DigestAuthenticationProvider__superDigest=digest)
    client = ensemble.session(ensemble.follower)
    assert ask(ensemble, client, leaving="1")[0] == ErrorCode.NOAUTH
    assert ask(ensemble, client, leaving="1,2")[0] == ErrorCode.BADARGUMENTS, "rights are looked at last"
    ensemble.do(client, client.request(OpCode.AUTH, AddAuth(b"digest", SUPER).encode(), -4))
    assert ask(ensemble, client)[0] == 0
    ensemble.do(client, client.request(OpCode.SET_ACL, SetAcl(CONFIG, OPEN_ACL, -1).encode()))
    anybody = ensemble.session(ensemble.follower)
    assert ask(ensemble, anybody)[0] == 0


@pytest.mark.parametrize(("perms", "code"), [(READ, ErrorCode.NOAUTH), (WRITE, 0)])
def test_a_user_with_the_right_to_write_it_and_no_other(perms: int, code: int) -> None:
    digest = digest_identity(SUPER)[1].decode()
    ensemble = Ensemble(3, reconfigEnabled="true", DigestAuthenticationProvider__superDigest=digest)
    admin, user = ensemble.session(ensemble.follower), ensemble.session(ensemble.follower)
    ensemble.do(user, user.request(OpCode.AUTH, AddAuth(b"digest", b"user:test").encode(), -4))
    assert ask(ensemble, user)[0] == ErrorCode.NOAUTH
    ensemble.do(admin, admin.request(OpCode.AUTH, AddAuth(b"digest", SUPER).encode(), -4))
    acl = ((perms, *digest_identity(b"user:test")),)
    assert ensemble.do(admin, admin.request(OpCode.SET_ACL, SetAcl(CONFIG, acl, -1).encode()))[0][1] == 0
    assert ask(ensemble, user)[0] == code


def test_where_no_superuser_is_configured_nobody_is_one() -> None:
    ensemble = Ensemble(3, reconfigEnabled="true")
    client = ensemble.session(ensemble.follower)
    assert ask(ensemble, client)[0] == ErrorCode.NOAUTH
    ensemble.do(client, client.request(OpCode.AUTH, AddAuth(b"digest", b"super:").encode(), -4))
    assert ask(ensemble, client)[0] == ErrorCode.NOAUTH


def test_nobody_writes_the_znode_itself(ensemble: Ensemble) -> None:
    client = ensemble.session(ensemble.follower)
    before = shown(ensemble, client)
    write = SetData(CONFIG, b"server.1=evil:1:2;3", -1)
    [(_, error, _)] = ensemble.do(client, client.request(OpCode.SET_DATA, write.encode()))
    assert error == ErrorCode.BADARGUMENTS
    [(_, error, results)] = ensemble.do(
        client, client.request(OpCode.MULTI, Multi([(OpCode.SET_DATA, write)]).encode())
    )
    assert error == 0
    assert [result.error for result in results] == [ErrorCode.BADARGUMENTS]
    assert shown(ensemble, client) == before


def test_a_restart_finds_it_in_the_log(ensemble: Ensemble) -> None:
    client = ensemble.session(ensemble.leader)
    gone = min({1, 2, 3} - {ensemble.leader.sid})
    assert ask(ensemble, client, leaving=str(gone))[0] == 0
    ensemble.restart(gone)
    ensemble.start()
    assert voters(ensemble.servers[gone]) == {1, 2, 3} - {gone}


def test_a_server_that_was_removed_comes_back_with_nothing(ensemble: Ensemble) -> None:
    """The voters joined like this one: what they say about themselves is current."""
    ensemble.add(4, 5)
    client = ensemble.session(ensemble.leader)
    leader = ensemble.leader.sid
    first, second = sorted({1, 2, 3} - {leader})
    assert ask(ensemble, client, joining=f"{line(4)},{line(5)}")[0] == 0
    assert ask(ensemble, client, leaving=f"{first},{second}")[0] == 0
    ensemble.servers[first].disk = FaultyDisk()
    ensemble.restart(first)
    ensemble.advance(2_000)
    assert ensemble.servers[first].member.serving
    assert voters(ensemble.servers[first]) == {leader, 4, 5}
    assert ask(ensemble, ensemble.session(ensemble.servers[first]), joining=line(first))[0] == 0
    assert voters(ensemble.servers[first]) == {leader, 4, 5, first}


def test_who_was_away_hears_of_it_when_it_comes_back(ensemble: Ensemble) -> None:
    """One of the servers in its file is up, and that is no quorum."""
    ensemble.add(4, 5)
    leader = ensemble.leader.sid
    away, gone = sorted({1, 2, 3} - {leader})
    ensemble.cut.add(away)
    client = ensemble.session(ensemble.servers[leader])
    assert ask(ensemble, client, joining=f"{line(4)},{line(5)}", leaving=str(gone))[0] == 0
    ensemble.advance(10_000)
    ensemble.cut = {gone}
    ensemble.restart(away)
    ensemble.advance(1_000)
    assert ensemble.servers[away].member.serving
    assert voters(ensemble.servers[away]) == {leader, away, 4, 5}


def test_the_heir_answers_what_is_committed_before_it_leaves_its_leader(ensemble: Ensemble) -> None:
    heir = ensemble.follower
    client = ensemble.session(heir)
    client.replies()
    link = heir.member.peer.link_to_leader
    assert link is not None
    client.say(client.create(b"/a"))
    ensemble.late.add(heir.sid)
    ensemble.settle()
    ensemble.deliver_until(heir, msg.Proposal)
    ensemble.settle()
    commit = msg.Commit(heir.member.peer.history.last[0])
    heir.answers.extend(ev.MessageReceived(link, message) for message in (commit, msg.HandOver(heir.sid)))
    ensemble.step(heir)
    assert not heir.member.serving
    [(_, error, _)] = client.replies()
    assert error == 0
    assert client.is_closed


def test_nothing_is_asked_for_while_a_member_could_not_read_it() -> None:
    """One of a version before: what it does not know is not in its history, and it is let in no more afterwards."""
    ensemble = reconfigurable(3, start=False)
    ensemble.old = {1}
    ensemble.start()
    client = ensemble.session(ensemble.leader)
    ensemble.advance(10_000)
    assert not ensemble.leader.member.peer.memberships.is_any_in_history
    assert ask(ensemble, client, leaving="2") == (ErrorCode.UNIMPLEMENTED, None)
    ensemble.old = set()
    ensemble.restart(1)
    ensemble.advance(10_000)
    assert ensemble.leader.member.peer.memberships.in_force.version > 0
    ensemble.old = {1}
    ensemble.restart(1)
    ensemble.advance(20_000)
    assert not ensemble.servers[ServerId(1)].member.serving
    assert any("knows no reconfiguration: upgrade it" in text for text in ensemble.leader.traces)


@pytest.mark.parametrize("opcode", [OpCode.RECONFIG, OpCode.HAND_OVER])
def test_a_learner_forwards_nothing_that_its_leader_does_not_know(opcode: OpCode) -> None:
    """Such a leader would break off the link."""
    ensemble = reconfigurable(3, start=False)
    ensemble.old = {3}
    ensemble.start()
    assert ensemble.leader.sid == 3
    client = ensemble.session(ensemble.follower)
    ensemble.sent.clear()
    [(_, error, _)] = ensemble.do(client, client.request(opcode, bytes(20)))
    assert error == ErrorCode.UNIMPLEMENTED
    assert not [message for _, message in ensemble.sent if isinstance(message, mmsg.Request)]
