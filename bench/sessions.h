/* What the generators of load for ZooKeeper's protocol share: its operations, and parts of its frames. */

#ifndef SESSIONS_H
#define SESSIONS_H

#include "frames.h"

enum { OP_CREATE = 1, OP_DELETE = 2, OP_GET = 4, OP_SET = 5, OP_CHILDREN = 8, OP_SYNC = 9, OP_PING = 11, OP_MULTI = 14 };
enum { OP_ADD_WATCH = 106, OP_CLOSE = -11, ERR_NODEEXISTS = -110, XID_PING = -2 };
enum { CONNECT_REQUEST = 49 };

static uint8_t *put_bytes(uint8_t *at, const void *bytes, int length)
{
    at = put_int(at, length);
    memcpy(at, bytes, (size_t)length);
    return at + length;
}

static uint8_t *put_open_acl(uint8_t *at)
{
    at = put_int(put_int(at, 1), 31); /* one ACL: all permissions */
    return put_bytes(put_bytes(at, "world", 5), "anyone", 6);
}

/* The handshake of a new session, with its length prefix. */
static void put_connect_request(uint8_t request[CONNECT_REQUEST], int timeout_ms)
{
    memset(request, 0, CONNECT_REQUEST);
    put_int(request, CONNECT_REQUEST - 4);
    put_int(request + 16, timeout_ms);
    put_int(request + 28, 16); /* an empty password of 16 bytes, then readOnly = false */
}

#endif
