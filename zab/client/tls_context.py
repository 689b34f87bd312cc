"""The TLS context of a client, from its settings: the trusted authorities, and the client's certificate.

A key that others may read is warned of (`OpenKeyWarning`), not refused, as a server's is: where secrets are mounted for
a group, as in Kubernetes, a program cannot choose.

Not here: the stores (`zab.tls.stores`), which need a library that a client without TLS never loads.
"""

import os
import ssl
import warnings

from zab.client.core.settings import Tls
from zab.tls.contexts import context_of_client
from zab.tls.private import why_not_private
from zab.tls.stores import Store, StoreKeys, kind_of, read_password

__all__ = ["OpenKeyWarning", "context_of"]


class OpenKeyWarning(UserWarning):
    """Other users may read the key of a client, or the password of its key store."""


def context_of(tls: Tls) -> ssl.SSLContext:
    """Raises StoreError."""
    context = context_of_client()
    context.check_hostname = tls.check_host
    password = "" if tls.password_file is None else read_password(tls.password_file, "the password file")
    if tls.trust_store is None:
        context.load_default_certs()
    else:
        _store("the trust store", tls.trust_store, password).load_trusted(context)
    if tls.key_store is not None:
        is_encrypted = _store("the key store", tls.key_store, password).load_key(context)
        if is_encrypted and tls.password_file is not None:
            _warn_if_open("the password file", tls.password_file)
        elif not is_encrypted:
            _warn_if_open("the key store", tls.key_store)
    return context


def _warn_if_open(name: str, path: str) -> None:
    reason = why_not_private(path, os.stat(path))
    if reason is not None:
        warnings.warn(f"{name}: {reason}", OpenKeyWarning, stacklevel=2)


def _store(name: str, path: str, password: str) -> Store:
    """A store is PEM unless its name says otherwise: PEM files have many suffixes."""
    return Store(StoreKeys(name, "the password file", "its name"), path, kind_of(path) or "pem", password)
