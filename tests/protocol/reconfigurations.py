"""Reconfigurations that a run proposes."""

from datatree.digest import DIGEST_VERSION
from datatree.log.batch import RECONFIG
from datatree.log.zxid import Zxid
from datatree.opcodes import OpCode
from datatree.paths import CONFIG
from datatree.record import Txn, encode
from tests.rigs.direct.peers import Ensemble
from zab.configuration.dynamic import Ensemble as Configuration
from zab.configuration.dynamic import Role, ServerLine
from zab.member.membership.reconfiguring import READER
from zab.protocol import events as ev
from zab.protocol import reconfiguration
from zab.quorum.ids import ServerId


def text_of(version: int, voters: set[ServerId], observers: set[ServerId]) -> bytes:
    lines = {
        sid: ServerLine(sid, f"host{sid}", 2888, 3888, role, "0.0.0.0", 2181)
        for sids, role in ((voters, Role.PARTICIPANT), (observers, Role.OBSERVER))
        for sid in sids
    }
    return str(Configuration(lines, version=version)).encode()


def propose_configuration(
    ensemble: Ensemble, leader: ServerId, voters: set[ServerId], observers: set[ServerId]
) -> Zxid | None:
    """Let this leader propose these, if a quorum of them follows; its version, if it did."""
    peer = ensemble.peer(leader)
    zxid = peer.next_zxid()
    assert zxid is not None
    text = text_of(zxid, voters, observers)
    if not reconfiguration.has_quorum_of(peer, READER.of_text(text)):
        return None
    body = encode(Txn(zxid, 0, 0, 0, int(OpCode.RECONFIG), -1, CONFIG, text, None))
    process = ensemble.servers[leader].process
    assert process is not None
    applied, digest = peer.delivered, process.alone.tree.digest
    ensemble.step(leader, ev.Propose(zxid, body, 1, 0, RECONFIG, applied, digest, DIGEST_VERSION))
    return zxid
