"""The credentials of this server, those that it accepts, and the files that are read again.

    party, believes      for handshakes with other members: its secrets
    secret_name          the secret that protects the session key
    client_policy        TLS at the ports of clients
    rereads              a row for each file that is read again while the server runs

When a secret is removed, links that it proved are cut off: one member after the other, the leader last, so that there
is always a quorum, whichever member gets the new file first. Meanwhile that secret admits no new connections.

Not here: reading the files (`files`), when they are checked (`zab.host.files.watched_file`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import trio

from zab.host.files.watched_file import CERTIFICATES_KEPT, Reread
from zab.host.journal.journal import Journal
from zab.host.tls.policy import TlsPolicy
from zab.member.clients.events import UsersRead
from zab.member.events import Answer
from zab.member.membership.greeting import party
from zab.member.settings.config import Config
from zab.protocol.events import SecretNamed
from zab.protocol.session_keys import ALONE
from zab.server.files import Files
from zab.server.quorum_host import is_open, needs_no_secret
from zab.wire.handshake import Agreed, Party

DOUBT_SECONDS = 4.0
"""Time for a member to see a new file, and for a learner that was cut off to follow again."""

journal = Journal("server")


class Credentials:
    """The credentials of one server."""

    def __init__(self, config: Config, files: Files) -> None:
        self._config = config
        self._files = files
        self._policies: list[TlsPolicy] = []
        """The TLS policies of client ports, which get new certificates."""

    def party(self) -> Party:
        """The secrets of this server for handshakes with others."""
        secrets = () if self._files.secrets is None else self._files.secrets.content
        return party(self._config.server_id, secrets, is_open=needs_no_secret(self._config))

    def believes(self, agreed: Agreed) -> bool:
        """Whether the proof with which a connection began is still valid."""
        return self.party().believes(agreed)

    def secret_name(self) -> SecretNamed:
        """The name of the secret that protects the session key. It has a name if this server is alone, or if every
        member authenticates, by a secret or a trusted certificate."""
        name = b""
        if self._config.is_standalone:
            name = ALONE
        elif self._files.secrets is not None and self._config.quorum.secret_required:
            name = self._files.secrets.content[0].name
        elif not is_open(self._config):
            assert self._files.quorum_tls is not None
            name = self._files.quorum_tls.trusted_name
        return SecretNamed(name)

    def users(self) -> UsersRead | None:
        """The users that may log in by SASL; None if there is no such file."""
        return None if self._files.users is None else UsersRead(self._files.users.content)

    def member_policy(self) -> TlsPolicy | None:
        """TLS at the ports for members; None: they do not speak it."""
        return None if self._files.quorum_tls is None else self._files.quorum_tls.policy

    def client_policy(self, *, takes_plain: bool) -> TlsPolicy | None:
        """TLS at a port for clients; None: the port does not speak it."""
        if self._files.stores is None or (takes_plain and not self._config.clients.port_unification):
            return None
        policy = TlsPolicy(self._files.stores.content, takes_plain=takes_plain)
        self._policies.append(policy)
        return policy

    # ---------------------------------------------------------------------------------------------------- reading again

    def rereads(
        self, put: Callable[[Answer], None], doubt: Callable[[], None], take_admin_stores: Callable[[], None]
    ) -> Iterator[Reread]:
        """The files that are read again. `put` tells the member. `doubt` begins to cut off links whose proof is no
        longer valid. `take_admin_stores` gives new certificates to the admin server."""
        config, files = self._config, self._files
        if files.secrets is not None:
            changed = partial(self._take_secrets, put, doubt)
            yield Reread(files.secrets, changed, "the secrets cannot be read again -> those before stay")
        if files.users is not None:
            kept = "the users cannot be read again -> those before stay"
            yield Reread(files.users, partial(self._take_users, put), kept)
        if files.stores is not None and config.client_tls.reloads:
            yield Reread(files.stores, self._take_stores, CERTIFICATES_KEPT)
        if files.quorum_tls is not None and config.quorum_tls.reloads:
            kept = "the certificates of members cannot be used -> those before stay"
            yield Reread(files.quorum_tls.watched, partial(self._take_quorum_stores, put), kept)
        if files.admin_stores is not None and config.quorum_tls.reloads:
            kept = "the certificates of the admin server cannot be used -> those before stay"
            yield Reread(files.admin_stores, take_admin_stores, kept)

    def _take_secrets(self, put: Callable[[Answer], None], doubt: Callable[[], None]) -> None:
        assert self._files.secrets is not None
        journal.info("there are other secrets", names=",".join(each.name.hex() for each in self._files.secrets.content))
        doubt()
        put(self.secret_name())

    def _take_users(self, put: Callable[[Answer], None]) -> None:
        users = self.users()
        assert users is not None
        journal.info("there are other users", count=len(users.users))
        put(users)

    def _take_stores(self) -> None:
        assert self._files.stores is not None
        journal.info("there are other certificates")
        for policy in self._policies:
            policy.context = self._files.stores.content

    def _take_quorum_stores(self, put: Callable[[Answer], None]) -> None:
        assert self._files.quorum_tls is not None
        journal.info("there are other certificates of members")
        self._files.quorum_tls.take_new()
        put(self.secret_name())


async def doubt_in_turn(
    server_id: int, others: Iterable[int], leads: Callable[[], bool], doubt: Callable[[], None]
) -> None:
    """Call `doubt` when it is the turn of this server among the others; the turn of the leader comes last."""
    members = sorted({*others, server_id})
    place = members.index(server_id)
    await trio.sleep(place * DOUBT_SECONDS)
    for _ in members[place:]:
        if leads():
            await trio.sleep(DOUBT_SECONDS)
    doubt()
