/* The other sides of plain writes (`plain.h`): from a request to a transaction, and from there to its record and back.

   prepare         datatree.prepare.Prepare.prepare: a write -> a transaction
   prepare_parts   the same: the parts of a multi, from one on
   encode, decode                  datatree.record: transactions <-> records
   encode_parts, decode_parts      datatree.record: the parts of a multi <-> its rest

   What lasts is in the state of the module: the tables of CRC-32, the name of a method, constants. */

#include "plain.h"

typedef struct {
    Crc crc;
    PyObject *append, *root, *zero, *ordinary;
} State;

static State *state_of(PyObject *module) { return PyModule_GetState(module); }

/* --------------------------------------------------------------------------------------------------------- records */

enum { PATH_AT = 50, BYTES = 0x5A, NULL_VALUE = 0xF6, NEGATIVE = 0x20, SMALL = 24, OWNER_REST_BYTES = 11 };

/* The bytes of a request. */
typedef struct {
    const unsigned char *bytes;
    Py_ssize_t at, size;
} Reader;

static bool read_int(Reader *reader, int64_t *value)
{
    if (reader->size - reader->at < 4)
        return false;
    *value = (int32_t)get32(reader->bytes + reader->at);
    reader->at += 4;
    return true;
}

/* Bytes with their length; NULL: LEFT or FAILED. */
static PyObject *read_bytes(Reader *reader)
{
    int64_t length;
    if (!read_int(reader, &length) || length < 0 || length > reader->size - reader->at)
        return NULL;
    reader->at += length;
    return new_bytes(reader->bytes + reader->at - length, length);
}

static bool is_create(int64_t kind)
{
    return kind == CREATE || kind == CREATE2 || kind == CREATE_CONTAINER || kind == CREATE_TTL;
}

/* Whether the rest of this type is null. */
static bool has_no_rest(int64_t kind)
{
    return kind == DELETE || kind == SET_DATA || kind == CHECK || kind == RECONFIG || kind == DELETE_CONTAINER ||
           kind == CREATE_SESSION;
}

/* A head and a number of so many bytes; the head says whether it is negative. */
static bool signed_at(const unsigned char *at, int head, int bytes, int64_t *value)
{
    uint64_t payload = bytes == 8 ? get64(at + 1) : bytes == 4 ? get32(at + 1) : at[1];
    *value = at[0] == head ? (int64_t)payload : ~(int64_t)payload;
    return (at[0] == head || at[0] == head + NEGATIVE) && (bytes == 1 || !(payload >> (8 * bytes - 1)));
}

static PyObject *rest_at(State *state, int64_t kind, const unsigned char *at, Py_ssize_t length)
{
    if (has_no_rest(kind))
        return length == 1 && *at == NULL_VALUE ? Py_NewRef(Py_None) : NULL;
    if (is_create(kind) && length == OWNER_REST_BYTES && !memcmp(at, "\x82\xf6\x1b", 3) && at[3] < 0x80)
        return get64(at + 3) ? Py_BuildValue("(OL)", Py_None, (long long)get64(at + 3)) : Py_NewRef(state->ordinary);
    if (kind == ERROR && length == 2 && at[0] == 0x81 && (at[1] & ~NEGATIVE) < SMALL)
        return Py_BuildValue("(i)", at[1] & NEGATIVE ? ~(at[1] & ~NEGATIVE) : at[1]);
    return NULL;
}

