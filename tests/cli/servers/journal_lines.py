"""What the journal of a server says."""

from zab.cli.servers.local_ensemble import OFFSETS
from zab.testing.kit.ports import free_ports_in_a_row


def client_port(count: int) -> int:
    """The first of an ensemble's client ports; its other ports are where it derives them from these."""
    return free_ports_in_a_row(count, OFFSETS)
