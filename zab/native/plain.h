/* What the native parts of `datatree` share: bytes, znodes, the CRC-32, and what a step comes to.

   Both do what is plain among writes, with the same effect as the Python of `datatree`, which is the reference. Plain
   is a set, a create, a delete or a check that is not refused, of a znode that is open to all, has little data and no
   quota. Whatever is not plain in every respect is left to Python, and nothing has been changed then: a function
   returns None, or ends before it. So every refusal, error and assertion is in Python alone. Trees, transactions and
   bytes may be whatever they are: types and lengths are checked before they are used. All numbers are big-endian. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* As in Python; `LIMITS` shows them to a test. */
enum { SHARD_COUNT = 4096, CROWD_COUNT = 16384, NEARING_COUNT = 1 << 20, LARGE_BYTES = 16 << 10 };

/* datatree.znode: offsets in a znode, and in its stat; kinds of data. */
enum { OWNER_AT = 8, CVERSION_AT = 16, DIGEST_AT = 20, KIND_AT = 28, STAT_AT = 29, DATA_AT = 97, STAT_BYTES = 68 };
enum { CZXID_AT, MZXID_AT = 8, CTIME_AT = 16, MTIME_AT = 24, VERSION_AT = 32, VISIBLE_AT = 36, AVERSION_AT = 40,
       VISIBLE_OWNER_AT = 44, LENGTH_AT = 52, CHILDREN_AT = 56, PZXID_AT = 60 };
enum { HERE, NULL_DATA };
#define OPEN (-1)

/* datatree.opcodes */
enum { CREATE = 1, DELETE, SET_DATA = 5, CHECK = 13, CREATE2 = 15, RECONFIG, CREATE_CONTAINER = 19, DELETE_CONTAINER,
       CREATE_TTL, ERROR = -1, CREATE_SESSION = -10 };

/* What a step came to. A function that returns an object returns NULL for the first two, with an exception if it
   FAILED. */
enum { FAILED = -1, LEFT, DONE };

typedef uint32_t Crc[8][256];

static inline uint32_t get32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline uint64_t get64(const unsigned char *at) { return (uint64_t)get32(at) << 32 | get32(at + 4); }

/* These return the place after the number. */
static inline unsigned char *put(unsigned char *at, int bytes, uint64_t value)
{
    for (int left = bytes; left-- > 0; value >>= 8)
        at[left] = (unsigned char)value;
    return at + bytes;
}

static inline unsigned char *put_bytes(unsigned char *at, const void *from, Py_ssize_t length)
{
    memcpy(at, from, (size_t)length);
    return at + length;
}

static inline void make_tables(Crc crc)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++)
            value = value >> 1 ^ (0xEDB88320u & -(value & 1));
        crc[0][byte] = value;
    }
    for (int table = 1; table < 8; table++)
        for (int byte = 0; byte < 256; byte++)
            crc[table][byte] = crc[table - 1][byte] >> 8 ^ crc[0][crc[table - 1][byte] & 255];
}

/* zlib's CRC-32, eight bytes at a time. */
static inline uint32_t crc32_of(uint32_t (*crc)[256], uint32_t value, const unsigned char *at, Py_ssize_t length)
{
    value = ~value;
    for (; length >= 8; at += 8, length -= 8) {
        value ^= (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        value = crc[7][value & 255] ^ crc[6][value >> 8 & 255] ^ crc[5][value >> 16 & 255] ^ crc[4][value >> 24] ^
                crc[3][at[4]] ^ crc[2][at[5]] ^ crc[1][at[6]] ^ crc[0][at[7]];
    }
    for (; length > 0; at++, length--)
        value = value >> 8 ^ crc[0][(value ^ *at) & 255];
    return ~value;
}

static inline unsigned char *bytes_of(PyObject *bytes) { return (unsigned char *)PyBytes_AS_STRING(bytes); }

static inline PyObject *new_bytes(const unsigned char *from, Py_ssize_t length)
{
    return PyBytes_FromStringAndSize((const char *)from, length);
}

static inline bool is_ascii(const unsigned char *at, Py_ssize_t length)
{
    unsigned char all = 0;
    while (length-- > 0)
        all |= *at++;
    return all < 0x80;
}

static inline bool is_reserved(PyObject *path)
{
    return PyBytes_GET_SIZE(path) >= 10 && !memcmp(bytes_of(path), "/zookeeper", 10);
}

static inline int left_or_failed(void) { return PyErr_Occurred() ? FAILED : LEFT; }

/* The value of an int between two bounds. */
static inline int integer(PyObject *object, int64_t least, int64_t most, int64_t *value)
{
    int overflow = 0;
    if (!PyLong_CheckExact(object))
        return LEFT;
    *value = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow || *value < least || *value > most ? LEFT : DONE;
}

static inline int call(PyObject *object, PyObject *method, PyObject *first, PyObject *second)
{
    PyObject *found = PyObject_CallMethodObjArgs(object, method, first, second, NULL);
    Py_XDECREF(found);
    return found == NULL ? FAILED : DONE;
}

static inline bool is_tuple(PyObject *object, Py_ssize_t count)
{
    return PyTuple_Check(object) && PyTuple_GET_SIZE(object) == count;
}

/* Let go of so many objects; any of them may be NULL. */
static inline void drop(int count, ...)
{
    va_list objects;
    va_start(objects, count);
    while (count-- > 0)
        Py_XDECREF(va_arg(objects, PyObject *));
    va_end(objects);
}

#define ITEM(tuple, index) PyTuple_GET_ITEM(tuple, index)

/* The path of a parent. A new reference. */
static inline PyObject *parent_of(PyObject *root, PyObject *path)
{
    Py_ssize_t slash = PyBytes_GET_SIZE(path);
    while (--slash >= 0 && bytes_of(path)[slash] != '/')
        ;
    if (slash < 0 || PyBytes_GET_SIZE(path) == 1)
        return NULL;
    return slash ? new_bytes(bytes_of(path), slash) : Py_NewRef(root);
}
