/* A durable write, and a frame that is sent once it is durable, both without the interpreter's lock.

   Gate                guards the sending side of one socket between threads; its counterpart in Python, and what each
                       attribute means, is zab.host.loop.gate
   write_then_send     zab.host.storage.disk.RealFile.write_durable, for a frame that waits for it

   While another thread runs Python code, a thread that returns to the interpreter waits for it. So the frame, which was
   made before, leaves from here as soon as the kernel says that the bytes are durable. If something else was sent on
   that socket meanwhile, or waits to be sent, the frame is not taken: its seal would be wrong, or it would overtake.

   Nothing here knows the format of the log or of a message. Linux only. */

#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>
#include <structmember.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#ifndef RWF_DSYNC
#error "pwritev2 with RWF_DSYNC is needed"
#endif

typedef struct {
    PyObject_HEAD
    pthread_mutex_t mutex;
    _Atomic int descriptor;      /* -1: nothing is sent from here. Shut without the mutex, which a sender may hold */
    char is_busy;
    unsigned long long number;
    char *left;                  /* what the socket did not take of a frame: it goes first */
    Py_ssize_t left_bytes;
} Gate;

static PyObject *gate_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    static char *none[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(args, names, "", none))
        return NULL;
    Gate *gate = (Gate *)type->tp_alloc(type, 0);
    if (gate == NULL)
        return NULL;
    pthread_mutex_init(&gate->mutex, NULL);
    gate->descriptor = -1;
    return (PyObject *)gate;
}

static void gate_free(Gate *gate)
{
    pthread_mutex_destroy(&gate->mutex);
    PyMem_RawFree(gate->left);
    PyTypeObject *type = Py_TYPE(gate);
    type->tp_free(gate);
    Py_DECREF(type);
}

