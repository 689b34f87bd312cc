"""The TLS of a client, out of its settings: who vouches for servers, and its own certificate.

Limits: TLS 1.2 at least.

Not here: the stores (`zab.tls.stores`), which take a library that a client without TLS never loads.
"""

import ssl

from zab.client.core.settings import Tls
from zab.tls.stores import Store, StoreKeys, kind_of, read_password

__all__ = ["context_of"]


def context_of(tls: Tls) -> ssl.SSLContext:
    """Raises StoreError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.check_host
    password = "" if tls.password_file is None else read_password(tls.password_file, "the password file")
    if tls.trust_store is None:
        context.load_default_certs()
    else:
        _store("the trust store", tls.trust_store, password).load_trusted(context)
    if tls.key_store is not None:
        _store("the key store", tls.key_store, password).load_key(context)
    return context


def _store(name: str, path: str, password: str) -> Store:
    """What is not named as something else is PEM: certificates have many names."""
    return Store(StoreKeys(name, "the password file", "its name"), path, kind_of(path) or "pem", password)
