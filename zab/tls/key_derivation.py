"""The cost of opening PKCS#12: the rounds of deriving its keys from its password. Pure.

    rounds_of(data) -> int      of all its parts together

The writer of the file chose how many. The library runs them while holding Python's lock, so a server that re-reads its
stores would stall for that long: `stores` counts the rounds before it opens anything.

    PFX             version | ContentInfo: the safes | MacData: DigestInfo, salt, rounds (1)
    safes           ContentInfo of each: Data, its bags; or EncryptedData: version, [content type, algorithm, bytes]
    bag             kind | value, a protected key's: algorithm, bytes | attributes
    algorithm       PBES2 and PBMAC1: PBKDF2 (salt, rounds, …) | cipher or digest;  the others: salt, rounds

Tools write it in BER: a length may be indefinite, ended by two zero bytes, and an octet string may come in pieces.

Source: RFC 7292, RFC 8018, RFC 9579. Not here: bags inside encrypted ones, which are only visible after decryption; no
tool encrypts a key twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

__all__ = ["rounds_of"]

_INTEGER, _OCTETS, _IDENTIFIER, _SEQUENCE = 0x02, 0x04, 0x06, 0x30
_PIECES: Final = 0x24
"""The tag of an octet string that comes in pieces."""
_VALUE: Final = 0xA0
_LONG_TAG: Final = 0x1F

_DATA: Final = bytes.fromhex("2a864886f70d010701")
_ENCRYPTED_DATA: Final = bytes.fromhex("2a864886f70d010706")
_PROTECTED_KEY: Final = bytes.fromhex("2a864886f70d010c0a0102")
_BAGS: Final = bytes.fromhex("2a864886f70d010c0a0106")
_PBKDF2: Final = bytes.fromhex("2a864886f70d01050c")
_OF_TWO: Final = frozenset(map(bytes.fromhex, ("2a864886f70d01050d", "2a864886f70d01050e")))
"""PBES2 and PBMAC1: each has a key derivation and a scheme that uses the key."""


def rounds_of(data: bytes) -> int:
    """Count the rounds. Raises ValueError if that is impossible: it is not PKCS#12, or of a kind that no tool
    writes."""
    try:
        return _rounds_of(data)
    except (IndexError, StopIteration):
        raise ValueError("it ends too early") from None


def _rounds_of(data: bytes) -> int:
    _version, safes, *mac = _inside(next(_elements(data)), _SEQUENCE)
    rounds = 0
    for info in _in_data(safes):
        kind, value = _inside(info, _SEQUENCE)
        if kind == (_IDENTIFIER, _ENCRYPTED_DATA):
            _version, encrypted, *_ = _inside(_only(value), _SEQUENCE)
            rounds += _derivation(_inside(encrypted, _SEQUENCE)[1])
        else:
            rounds += sum(map(_of_bag, _in_data(info)))
    if mac:
        digest, _salt, *more = _inside(mac[0], _SEQUENCE)
        algorithm = _inside(digest, _SEQUENCE)[0]
        is_of_two = _inside(algorithm, _SEQUENCE)[0][1] in _OF_TWO
        rounds += _derivation(algorithm) if is_of_two else _number(more[0]) if more else 1
    return rounds


def _of_bag(bag: _Element) -> int:
    kind, value, *_ = _inside(bag, _SEQUENCE)
    if kind == (_IDENTIFIER, _BAGS):
        raise ValueError("a bag contains bags")
    return _derivation(_inside(_only(value), _SEQUENCE)[0]) if kind == (_IDENTIFIER, _PROTECTED_KEY) else 0


def _derivation(algorithm: _Element) -> int:
    """The rounds of one key derivation."""
    identifier, parameters = _inside(algorithm, _SEQUENCE)
    if identifier[1] in _OF_TWO:
        identifier, parameters = _inside(_inside(parameters, _SEQUENCE)[0], _SEQUENCE)
        if identifier != (_IDENTIFIER, _PBKDF2):
            raise ValueError("the key derivation is unknown")
    _salt, rounds, *_ = _inside(parameters, _SEQUENCE)
    return _number(rounds)


_Element = tuple[int, bytes]
"""A tag, and the contents."""


def _inside(element: _Element, tag: int) -> list[_Element]:
    if element[0] != tag:
        raise ValueError("its structure is not that of PKCS#12")
    return [*_elements(element[1])]


def _only(element: _Element) -> _Element:
    """The element inside an explicit tag."""
    [found] = _inside(element, _VALUE)
    return found


def _in_data(info: _Element) -> list[_Element]:
    """The elements of a ContentInfo that is Data."""
    kind, value = _inside(info, _SEQUENCE)
    if kind != (_IDENTIFIER, _DATA):
        raise ValueError("it is encrypted with a public key, or signed")
    tag, content = _only(value)
    if tag == _PIECES:
        content = b"".join(piece for _, piece in _elements(content))
    elif tag != _OCTETS:
        raise ValueError("its structure is not that of PKCS#12")
    return _inside(next(_elements(content)), _SEQUENCE)


def _number(element: _Element) -> int:
    tag, content = element
    number = int.from_bytes(content, "big", signed=True)
    if tag != _INTEGER or number < 0:
        raise ValueError("the number of rounds is missing")
    return number


def _elements(data: bytes) -> Iterator[_Element]:
    at = 0
    while at < len(data):
        tag, begin, length = _header(data, at)
        if length is None:
            end = _open_end(data, begin)
            at = end + 2
        else:
            at = end = begin + length
            if end > len(data):
                raise IndexError
        yield tag, data[begin:end]


def _header(data: bytes, at: int) -> tuple[int, int, int | None]:
    """The tag, the offset of the contents, and their length; None for an indefinite length."""
    tag, length = data[at], data[at + 1]
    begin = at + 2
    if tag & _LONG_TAG == _LONG_TAG:
        raise ValueError("its structure is not that of PKCS#12")
    if length < 0x80:
        return tag, begin, length
    if length == 0x80:
        return tag, begin, None
    count = length - 0x80
    return tag, begin + count, int.from_bytes(data[begin : begin + count], "big")


def _open_end(data: bytes, at: int) -> int:
    """The offset of the two zero bytes that end the contents beginning at `at`."""
    depth = 1
    while True:
        tag, begin, length = _header(data, at)
        if length is None:
            depth += 1
        elif not tag and not length:
            depth -= 1
            if not depth:
                return at
        at = begin + (length or 0)
