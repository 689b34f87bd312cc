"""The example of RFC 7677: the messages of a client that logs in as `user` with the password `pencil`."""

import hashlib
from base64 import b64decode

from zab.partition.access.scram import HASHES, ScramServer, derived, invented

SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r=rOprNGfwEbeRWgbNEkqO{NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = f"c=biws,r=rOprNGfwEbeRWgbNEkqO{NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def credential(mechanism="SCRAM-SHA-256", password=b"pencil"):
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password, SALT, 4096)
    return derived(mechanism, salted, SALT, 4096)


def server(users=None):
    known = {"user": credential()} if users is None else users
    return ScramServer("SCRAM-SHA-256", lambda name: known.get(name) or invented("SCRAM-SHA-256", b"x", name), NONCE)
