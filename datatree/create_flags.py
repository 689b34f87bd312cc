"""Which kind of znode a create makes if its opcode and its flags disagree. One of them decides, as in ZooKeeper:

    alone       the opcode. A create or create2 with the flag of a container makes a persistent znode. A createContainer
                makes a container with any flags of a create, and those of a sequence number it.
    in a multi  the flag of a container makes a container, whatever the opcode. A createContainer is as above.
                A createTTL with the flags of a create is that create.

Clients send such pairs: aiozk and zoonado make missing parents by a create2 with the flag of a container. ZooKeeper
stores what the opcode says and sums in its digest what the flag says. Here the type and the owner in the transaction
say one kind, and every member applies those.

Unknown flags, and those of a TTL in any opcode but createTTL, are BADARGUMENTS.
"""

from typing import Final

from datatree.errors import ErrorCode, Refused
from datatree.opcodes import OpCode

__all__ = ["EPHEMERAL", "SEQUENTIAL", "kind_of"]

# Bit 0 is ephemeral below 4, and these are sequential.
EPHEMERAL: Final = (1, 3)
SEQUENTIAL: Final = (2, 3, 6)

_OF_CREATES: Final = range(4)
_OF_A_CONTAINER: Final = 4
_OF_TTLS: Final = (5, 6)

_CREATE: Final = int(OpCode.CREATE)
_CREATE_CONTAINER: Final = int(OpCode.CREATE_CONTAINER)
_CREATE_TTL: Final = int(OpCode.CREATE_TTL)
_OPCODES: Final = (_CREATE, int(OpCode.CREATE2), _CREATE_CONTAINER)

_ALONE: Final = {(opcode, flags): opcode for opcode in _OPCODES for flags in (*_OF_CREATES, _OF_A_CONTAINER)} | {
    (_CREATE_TTL, flags): _CREATE_TTL for flags in _OF_TTLS
}
_IN_MULTIS: Final = (
    _ALONE
    | {(_CREATE_TTL, flags): _CREATE for flags in _OF_CREATES}
    | {(opcode, _OF_A_CONTAINER): _CREATE_CONTAINER for opcode in (*_OPCODES, _CREATE_TTL)}
)


def kind_of(opcode: int, flags: int, *, in_multi: bool) -> int:
    """The opcode of the create that is executed and logged. Raises Refused."""
    kind = (_IN_MULTIS if in_multi else _ALONE).get((opcode, flags))
    if kind is None:
        raise Refused(ErrorCode.BADARGUMENTS)
    return kind