/* The record at `at`, of at most `left` bytes; and its length. */
static PyObject *record_at(State *state, const unsigned char *at, Py_ssize_t left, int64_t due, Py_ssize_t *length)
{
    int64_t session, cxid, kind, number;
    if (left < PATH_AT || at[0] != BYTES || at[5] != 0x89 || at[6] != 0x1B || at[15] != 0x1B || at[45] != 0x7A)
        return NULL;
    int64_t zxid = (int64_t)get64(at + 7), time = (int64_t)get64(at + 16);
    Py_ssize_t path_length = get32(at + 46), data_at = PATH_AT + path_length + 1, data_length = 0, end;
    *length = end = 5 + (Py_ssize_t)get32(at + 1);
    if (end > left || zxid <= 0 || zxid != due || time < 0 || data_at >= end || !is_ascii(at + PATH_AT, path_length) ||
        !signed_at(at + 24, 0x1B, 8, &session) || !signed_at(at + 33, 0x1A, 4, &cxid) ||
        !signed_at(at + 38, 0x18, 1, &kind) || !signed_at(at + 40, 0x1A, 4, &number))
        return NULL;
    bool has_data = at[data_at - 1] == BYTES;
    if (has_data ? data_at + 4 >= end : at[data_at - 1] != NULL_VALUE)
        return NULL;
    if (has_data) {
        data_length = get32(at + data_at);
        data_at += 4;
    }
    PyObject *rest = data_at + data_length >= end ? NULL
                     : rest_at(state, kind, at + data_at + data_length, end - data_at - data_length);
    if (rest == NULL)
        return NULL;
    PyObject *data = has_data ? new_bytes(at + data_at, data_length) : Py_NewRef(Py_None);
    return Py_BuildValue("(LLLiiiy#NN)", zxid, time, session, (int)cxid, (int)kind, (int)number, at + PATH_AT,
                         path_length, data, rest);
}

static PyObject *decode(PyObject *module, PyObject *arguments)
{
    PyObject *body, *first;
    Py_ssize_t offset, count, length;
    int64_t due;
    if (!PyArg_ParseTuple(arguments, "O!nOn", &PyBytes_Type, &body, &offset, &first, &count))
        return NULL;
    PyObject *txns = PyList_New(0);
    int end = txns == NULL ? FAILED : integer(first, 1, INT64_MAX - PY_SSIZE_T_MAX / 2, &due);
    Py_ssize_t size = PyBytes_GET_SIZE(body);
    for (; end == DONE && count > 0 && offset >= 0 && offset < size; count--, due++, offset += length) {
        PyObject *txn = record_at(state_of(module), bytes_of(body) + offset, size - offset, due, &length);
        end = txn == NULL ? left_or_failed() : PyList_Append(txns, txn) ? FAILED : DONE;
        Py_XDECREF(txn);
        if (end != DONE)
            break;
    }
    if (end == FAILED)
        Py_CLEAR(txns);
    return txns == NULL ? NULL : Py_BuildValue("(Nn)", txns, offset);
}

static unsigned char *put_signed(unsigned char *at, int head, int bytes, int64_t value)
{
    *at++ = (unsigned char)(value < 0 ? head + NEGATIVE : head);
    return put(at, bytes, (uint64_t)(value < 0 ? ~value : value));
}

/* The rest of a record, of at most `OWNER_REST_BYTES`. Its length; 0: it is left. */
static Py_ssize_t put_rest(unsigned char *at, int64_t kind, PyObject *rest)
{
    int64_t value;
    if (rest == Py_None) {
        *at = NULL_VALUE;
        return 1;
    }
    if (is_create(kind) && is_tuple(rest, 2) && ITEM(rest, 0) == Py_None &&
        integer(ITEM(rest, 1), 0, INT64_MAX, &value) == DONE)
        return put(put_bytes(at, "\x82\xf6\x1b", 3), 8, (uint64_t)value) - at;
    if (kind == ERROR && is_tuple(rest, 1) && integer(ITEM(rest, 0), -SMALL, SMALL - 1, &value) == DONE) {
        at[0] = 0x81;
        at[1] = (unsigned char)(value < 0 ? NEGATIVE + ~value : value);
        return 2;
    }
    return 0;
}