static PyObject *gate_enter(Gate *gate, PyObject *Py_UNUSED(none))
{
    if (pthread_mutex_trylock(&gate->mutex) != 0) {
        /* Whoever holds it may wait for the interpreter's lock. */
        Py_BEGIN_ALLOW_THREADS
        pthread_mutex_lock(&gate->mutex);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static PyObject *gate_exit(Gate *gate, PyObject *const *Py_UNUSED(arguments), Py_ssize_t Py_UNUSED(count))
{
    pthread_mutex_unlock(&gate->mutex);
    Py_RETURN_NONE;
}

static PyObject *gate_open(Gate *gate, PyObject *descriptor)
{
    long number = PyLong_AsLong(descriptor);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    gate->descriptor = (int)number;
    Py_RETURN_NONE;
}

static PyObject *gate_shut(Gate *gate, PyObject *Py_UNUSED(none))
{
    gate->descriptor = -1;
    Py_RETURN_NONE;
}

static PyObject *gate_take_left(Gate *gate, PyObject *Py_UNUSED(none))
{
    PyObject *left = PyBytes_FromStringAndSize(gate->left, gate->left_bytes);
    if (left == NULL)
        return NULL;
    PyMem_RawFree(gate->left);
    gate->left = NULL;
    gate->left_bytes = 0;
    return left;
}

static PyMethodDef gate_methods[] = {
    {"__enter__", (PyCFunction)gate_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))gate_exit, METH_FASTCALL, NULL},
    {"open", (PyCFunction)gate_open, METH_O, NULL},
    {"shut", (PyCFunction)gate_shut, METH_NOARGS, NULL},
    {"take_left", (PyCFunction)gate_take_left, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef gate_members[] = {
    {"is_busy", T_BOOL, offsetof(Gate, is_busy), 0, NULL},
    {"number", T_ULONGLONG, offsetof(Gate, number), 0, NULL},
    {"left_bytes", T_PYSSIZET, offsetof(Gate, left_bytes), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot gate_slots[] = {
    {Py_tp_new, gate_new},
    {Py_tp_dealloc, gate_free},
    {Py_tp_methods, gate_methods},
    {Py_tp_members, gate_members},
    {0, NULL},
};

static PyType_Spec gate_spec = {"zab.native.durable.Gate", sizeof(Gate), 0, Py_TPFLAGS_DEFAULT, gate_slots};

typedef struct {
    PyTypeObject *gate;
} State;

/* Write all of it at this offset; 0, or errno. Once it returns 0, these bytes survive. */
static int write_durably(int file, const char *data, Py_ssize_t size, off_t offset)
{
    while (size > 0) {
        struct iovec piece = {(void *)data, (size_t)size};
        ssize_t written = pwritev2(file, &piece, 1, offset, RWF_DSYNC);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return errno;
        }
        data += written;
        size -= written;
        offset += written;
    }
    return 0;
}

/* Send a frame on an idle socket; whether it was taken. What the socket does not take of it is kept. */
static bool send_frame(Gate *gate, unsigned long long number, const char *frame, Py_ssize_t size)
{
    pthread_mutex_lock(&gate->mutex);
    bool is_taken = gate->descriptor >= 0 && !gate->is_busy && gate->left == NULL && gate->number == number;
    char *left = is_taken ? PyMem_RawMalloc((size_t)size + 1) : NULL;
    if (left == NULL)
        is_taken = false;
    if (is_taken) {
        ssize_t sent;
        do
            sent = send(gate->descriptor, frame, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (sent < 0 && errno == EINTR);
        /* An error of the socket comes again when the turn sends the rest. */
        if (sent < 0)
            sent = 0;
        gate->number = number + 1;
        if (sent < size) {
            gate->left_bytes = size - sent;
            memcpy(left, frame + sent, (size_t)gate->left_bytes);
            gate->left = left;
            left = NULL;
        }
    }
    pthread_mutex_unlock(&gate->mutex);
    PyMem_RawFree(left);
    return is_taken;
}

/* write_then_send(file, data, offset, gate, number, frame) -> (is_taken, is_left). Raises OSError, then nothing was
   sent. `is_left`: the gate has the rest of the frame. */
static PyObject *write_then_send(PyObject *module, PyObject *arguments)
{
    int file, error;
    long long offset;
    unsigned long long number;
    Py_buffer data, frame;
    PyObject *gate;
    bool is_taken = false, is_left = false;
    PyTypeObject *type = ((State *)PyModule_GetState(module))->gate;
    if (!PyArg_ParseTuple(arguments, "iy*LO!Ky*", &file, &data, &offset, type, &gate, &number, &frame))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = write_durably(file, data.buf, data.len, (off_t)offset);
    if (error == 0)
        is_taken = send_frame((Gate *)gate, number, frame.buf, frame.len);
    Py_END_ALLOW_THREADS
    if (is_taken)
        is_left = ((Gate *)gate)->left_bytes > 0;
    PyBuffer_Release(&data);
    PyBuffer_Release(&frame);
    if (error != 0) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return Py_BuildValue("(NN)", PyBool_FromLong(is_taken), PyBool_FromLong(is_left));
}

static int module_ready(PyObject *module)
{
    State *state = PyModule_GetState(module);
    state->gate = (PyTypeObject *)PyType_FromModuleAndSpec(module, &gate_spec, NULL);
    return state->gate == NULL ? -1 : PyModule_AddType(module, state->gate);
}

static int module_visit(PyObject *module, visitproc visit, void *arg)
{
    Py_VISIT(((State *)PyModule_GetState(module))->gate);
    return 0;
}

static int module_clear(PyObject *module)
{
    Py_CLEAR(((State *)PyModule_GetState(module))->gate);
    return 0;
}

static PyMethodDef functions[] = {
    {"write_then_send", write_then_send, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, module_ready}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "zab.native.durable",
    .m_size = sizeof(State),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = module_visit,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit_durable(void)
{
    return PyModuleDef_Init(&definition);
}
