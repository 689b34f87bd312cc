/* TLS for the load generator, by OpenSSL, over a socket that blocks or does not. Where it was compiled without WITH_TLS,
   tls_prepare refuses, and nobody gets as far as the rest.

   tls_prepare and tls_connect leave a reason when they fail. tls_send and tls_receive are like send and recv:
   they do a part of the work and say how much, 0 is the end of the connection, and -1 leaves the reason in errno, EAGAIN
   where the socket has to be waited for, EPROTO where tls_reason has more.

   Renegotiation is off, so writing waits for what is to be read in the handshake alone. A read may wait for a write: a
   peer may ask for other keys at any time. A record is read with all that the kernel has behind it, and not by its header
   first: the caller reads on while tls_holds_more(). */

#ifndef LOAD_TLS_H
#define LOAD_TLS_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#ifdef WITH_TLS

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TLS_READ_AHEAD = 256 * 1024 };

struct tls {
    SSL *ssl;
    bool sends_when_readable;
    bool receives_when_writable;
};

static SSL_CTX *tls_context;
static char tls_reason[512];

/* The first error that OpenSSL has, or what else is known; it is kept in tls_reason. */
static const char *tls_failure(const char *otherwise)
{
    unsigned long code = ERR_peek_error();
    const char *text = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : code ? ERR_reason_error_string(code) : NULL;
    snprintf(tls_reason, sizeof tls_reason, "%s", text ? text : otherwise);
    ERR_clear_error();
    return tls_reason;
}

/* Whom to believe, and what to show: nothing where `cert` is NULL. NULL, or why it cannot be. */
static const char *tls_prepare(const char *ca, const char *cert, const char *key)
{
    static char reason[1024];
    const char *failed = NULL;
    tls_context = SSL_CTX_new(TLS_client_method());
    if (!tls_context)
        return tls_failure("no memory");
    SSL_CTX_set_min_proto_version(tls_context, TLS1_2_VERSION);
    SSL_CTX_set_options(tls_context, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(tls_context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(tls_context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_read_ahead(tls_context, 1);
    SSL_CTX_set_default_read_buffer_len(tls_context, TLS_READ_AHEAD);
    if (SSL_CTX_load_verify_locations(tls_context, ca, NULL) != 1)
        failed = ca;
    else if (cert && SSL_CTX_use_certificate_chain_file(tls_context, cert) != 1)
        failed = cert;
    else if (cert && SSL_CTX_use_PrivateKey_file(tls_context, key, SSL_FILETYPE_PEM) != 1)
        failed = key;
    if (failed) {
        snprintf(reason, sizeof reason, "%s: %s", failed, tls_failure("it cannot be used"));
        return reason;
    }
    /* A connection that the server has reset is an error of a call, and no end of the program. */
    signal(SIGPIPE, SIG_IGN);
    return NULL;
}

/* Shakes hands over a socket that blocks; the server has to show a certificate for `name`. NULL: see tls_reason. */
static struct tls *tls_connect(int socket, const char *name)
{
    struct tls *tls = calloc(1, sizeof *tls);
    SSL *ssl = SSL_new(tls_context);
    if (!tls || !ssl || SSL_set_fd(ssl, socket) != 1) {
        tls_failure("no memory");
        return NULL;
    }
    tls->ssl = ssl;
    bool named = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    if (!named)
        named = SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
    ERR_clear_error();
    if (!named || SSL_connect(ssl) != 1) {
        long verified = SSL_get_verify_result(ssl);
        if (verified != X509_V_OK) {
            ERR_clear_error();
            tls_failure(X509_verify_cert_error_string(verified));
        } else
            tls_failure("the server ended the handshake");
        return NULL;
    }
    return tls;
}

/* What a call of OpenSSL that did nothing means for the caller; *waits is for what the socket does not do by itself. */
static ssize_t tls_undone(SSL *ssl, int result, int other_way, bool *waits)
{
    int os_error = errno, why = SSL_get_error(ssl, result);
    if (why == SSL_ERROR_ZERO_RETURN)
        return 0;
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        *waits = why == other_way;
        errno = EAGAIN;
        return -1;
    }
    if (why == SSL_ERROR_SYSCALL && os_error) {
        ERR_clear_error();
        errno = os_error;
        return -1;
    }
    tls_failure("the connection ended within TLS");
    errno = EPROTO;
    return -1;
}

static ssize_t tls_send(struct tls *tls, const void *bytes, size_t length)
{
    size_t sent;
    tls->sends_when_readable = false;
    errno = 0;
    int result = SSL_write_ex(tls->ssl, bytes, length, &sent);
    if (result == 1)
        return (ssize_t)sent;
    return tls_undone(tls->ssl, result, SSL_ERROR_WANT_READ, &tls->sends_when_readable);
}

static ssize_t tls_receive(struct tls *tls, void *bytes, size_t size)
{
    size_t got;
    tls->receives_when_writable = false;
    errno = 0;
    int result = SSL_read_ex(tls->ssl, bytes, size, &got);
    if (result == 1)
        return (ssize_t)got;
    return tls_undone(tls->ssl, result, SSL_ERROR_WANT_WRITE, &tls->receives_when_writable);
}

static bool tls_holds_more(const struct tls *tls) { return SSL_has_pending(tls->ssl); }

/* Whether to wait until the socket takes more, given that some bytes are unsent or none. */
static bool tls_wants_write(const struct tls *tls, bool unsent)
{
    return (unsent && !tls->sends_when_readable) || tls->receives_when_writable;
}

static bool tls_receives_when_writable(const struct tls *tls) { return tls->receives_when_writable; }

#else

struct tls;

static const char *tls_reason = "";

static const char *tls_prepare(const char *ca, const char *cert, const char *key)
{
    (void)ca, (void)cert, (void)key;
    return "no TLS: the headers of OpenSSL (libssl-dev) were not there when this was compiled";
}

static struct tls *tls_connect(int socket, const char *name) { return (void)socket, (void)name, NULL; }

static ssize_t tls_send(struct tls *tls, const void *bytes, size_t length)
{
    (void)tls, (void)bytes, (void)length;
    errno = ENOSYS;
    return -1;
}

static ssize_t tls_receive(struct tls *tls, void *bytes, size_t size) { return tls_send(tls, bytes, size); }

static bool tls_holds_more(const struct tls *tls) { return (void)tls, false; }

static bool tls_wants_write(const struct tls *tls, bool unsent) { return (void)tls, unsent; }

static bool tls_receives_when_writable(const struct tls *tls) { return (void)tls, false; }

#endif
#endif