static PyObject *encode(PyObject *Py_UNUSED(module), PyObject *txn)
{
    int64_t zxid, time, session, cxid, kind, number;
    if (!is_tuple(txn, 9) || integer(ITEM(txn, 0), 0, INT64_MAX, &zxid) != DONE ||
        integer(ITEM(txn, 1), 0, INT64_MAX, &time) != DONE ||
        integer(ITEM(txn, 2), INT64_MIN, INT64_MAX, &session) != DONE ||
        integer(ITEM(txn, 3), INT32_MIN, INT32_MAX, &cxid) != DONE || integer(ITEM(txn, 4), -256, 255, &kind) != DONE ||
        integer(ITEM(txn, 5), INT32_MIN, INT32_MAX, &number) != DONE)
        Py_RETURN_NONE;
    PyObject *path = ITEM(txn, 6), *data = ITEM(txn, 7);
    unsigned char rest[OWNER_REST_BYTES];
    Py_ssize_t rest_length = put_rest(rest, kind, ITEM(txn, 8));
    if (!rest_length || !PyBytes_CheckExact(path) || !(data == Py_None || PyBytes_CheckExact(data)))
        Py_RETURN_NONE;
    Py_ssize_t data_length = data == Py_None ? 0 : PyBytes_GET_SIZE(data), path_length = PyBytes_GET_SIZE(path);
    Py_ssize_t length = PATH_AT + path_length + (data == Py_None ? 1 : 5) + data_length + rest_length;
    if (length > INT32_MAX)
        Py_RETURN_NONE;
    PyObject *record = PyBytes_FromStringAndSize(NULL, length);
    if (record == NULL)
        return NULL;
    unsigned char *at = bytes_of(record);
    *at = BYTES;
    at = put(at + 1, 4, (uint64_t)length - 5);
    *at = 0x89;
    at = put_signed(put_signed(put_signed(at + 1, 0x1B, 8, zxid), 0x1B, 8, time), 0x1B, 8, session);
    at = put_signed(put_signed(put_signed(at, 0x1A, 4, cxid), 0x18, 1, kind), 0x1A, 4, number);
    *at = 0x7A;
    at = put_bytes(put(at + 1, 4, (uint64_t)path_length), bytes_of(path), path_length);
    *at++ = data == Py_None ? NULL_VALUE : BYTES;
    if (data != Py_None)
        at = put_bytes(put(at, 4, (uint64_t)data_length), bytes_of(data), data_length);
    put_bytes(at, rest, rest_length);
    return record;
}

/* The rest of a multi is CBOR in its shortest form: [[type, number, path, data, rest], ...]. */

enum { UNSIGNED, BYTE_STRING = 2, TEXT, ARRAY };

/* Puts the head of a value, or only counts its bytes: `at` is NULL then. Returns the number of its bytes. */
static Py_ssize_t put_head(unsigned char *at, int major, uint64_t value)
{
    int bytes = value < SMALL ? 0 : value <= UINT8_MAX ? 1 : value <= UINT16_MAX ? 2 : value <= UINT32_MAX ? 4 : 8;
    int low = bytes == 0 ? (int)value : bytes == 1 ? 24 : bytes == 2 ? 25 : bytes == 4 ? 26 : 27;
    if (at != NULL)
        put(put(at, 1, (uint64_t)(major << 5 | low)), bytes, value);
    return 1 + bytes;
}

static Py_ssize_t put_integer(unsigned char *at, int64_t value)
{
    return put_head(at, value < 0, (uint64_t)(value < 0 ? ~value : value));
}

static Py_ssize_t put_text(unsigned char *at, int major, PyObject *bytes)
{
    Py_ssize_t head = put_head(at, major, (uint64_t)PyBytes_GET_SIZE(bytes));
    if (at != NULL)
        put_bytes(at + head, bytes_of(bytes), PyBytes_GET_SIZE(bytes));
    return head + PyBytes_GET_SIZE(bytes);
}

/* Puts a part, or counts its bytes. -1: it is left. */
static Py_ssize_t put_part(unsigned char *at, PyObject *part)
{
    int64_t kind, number, owner = 0;
    if (!is_tuple(part, 5) || integer(ITEM(part, 0), INT32_MIN, INT32_MAX, &kind) != DONE ||
        integer(ITEM(part, 1), INT64_MIN, INT64_MAX, &number) != DONE)
        return -1;
    PyObject *path = ITEM(part, 2), *data = ITEM(part, 3), *rest = ITEM(part, 4);
    bool has_owner = rest != Py_None;
    if (!PyBytes_CheckExact(path) || !is_ascii(bytes_of(path), PyBytes_GET_SIZE(path)) ||
        !(data == Py_None || PyBytes_CheckExact(data)) ||
        (has_owner && !(is_create(kind) && is_tuple(rest, 2) && ITEM(rest, 0) == Py_None &&
                        integer(ITEM(rest, 1), INT64_MIN, INT64_MAX, &owner) == DONE)))
        return -1;
#define NEXT (at == NULL ? NULL : at + length)
    Py_ssize_t length = put_head(at, ARRAY, 5);
    length += put_integer(NEXT, kind);
    length += put_integer(NEXT, number);
    length += put_text(NEXT, TEXT, path);
    if (data != Py_None)
        length += put_text(NEXT, BYTE_STRING, data);
    else if (at != NULL)
        at[length] = NULL_VALUE;
    length += data == Py_None;
    if (has_owner)
        length += put_head(NEXT, ARRAY, 2);
    if (at != NULL)
        at[length] = NULL_VALUE;
    length++;
    return has_owner ? length + put_integer(NEXT, owner) : length;
#undef NEXT
}

