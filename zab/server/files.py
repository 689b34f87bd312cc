"""The files that a server opens besides its configuration: secrets, users, keys and certificates. Most are read again
while it runs.

Not here: their use.
"""

from __future__ import annotations

import ssl
from typing import Final

import attrs

from zab.configuration.fields import ConfigWarning
from zab.host.files.private_file import PrivateFileError
from zab.host.files.secret_file import read_secrets
from zab.host.files.watched_file import WatchedFile
from zab.host.tls.mutual_tls import MutualTls
from zab.member.clients.sasl_users import Users, no_section
from zab.member.settings.config import Config
from zab.server.address_book import AddressBook
from zab.server.kerberos import GssapiCredentials, gssapi_credentials
from zab.server.tls_settings import admin_stores, client_port_stores, tls_of_members
from zab.server.users_file import kerberos_login, server_login, watched_users
from zab.service.failure import CONFIG_ERROR, ServerFailedError
from zab.tls.stores import StoreError
from zab.wire.handshake import Secret


@attrs.frozen
class Files:
    """The files of a server; None for those that the configuration does not name."""

    secrets: WatchedFile[tuple[Secret, ...]] | None
    users: WatchedFile[Users] | None
    kerberos: GssapiCredentials | None
    stores: WatchedFile[ssl.SSLContext] | None
    """The TLS context for client ports."""
    quorum_tls: MutualTls | None
    admin_stores: WatchedFile[ssl.SSLContext] | None


def files_of(config: Config, book: AddressBook) -> Files:
    """Read all files. `book` knows for which servers a certificate is valid. Raises ServerFailedError."""
    return Files(
        _secrets(config),
        _users(config),
        _kerberos(config),
        _client_port_stores(config),
        _quorum_tls(config, book),
        _admin_stores(config),
    )


def warnings_of(config: Config) -> tuple[ConfigWarning, ...]:
    """Warnings about the content of the files. An unreadable file is skipped here, and refused where it is used."""
    try:
        says_nothing = config.login.jaas_file is not None and server_login(config) is None
    except PrivateFileError:
        return ()
    if not says_nothing:
        return ()
    assert config.login.jaas_file is not None
    reason = f"{no_section(config.login.jaas_section)}, so nobody can log in by SASL"
    return (ConfigWarning(config.login.jaas_file, 1, "java.security.auth.login.config", reason),)


def _secrets(config: Config) -> WatchedFile[tuple[Secret, ...]] | None:
    if config.quorum.secret_file is None or config.is_standalone:
        return None
    try:
        return WatchedFile(config.quorum.secret_file, read_secrets)
    except PrivateFileError as error:
        raise ServerFailedError(CONFIG_ERROR, f"quorum.secretFile: {error}") from error


def _users(config: Config) -> WatchedFile[Users] | None:
    try:
        return watched_users(config)
    except PrivateFileError as error:
        key = "sasl.usersFile" if config.login.jaas_file is None else "java.security.auth.login.config"
        raise ServerFailedError(CONFIG_ERROR, f"{key}: {error}") from error


def _kerberos(config: Config) -> GssapiCredentials | None:
    try:
        login = kerberos_login(config)
        return None if login is None else gssapi_credentials(login)
    except PrivateFileError as error:
        raise ServerFailedError(CONFIG_ERROR, f"java.security.auth.login.config: {error}") from error


def _client_port_stores(config: Config) -> WatchedFile[ssl.SSLContext] | None:
    if not config.clients.has_tls:
        return None
    try:
        return client_port_stores(config)
    except StoreError as error:
        raise ServerFailedError(CONFIG_ERROR, f"{config.file}: {error}") from error


def _admin_stores(config: Config) -> WatchedFile[ssl.SSLContext] | None:
    if not config.admin.has_tls:
        return None
    try:
        return admin_stores(config)
    except StoreError as error:
        raise ServerFailedError(CONFIG_ERROR, f"{config.file}: {error}") from error


def _quorum_tls(config: Config, book: AddressBook) -> MutualTls | None:
    if not config.quorum.has_tls or config.is_standalone:
        return None
    try:
        return tls_of_members(config, book.certified)
    except StoreError as error:
        raise ServerFailedError(CONFIG_ERROR, f"{config.file}: {error}") from error


def _quorum_tls_of_file(config: Config) -> MutualTls | None:
    return _quorum_tls(config, AddressBook(config))


READERS: Final = (_secrets, _users, _kerberos, _client_port_stores, _quorum_tls_of_file, _admin_stores)
"""The functions that read the files. They raise ServerFailedError."""
