"""Where a member listens for others, and whether it accepts them without proof."""

from __future__ import annotations

import attrs

from zab.configuration.dynamic import MemberAddress
from zab.host.journal.journal import Journal
from zab.host.loop.dial import BeyondThisMachineError, local_addresses
from zab.member.settings.config import Config
from zab.service.failure import CONFIG_ERROR, ServerFailedError

_BEYOND = (
    "members that are reached from other machines have to prove who they are: run `zab secret FILE`, copy FILE to all, "
    "and add the line `quorum.secretFile=FILE`; or run `zab certs` and add the lines with `quorum` that it prints (or "
    "`quorum.insecure=true`, where nobody else reaches their ports)"
)

journal = Journal("server")


def needs_no_secret(config: Config) -> bool:
    """Whether this member accepts others without one of its secrets."""
    return config.quorum.secret_file is None or not config.quorum.secret_required


def is_open(config: Config) -> bool:
    """Whether this member accepts others without proof: neither a secret nor a certificate is required."""
    return needs_no_secret(config) and config.quorum.takes_plain


def warn_if_open(config: Config) -> None:
    if not config.is_standalone and is_open(config):
        journal.warning("members are not authenticated", secretFile=config.quorum.secret_file)


async def quorum_addresses(config: Config) -> list[MemberAddress]:
    """Where to listen for other members; an empty host means everywhere. If the member accepts others without proof,
    any process that reaches these ports can read and write everything: then it must be an address of this machine, and
    no name that may resolve to another machine later."""
    line = config.own_line
    if config.is_standalone or line is None:
        return []
    if is_open(config) and not config.quorum.insecure:
        await refuse_strangers(config)
        return [attrs.evolve(each, host=(await local_addresses(each.host))[0]) for each in line.addresses]
    if config.membership.quorum_listen_on_all_ips:
        return list(dict.fromkeys(attrs.evolve(each, host="") for each in line.addresses))
    return list(line.addresses)


async def refuse_strangers(config: Config) -> None:
    """Raise ServerFailedError if members would be accepted without proof, and one is not on this machine."""
    if config.is_standalone or not is_open(config) or config.quorum.insecure:
        return
    if config.membership.quorum_listen_on_all_ips:
        raise ServerFailedError(CONFIG_ERROR, f"{config.file}: quorumListenOnAllIPs=true, {_BEYOND}")
    for sid, line in config.ensemble.servers.items():
        for host in line.hosts:
            try:
                await local_addresses(host)
            except OSError as error:
                said = f"{host} is not this machine alone"
                if not isinstance(error, BeyondThisMachineError):
                    said = f"{host} has no address ({error.strerror}), so it counts as another machine"
                raise ServerFailedError(CONFIG_ERROR, f"{config.file}: server.{sid}: {said}: {_BEYOND}") from error