static PyObject *encode_parts(PyObject *Py_UNUSED(module), PyObject *parts)
{
    if (!PyTuple_CheckExact(parts))
        Py_RETURN_NONE;
    Py_ssize_t count = PyTuple_GET_SIZE(parts), length = put_head(NULL, ARRAY, (uint64_t)count);
    for (Py_ssize_t index = 0; index < count; index++) {
        Py_ssize_t more = put_part(NULL, ITEM(parts, index));
        if (more < 0 || (length += more) > INT32_MAX)
            Py_RETURN_NONE;
    }
    PyObject *rest = PyBytes_FromStringAndSize(NULL, length);
    if (rest == NULL)
        return NULL;
    unsigned char *at = bytes_of(rest) + put_head(bytes_of(rest), ARRAY, (uint64_t)count);
    for (Py_ssize_t index = 0; index < count; index++)
        at += put_part(at, ITEM(parts, index));
    return rest;
}

/* The head of a value of this kind, in its shortest form. */
static bool read_head(Reader *reader, int major, uint64_t *value)
{
    const unsigned char *at = reader->bytes + reader->at;
    Py_ssize_t left = reader->size - reader->at;
    int low = left > 0 ? *at & 31 : 31, bytes = low < SMALL ? 0 : low < 28 ? 1 << (low - 24) : 16;
    if (left < 1 + bytes || *at >> 5 != major)
        return false;
    *value = bytes ? 0 : (uint64_t)low;
    for (int byte = 0; byte < bytes; byte++)
        *value = *value << 8 | at[1 + byte];
    reader->at += 1 + bytes;
    return put_head(NULL, major, *value) == 1 + bytes;
}

static bool read_integer(Reader *reader, int64_t *value)
{
    uint64_t payload;
    int major = reader->at < reader->size ? reader->bytes[reader->at] >> 5 : -1;
    if (major < 0 || major > 1 || !read_head(reader, major, &payload) || payload > INT64_MAX)
        return false;
    *value = major ? ~(int64_t)payload : (int64_t)payload;
    return true;
}

static PyObject *read_text(Reader *reader, int major)
{
    uint64_t length;
    if (!read_head(reader, major, &length) || length > (uint64_t)(reader->size - reader->at) ||
        (major == TEXT && !is_ascii(reader->bytes + reader->at, (Py_ssize_t)length)))
        return NULL;
    reader->at += (Py_ssize_t)length;
    return new_bytes(reader->bytes + reader->at - length, (Py_ssize_t)length);
}

static bool read_null(Reader *reader)
{
    bool is_null = reader->at < reader->size && reader->bytes[reader->at] == NULL_VALUE;
    reader->at += is_null;
    return is_null;
}

static PyObject *read_part(State *state, Reader *reader)
{
    uint64_t count;
    int64_t kind, number, owner;
    PyObject *path, *data = NULL, *rest = NULL;
    if (!read_head(reader, ARRAY, &count) || count != 5 || !read_integer(reader, &kind) || kind != (int32_t)kind ||
        !read_integer(reader, &number) || (path = read_text(reader, TEXT)) == NULL)
        return NULL;
    data = read_null(reader) ? Py_NewRef(Py_None) : read_text(reader, BYTE_STRING);
    if (data != NULL && (has_no_rest(kind) || kind == ERROR))
        rest = read_null(reader) ? Py_NewRef(Py_None) : NULL;
    else if (data != NULL && is_create(kind) && read_head(reader, ARRAY, &count) && count == 2 && read_null(reader) &&
             read_integer(reader, &owner))
        rest = owner ? Py_BuildValue("(OL)", Py_None, (long long)owner) : Py_NewRef(state->ordinary);
    if (rest == NULL) {
        Py_DECREF(path);
        Py_XDECREF(data);
        return NULL;
    }
    return Py_BuildValue("(iLNNN)", (int)kind, (long long)number, path, data, rest);
}

static PyObject *decode_parts(PyObject *module, PyObject *rest)
{
    uint64_t count;
    if (!PyBytes_CheckExact(rest))
        Py_RETURN_NONE;
    Reader reader = {bytes_of(rest), 0, PyBytes_GET_SIZE(rest)};
    /* A part takes six bytes at least. */
    if (!read_head(&reader, ARRAY, &count) || count > (uint64_t)reader.size / 6)
        Py_RETURN_NONE;
    PyObject *parts = PyTuple_New((Py_ssize_t)count), *part = NULL;
    for (uint64_t index = 0; parts != NULL && index < count; index++) {
        if ((part = read_part(state_of(module), &reader)) == NULL)
            break;
        PyTuple_SET_ITEM(parts, (Py_ssize_t)index, part);
    }
    if (parts == NULL || (count && part == NULL) || reader.at != reader.size) {
        Py_XDECREF(parts);
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    return parts;
}

/* --------------------------------------------------------------------------------------------------------- prepare */

/* What writes are prepared against. The context is `Outstanding.plain`: (changes, queue, sessions, closing, shards,
   quotas, absent). `journal` is None outside of a multi. */
typedef struct {
    State *state;
    PyObject *changes, *queue, *shards, *absent, *journal, *zxid, *time;
} View;

/* Items of a change (`datatree.outstanding`). */
enum { C_ZXID, C_EXISTS, C_VERSION, C_CVERSION, C_AVERSION, C_COUNT, C_ACL, C_OWNER, C_LENGTH, C_CZXID, C_MZXID,
       C_CTIME, C_MTIME, C_PZXID, C_ITEMS };

static bool open_view(View *view, State *state, PyObject *context, PyObject *journal, PyObject *zxid, PyObject *time)
{
    if (!is_tuple(context, 7) || !PyDict_CheckExact(ITEM(context, 0)) || !PyList_CheckExact(ITEM(context, 4)) ||
        PyList_GET_SIZE(ITEM(context, 4)) != SHARD_COUNT || !PyDict_Check(ITEM(context, 5)) ||
        PyDict_GET_SIZE(ITEM(context, 5)) || !(journal == Py_None || PyList_CheckExact(journal)))
        return false;
    *view = (View){state, ITEM(context, 0), ITEM(context, 1), ITEM(context, 4), ITEM(context, 6), journal, zxid, time};
    return true;
}

/* The znode at a path as it will be: a change, or NULL for none. LEFT: it is not plain. */
static int change_of(View *view, PyObject *path, PyObject **change)
{
    *change = Py_XNewRef(PyDict_GetItemWithError(view->changes, path));
    if (*change != NULL) {
        bool plain = is_tuple(*change, C_ITEMS) && ITEM(*change, C_ACL) == Py_None;
        if (plain && ITEM(*change, C_EXISTS) != Py_True)
            Py_CLEAR(*change);
        return plain ? DONE : LEFT;
    }
    uint32_t key = crc32_of(view->state->crc, 0, bytes_of(path), PyBytes_GET_SIZE(path));
    PyObject *shard = PyList_GET_ITEM(view->shards, key % SHARD_COUNT);
    PyObject *znode = PyErr_Occurred() || !PyDict_CheckExact(shard) ? NULL : PyDict_GetItemWithError(shard, path);
    if (znode == NULL)
        return PyErr_Occurred() ? FAILED : PyDict_CheckExact(shard) ? DONE : LEFT;
    const unsigned char *at = bytes_of(znode), *stat = at + STAT_AT;
    if (!PyBytes_CheckExact(znode) || PyBytes_GET_SIZE(znode) < DATA_AT || (int64_t)get64(at) != OPEN)
        return LEFT;
    *change = Py_BuildValue(
        "(iOiiiiOLiLLLLL)", 0, Py_True, (int32_t)get32(stat + VERSION_AT), (int32_t)get32(at + CVERSION_AT),
        (int32_t)get32(stat + AVERSION_AT), (int32_t)get32(stat + CHILDREN_AT), Py_None, get64(at + OWNER_AT),
        (int32_t)get32(stat + LENGTH_AT), get64(stat + CZXID_AT), get64(stat + MZXID_AT), get64(stat + CTIME_AT),
        get64(stat + MTIME_AT), get64(stat + PZXID_AT));
    return *change == NULL ? FAILED : DONE;
}

/* A copy with other items: pairs of an index and an object, or NULL; then C_ITEMS. */
static PyObject *changed(PyObject *change, ...)
{
    PyObject *copy = PyTuple_New(C_ITEMS);
    va_list items;
    for (int index = 0; copy != NULL && index < C_ITEMS; index++)
        PyTuple_SET_ITEM(copy, index, Py_NewRef(ITEM(change, index)));
    va_start(items, change);
    for (int index = va_arg(items, int); copy != NULL && index < C_ITEMS; index = va_arg(items, int)) {
        PyObject *item = va_arg(items, PyObject *), *before = ITEM(copy, index);
        PyTuple_SET_ITEM(copy, index, Py_XNewRef(item));
        Py_DECREF(before);
        if (item == NULL)
            Py_CLEAR(copy);
    }
    va_end(items);
    return copy;
}

/* As `Outstanding.put`, without quotas. */
static int put_change(View *view, PyObject *path, PyObject *change)
{
    if (view->journal != Py_None) {
        PyObject *before = PyDict_GetItemWithError(view->changes, path), *entry = NULL;
        if (!PyErr_Occurred())
            entry = PyTuple_Pack(3, view->changes, path, before == NULL ? view->absent : before);
        int failed = entry == NULL || PyList_Append(view->journal, entry);
        Py_XDECREF(entry);
        if (failed)
            return FAILED;
    }
    PyObject *entry = PyTuple_Pack(4, view->zxid, path, view->state->zero, Py_None);
    int end = entry == NULL || PyDict_SetItem(view->changes, path, change) ? FAILED : DONE;
    if (end == DONE)
        end = call(view->queue, view->state->append, entry, NULL);
    Py_XDECREF(entry);
    return end;
}

static const unsigned char OPEN_ACL[] = "\0\0\0\1\0\0\0\x1f\0\0\0\5world\0\0\0\6anyone";
enum { OPEN_ACL_BYTES = sizeof OPEN_ACL - 1, PERSISTENT = 0 };

static PyObject *prepared_set(View *view, Reader *reader, PyObject *path)
{
    int64_t expected, version;
    PyObject *change = NULL, *after = NULL, *part = NULL, *number = NULL, *length = NULL, *data = read_bytes(reader);
    if (data == NULL || !read_int(reader, &expected) || change_of(view, path, &change) != DONE || change == NULL ||
        integer(ITEM(change, C_VERSION), 0, INT32_MAX - 1, &version) != DONE || (expected != version && expected != -1))
        goto end;
    number = PyLong_FromLongLong(version + 1);
    length = PyLong_FromSsize_t(PyBytes_GET_SIZE(data));
    after = changed(change, C_ZXID, view->zxid, C_VERSION, number, C_LENGTH, length, C_MZXID, view->zxid, C_MTIME,
                    view->time, C_ITEMS);
    if (after != NULL && put_change(view, path, after) == DONE)
        part = Py_BuildValue("(iOOOO)", SET_DATA, number, path, data, Py_None);
end:
    drop(5, data, change, after, number, length);
    return part;
}

/* Whether what follows the parent's path is a name of printable ASCII. */
static bool has_plain_name(PyObject *path, PyObject *above)
{
    Py_ssize_t slash = PyBytes_GET_SIZE(above) == 1 ? 0 : PyBytes_GET_SIZE(above);
    const unsigned char *name = bytes_of(path) + slash + 1;
    Py_ssize_t length = PyBytes_GET_SIZE(path) - slash - 1;
    for (Py_ssize_t at = 0; at < length; at++)
        if (name[at] < ' ' || name[at] > '~' || name[at] == '/')
            return false;
    return length > 0 && !(name[0] == '.' && (length == 1 || (length == 2 && name[1] == '.')));
}

static PyObject *prepared_create(View *view, int64_t opcode, Reader *reader, PyObject *path)
{
    int64_t flags, created, count, owner;
    PyObject *above = NULL, *holder = NULL, *there = NULL, *after = NULL, *made = NULL, *part = NULL, *number = NULL,
             *more = NULL, *data = read_bytes(reader);
    if (data == NULL || reader->size - reader->at < OPEN_ACL_BYTES + 4 ||
        memcmp(reader->bytes + reader->at, OPEN_ACL, OPEN_ACL_BYTES))
        goto end;
    reader->at += OPEN_ACL_BYTES;
    if (!read_int(reader, &flags) || flags != PERSISTENT || (above = parent_of(view->state->root, path)) == NULL ||
        !has_plain_name(path, above) || change_of(view, above, &holder) != DONE || holder == NULL ||
        integer(ITEM(holder, C_OWNER), 0, 0, &owner) != DONE ||
        integer(ITEM(holder, C_CVERSION), 0, INT32_MAX - 1, &created) != DONE ||
        integer(ITEM(holder, C_COUNT), 0, INT32_MAX - 1, &count) != DONE ||
        change_of(view, path, &there) != DONE || there != NULL)
        goto end;
    number = PyLong_FromLongLong(created + 1);
    more = PyLong_FromLongLong(count + 1);
    after = changed(holder, C_ZXID, view->zxid, C_CVERSION, number, C_COUNT, more, C_PZXID, view->zxid, C_ITEMS);
    made = Py_BuildValue("(OOiiiiOinOOOOO)", view->zxid, Py_True, 0, 0, 0, 0, Py_None, 0, PyBytes_GET_SIZE(data),
                         view->zxid, view->zxid, view->time, view->time, view->zxid);
    if (after != NULL && made != NULL && put_change(view, above, after) == DONE && put_change(view, path, made) == DONE)
        part = Py_BuildValue("(iOOOO)", (int)opcode, number, path, data, view->state->ordinary);
end:
    drop(8, data, above, holder, there, after, made, number, more);
    return part;
}

static PyObject *prepared_delete(View *view, Reader *reader, PyObject *path)
{
    int64_t expected, version, owner, count, siblings;
    PyObject *above = NULL, *holder = NULL, *change = NULL, *gone = NULL, *after = NULL, *fewer = NULL, *part = NULL;
    if (!read_int(reader, &expected) || (above = parent_of(view->state->root, path)) == NULL ||
        change_of(view, above, &holder) != DONE || holder == NULL || change_of(view, path, &change) != DONE ||
        change == NULL || integer(ITEM(change, C_VERSION), INT32_MIN, INT32_MAX, &version) != DONE ||
        (expected != version && expected != -1) || integer(ITEM(change, C_COUNT), 0, 0, &count) != DONE ||
        integer(ITEM(change, C_OWNER), 0, 0, &owner) != DONE ||
        integer(ITEM(holder, C_COUNT), 1, INT32_MAX, &siblings) != DONE)
        goto end;
    fewer = PyLong_FromLongLong(siblings - 1);
    after = changed(holder, C_ZXID, view->zxid, C_COUNT, fewer, C_PZXID, view->zxid, C_ITEMS);
    gone = Py_BuildValue("(OOiiiiOiiiiiii)", view->zxid, Py_False, 0, 0, 0, 0, Py_None, 0, 0, 0, 0, 0, 0, 0);
    if (after != NULL && gone != NULL && put_change(view, path, gone) == DONE && put_change(view, above, after) == DONE)
        part = Py_BuildValue("(iiOOO)", DELETE, 0, path, Py_None, Py_None);
end:
    drop(6, above, holder, change, gone, after, fewer);
    return part;
}

static PyObject *prepared_check(View *view, Reader *reader, PyObject *path)
{
    int64_t expected, version;
    PyObject *change = NULL, *part = NULL;
    if (read_int(reader, &expected) && change_of(view, path, &change) == DONE && change != NULL &&
        integer(ITEM(change, C_VERSION), INT32_MIN, INT32_MAX, &version) == DONE &&
        (expected == version || expected == -1))
        part = Py_BuildValue("(iiOOO)", CHECK, (int)version, path, Py_None, Py_None);
    Py_XDECREF(change);
    return part;
}

/* A write, as a part: (type, number, path, data, rest). */
static PyObject *prepared(View *view, int64_t opcode, Reader *reader)
{
    PyObject *part = NULL, *path = read_bytes(reader);
    if (path != NULL && !is_reserved(path))
        part = opcode == SET_DATA                      ? prepared_set(view, reader, path)
               : opcode == CREATE || opcode == CREATE2 ? prepared_create(view, opcode, reader, path)
               : opcode == DELETE                      ? prepared_delete(view, reader, path)
               : opcode == CHECK && view->journal != Py_None ? prepared_check(view, reader, path) : NULL;
    Py_XDECREF(path);
    return part;
}

static PyObject *prepare(PyObject *module, PyObject *arguments)
{
    PyObject *context, *request, *zxid, *time;
    int64_t opcode;
    View view;
    if (!PyArg_ParseTuple(arguments, "OO!OO", &context, &PyTuple_Type, &request, &zxid, &time))
        return NULL;
    if (!is_tuple(request, 5) || integer(ITEM(request, 2), CREATE, CREATE2, &opcode) != DONE ||
        !PyBytes_CheckExact(ITEM(request, 3)) ||
        !open_view(&view, state_of(module), context, Py_None, zxid, time))
        Py_RETURN_NONE;
    PyObject *session = ITEM(request, 0), *sessions = ITEM(context, 2), *closing = ITEM(context, 3);
    int is_known = PyDict_Check(sessions) ? PyDict_Contains(sessions, session) : 0;
    int is_closing = is_known > 0 && PyDict_Check(closing) ? PyDict_Contains(closing, session) : 1;
    if (is_known < 0 || is_closing < 0)
        return NULL;
    if (!is_known || is_closing)
        Py_RETURN_NONE;
    Reader reader = {bytes_of(ITEM(request, 3)), 0, PyBytes_GET_SIZE(ITEM(request, 3))};
    PyObject *part = prepared(&view, opcode, &reader);
    if (part == NULL)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    PyObject *txn = PyTuple_Pack(9, zxid, time, session, ITEM(request, 1), ITEM(part, 0), ITEM(part, 1), ITEM(part, 2),
                                 ITEM(part, 3), ITEM(part, 4));
    Py_DECREF(part);
    return txn;
}

static PyObject *prepare_parts(PyObject *module, PyObject *arguments)
{
    PyObject *context, *journal, *body, *zxid, *time, *parts;
    Py_ssize_t count, most, after = 0;
    Reader reader;
    View view;
    if (!PyArg_ParseTuple(arguments, "OOOOO!nO!nn", &context, &journal, &zxid, &time, &PyBytes_Type, &body, &reader.at,
                          &PyList_Type, &parts, &count, &most))
        return NULL;
    Py_ssize_t first = after = reader.at;
    reader.bytes = bytes_of(body);
    reader.size = PyBytes_GET_SIZE(body);
    bool is_open = journal != Py_None && first >= 0 && open_view(&view, state_of(module), context, journal, zxid, time);
    for (; is_open && count > 0 && after - first <= most; count--) {
        int64_t opcode;
        if (!read_int(&reader, &opcode) || reader.size - reader.at < 5 || reader.bytes[reader.at])
            break;
        reader.at += 5;
        PyObject *part = prepared(&view, opcode, &reader);
        int end = part == NULL ? left_or_failed() : PyList_Append(parts, part) ? FAILED : DONE;
        Py_XDECREF(part);
        if (end == FAILED)
            return NULL;
        if (end == LEFT)
            break;
        after = reader.at;
    }
    return PyLong_FromSsize_t(after);
}

/* ------------------------------------------------------------------------------------------------------ the module */

static PyMethodDef functions[] = {
    {"prepare", prepare, METH_VARARGS, NULL},
    {"prepare_parts", prepare_parts, METH_VARARGS, NULL},
    {"encode", encode, METH_O, NULL},
    {"encode_parts", encode_parts, METH_O, NULL},
    {"decode", decode, METH_VARARGS, NULL},
    {"decode_parts", decode_parts, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static int begin(PyObject *module)
{
    State *state = state_of(module);
    make_tables(state->crc);
    state->append = PyUnicode_InternFromString("append");
    state->root = PyBytes_FromString("/");
    state->zero = PyLong_FromLong(0);
    state->ordinary = Py_BuildValue("(Oi)", Py_None, 0);
    bool is_whole = state->append != NULL && state->root != NULL && state->zero != NULL && state->ordinary != NULL;
    return is_whole ? 0 : -1;
}

static void release(void *module)
{
    State *state = state_of(module);
    drop(4, state->append, state->root, state->zero, state->ordinary);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, begin}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "zab.native.writes",
    .m_size = sizeof(State),
    .m_methods = functions,
    .m_slots = slots,
    .m_free = release,
};

PyMODINIT_FUNC PyInit_writes(void) { return PyModuleDef_Init(&definition); }
