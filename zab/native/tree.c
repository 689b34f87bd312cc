/* The tree's side of plain writes (`plain.h`): the operations of transactions.

   apply           datatree.tree.DataTree.apply: one transaction -> what its reply needs
   apply_parts     datatree.apply.apply_multi: the parts of a multi, from one on

   They work on the tree's own dicts and on the bytes of its znodes (`datatree.znode`). What lasts is in the state of
   the module: the tables of CRC-32, the names of attributes, constants. */

#include "plain.h"

/* datatree.outcome */
enum { ON_DATA, ON_CHILD, ON_DELETE };
enum { NODE_CREATED = 1, NODE_DELETED, NODE_DATA_CHANGED, NODE_CHILDREN_CHANGED };

/* Attributes of a tree: sums, dicts and others; and methods. */
enum { DIGEST, DATA_BYTES, PATH_BYTES, ZNODE_COUNT, SUMS, SHARDS = SUMS, CHILDREN, NEARING, QUOTAS, CURSOR, PARTS,
       APPLIED = PARTS, OWN, DISOWN, TAKE, NAMES };
static const char *const NAMED[NAMES] = {"digest", "data_bytes", "path_bytes", "znode_count", "shards", "children",
                                         "nearing", "quotas", "cursor", "applied", "own", "disown", "take"};

typedef struct {
    Crc crc;
    PyObject *names[NAMES], *root, *zero;
} State;

static State *state_of(PyObject *module) { return PyModule_GetState(module); }

typedef struct {
    State *state;
    PyObject *tree, *parts[PARTS];
    uint64_t sums[SUMS];
} Tree;

static void close_tree(Tree *tree)
{
    for (int part = 0; part < PARTS; part++)
        Py_CLEAR(tree->parts[part]);
}

/* Close it after anything but DONE, too. */
static int open_tree(Tree *tree, State *state, PyObject *object)
{
    *tree = (Tree){.state = state, .tree = object};
    for (int part = 0; part < PARTS; part++)
        if ((tree->parts[part] = PyObject_GetAttr(object, state->names[part])) == NULL)
            return FAILED;
    for (int sum = 0; sum < SUMS; sum++) {
        if (!PyLong_CheckExact(tree->parts[sum]))
            return LEFT;
        tree->sums[sum] = PyLong_AsUnsignedLongLongMask(tree->parts[sum]);
    }
    PyObject *shards = tree->parts[SHARDS], *quotas = tree->parts[QUOTAS];
    bool plain = PyList_CheckExact(shards) && PyList_GET_SIZE(shards) == SHARD_COUNT && PyDict_Check(quotas) &&
                 PyDict_GET_SIZE(quotas) == 0 && PyDict_CheckExact(tree->parts[CHILDREN]) &&
                 PyDict_CheckExact(tree->parts[NEARING]);
    return plain ? DONE : LEFT;
}

/* Write the sums back. */
static int store_tree(Tree *tree)
{
    for (int sum = 0; sum < SUMS; sum++) {
        PyObject *number = PyLong_FromUnsignedLongLong(tree->sums[sum]);
        int failed = number == NULL || PyObject_SetAttr(tree->tree, tree->state->names[sum], number);
        Py_XDECREF(number);
        if (failed)
            return FAILED;
    }
    return DONE;
}

/* A place in the tree: the CRC-32 of its path, its dict, and the znode that is there, or NULL. */
typedef struct {
    uint32_t key;
    PyObject *path, *shard, *znode;
} Place;

/* Look at a place, to change it: a snapshot under way first gets its copy. LEFT: what is there is not plain. */
static int look(Tree *tree, PyObject *path, Place *place)
{
    *place = (Place){.key = crc32_of(tree->state->crc, 0, bytes_of(path), PyBytes_GET_SIZE(path)), .path = path};
    place->shard = PyList_GET_ITEM(tree->parts[SHARDS], place->key % SHARD_COUNT);
    if (!PyDict_CheckExact(place->shard))
        return LEFT;
    if (tree->parts[CURSOR] != Py_None) {
        PyObject *index = PyLong_FromUnsignedLong(place->key % SHARD_COUNT);
        int end = index == NULL ? FAILED : call(tree->parts[CURSOR], tree->state->names[TAKE], index, place->shard);
        Py_XDECREF(index);
        if (end != DONE)
            return end;
    }
    if ((place->znode = Py_XNewRef(PyDict_GetItemWithError(place->shard, path))) == NULL)
        return PyErr_Occurred() ? FAILED : DONE;
    const unsigned char *at = bytes_of(place->znode);
    bool plain = PyBytes_CheckExact(place->znode) && PyBytes_GET_SIZE(place->znode) >= DATA_AT &&
                 (int64_t)get64(at) == OPEN && (int64_t)get64(at + OWNER_AT) >= 0 && at[KIND_AT] <= NULL_DATA;
    return plain ? DONE : LEFT;
}

/* A copy of a znode without its data, or of nothing, with this data, whose digest is left out. */
static PyObject *with_data(PyObject *znode, const unsigned char *data, Py_ssize_t length)
{
    PyObject *copy = PyBytes_FromStringAndSize(NULL, DATA_AT + length);
    if (copy == NULL)
        return NULL;
    if (znode == NULL)
        memset(put(bytes_of(copy), 8, (uint64_t)OPEN), 0, DATA_AT - 8);
    else
        memcpy(bytes_of(copy), bytes_of(znode), DATA_AT);
    memcpy(bytes_of(copy) + DATA_AT, data, (size_t)length);
    return copy;
}

static void seal(Tree *tree, PyObject *znode, uint32_t checksum)
{
    uint32_t crc = crc32_of(tree->state->crc, checksum, bytes_of(znode) + STAT_AT, STAT_BYTES);
    put(bytes_of(znode) + DIGEST_AT, 8, (uint64_t)checksum << 32 | crc);
}

static uint64_t digest_of(PyObject *znode) { return znode == NULL ? 0 : get64(bytes_of(znode) + DIGEST_AT); }

static int replace(Tree *tree, Place *place, PyObject *znode)
{
    tree->sums[DIGEST] += digest_of(znode) - digest_of(place->znode);
    return PyDict_SetItem(place->shard, place->path, znode) ? FAILED : DONE;
}

/* The operation, and what came of it. */
typedef struct {
    int64_t zxid, time, number;
    PyObject *path, *data, *rest, *triggers, *stat;
} Step;

static int trigger(Step *step, int kind, PyObject *path, int event)
{
    if (step->triggers == Py_None)
        return DONE;
    PyObject *one = Py_BuildValue("(iOiO)", kind, path, event, Py_None);
    int failed = one == NULL || PyList_Append(step->triggers, one);
    Py_XDECREF(one);
    return failed ? FAILED : DONE;
}

/* Put a znode with new data in its place; its stat is for the reply. */
static int put_with_data(Tree *tree, Step *step, Place *place, PyObject *znode)
{
    const unsigned char *data = bytes_of(step->data);
    seal(tree, znode, crc32_of(tree->state->crc, place->key, data, PyBytes_GET_SIZE(step->data)));
    step->stat = new_bytes(bytes_of(znode) + STAT_AT, STAT_BYTES);
    return step->stat == NULL ? FAILED : replace(tree, place, znode);
}

static int apply_set(Tree *tree, Step *step)
{
    Place place = {0};
    Py_ssize_t length = PyBytes_GET_SIZE(step->data);
    int end = look(tree, step->path, &place);
    if (end == DONE && place.znode == NULL)
        end = LEFT;
    if (end == DONE) {
        PyObject *znode = with_data(place.znode, bytes_of(step->data), length);
        end = FAILED;
        if (znode != NULL) {
            unsigned char *stat = bytes_of(znode) + STAT_AT;
            int32_t before = (int32_t)get32(stat + LENGTH_AT);
            bytes_of(znode)[KIND_AT] = HERE;
            put(stat + MZXID_AT, 8, (uint64_t)step->zxid);
            put(put(stat + MTIME_AT, 8, (uint64_t)step->time), 4, (uint64_t)step->number);
            put(stat + LENGTH_AT, 4, (uint64_t)length);
            end = put_with_data(tree, step, &place, znode);
            tree->sums[DATA_BYTES] += (uint64_t)(length - before);
            Py_DECREF(znode);
        }
    }
    Py_XDECREF(place.znode);
    return end == DONE ? trigger(step, ON_DATA, step->path, NODE_DATA_CHANGED) : end;
}

/* A znode and its parent, with its other children, whose number is there without the znode. */
typedef struct {
    Place own, above;
    PyObject *siblings;
    Py_ssize_t count;
} Places;

static void close_places(Places *places)
{
    drop(4, places->own.znode, places->above.znode, places->above.path, places->siblings);
}

/* Close them after anything but DONE, too. */
static int look_at_both(Tree *tree, PyObject *path, bool is_there, Places *places)
{
    *places = (Places){0};
    PyObject *above = is_reserved(path) ? NULL : parent_of(tree->state->root, path);
    if (above == NULL)
        return left_or_failed();
    int end = look(tree, above, &places->above);
    places->above.path = above;
    if (end == DONE)
        end = look(tree, path, &places->own);
    if (end == DONE && (places->above.znode == NULL || (places->own.znode != NULL) != is_there))
        end = LEFT;
    if (end != DONE)
        return end;
    places->siblings = Py_XNewRef(PyDict_GetItemWithError(tree->parts[CHILDREN], above));
    if (places->siblings == NULL)
        return PyErr_Occurred() ? FAILED : is_there ? LEFT : DONE;
    if ((places->count = PyObject_Size(places->siblings)) < 0)
        return FAILED;
    int is_child = PySequence_Contains(places->siblings, path);
    places->count -= is_there;
    return is_child < 0 ? FAILED : is_child == is_there && places->count < INT32_MAX - 1 ? DONE : LEFT;
}

/* The parent, with so many children. `created`: its new cversion, or -1. */
static PyObject *with_children(Tree *tree, Step *step, Place *above, int64_t created, Py_ssize_t count)
{
    const unsigned char *before = bytes_of(above->znode);
    int64_t cversion = created < 0 ? (int32_t)get32(before + CVERSION_AT) : created, visible = 2 * cversion - count;
    if (before[KIND_AT] != HERE || visible != (int32_t)visible)
        return NULL;
    PyObject *znode = with_data(above->znode, before + DATA_AT, PyBytes_GET_SIZE(above->znode) - DATA_AT);
    if (znode == NULL)
        return NULL;
    unsigned char *stat = bytes_of(znode) + STAT_AT;
    put(bytes_of(znode) + CVERSION_AT, 4, (uint64_t)cversion);
    put(stat + VISIBLE_AT, 4, (uint64_t)visible);
    put(put(stat + CHILDREN_AT, 4, (uint64_t)count), 8, (uint64_t)step->zxid);
    seal(tree, znode, get32(before + DIGEST_AT));
    return znode;
}

static void count_znode(Tree *tree, PyObject *path, uint64_t one, uint64_t data_bytes)
{
    tree->sums[ZNODE_COUNT] += one;
    tree->sums[PATH_BYTES] += one * (uint64_t)PyBytes_GET_SIZE(path);
    tree->sums[DATA_BYTES] += one * data_bytes;
}

static int add_child(Tree *tree, Places *places)
{
    PyObject *siblings = places->siblings == NULL ? PyDict_New() : Py_NewRef(places->siblings);
    int failed = siblings == NULL || PyObject_SetItem(siblings, places->own.path, Py_None) ||
                 (places->siblings == NULL && PyDict_SetItem(tree->parts[CHILDREN], places->above.path, siblings));
    Py_XDECREF(siblings);
    return failed ? FAILED : DONE;
}

static int apply_create(Tree *tree, Step *step)
{
    int64_t owner;
    if (step->number < 0 || step->number >= NEARING_COUNT || !is_tuple(step->rest, 2) ||
        ITEM(step->rest, 0) != Py_None || integer(ITEM(step->rest, 1), 0, INT64_MAX, &owner) != DONE)
        return LEFT;
    Places places;
    PyObject *above = NULL, *znode = NULL;
    int end = look_at_both(tree, step->path, false, &places);
    if (end == DONE && places.count + 1 == CROWD_COUNT)
        end = LEFT;
    if (end == DONE && (above = with_children(tree, step, &places.above, step->number, places.count + 1)) == NULL)
        end = left_or_failed();
    if (end == DONE && (znode = with_data(NULL, bytes_of(step->data), PyBytes_GET_SIZE(step->data))) == NULL)
        end = FAILED;
    if (end == DONE) {
        unsigned char *stat = bytes_of(znode) + STAT_AT;
        put(bytes_of(znode) + OWNER_AT, 8, (uint64_t)owner);
        put(put(stat + CZXID_AT, 8, (uint64_t)step->zxid), 8, (uint64_t)step->zxid);
        put(put(stat + CTIME_AT, 8, (uint64_t)step->time), 8, (uint64_t)step->time);
        put(put(stat + VISIBLE_OWNER_AT, 8, (uint64_t)owner), 4, (uint64_t)PyBytes_GET_SIZE(step->data));
        put(stat + PZXID_AT, 8, (uint64_t)step->zxid);
        end = add_child(tree, &places);
    }
    if (end == DONE)
        end = put_with_data(tree, step, &places.own, znode);
    if (end == DONE)
        end = replace(tree, &places.above, above);
    if (end == DONE) {
        count_znode(tree, step->path, 1, (uint64_t)PyBytes_GET_SIZE(step->data));
        if (owner)
            end = call(tree->tree, tree->state->names[OWN], step->path, ITEM(step->rest, 1));
    }
    if (end == DONE && (end = trigger(step, ON_DATA, step->path, NODE_CREATED)) == DONE)
        end = trigger(step, ON_CHILD, places.above.path, NODE_CHILDREN_CHANGED);
    drop(2, above, znode);
    close_places(&places);
    return end;
}

static int apply_delete(Tree *tree, Step *step)
{
    Places places;
    PyObject *above = NULL, *owner = NULL;
    int end = look_at_both(tree, step->path, true, &places);
    for (int part = CHILDREN; part <= NEARING && end == DONE; part++) {
        int is_in = PyDict_Contains(tree->parts[part], step->path);
        end = is_in < 0 ? FAILED : is_in ? LEFT : DONE;
    }
    if (end == DONE && (above = with_children(tree, step, &places.above, -1, places.count)) == NULL)
        end = left_or_failed();
    if (end == DONE && (owner = PyLong_FromUnsignedLongLong(get64(bytes_of(places.own.znode) + OWNER_AT))) == NULL)
        end = FAILED;
    if (end == DONE && (PyDict_DelItem(places.own.shard, step->path) || PyObject_DelItem(places.siblings, step->path) ||
                        (!places.count && PyDict_DelItem(tree->parts[CHILDREN], places.above.path))))
        end = FAILED;
    if (end == DONE) {
        tree->sums[DIGEST] -= digest_of(places.own.znode);
        count_znode(tree, step->path, (uint64_t)-1, get32(bytes_of(places.own.znode) + STAT_AT + LENGTH_AT));
        end = replace(tree, &places.above, above);
    }
    if (end == DONE && get64(bytes_of(places.own.znode) + OWNER_AT))
        end = call(tree->tree, tree->state->names[DISOWN], step->path, owner);
    if (end == DONE && (end = trigger(step, ON_DELETE, step->path, NODE_DELETED)) == DONE)
        end = trigger(step, ON_CHILD, places.above.path, NODE_CHILDREN_CHANGED);
    drop(2, above, owner);
    close_places(&places);
    return end;
}

/* One operation, from `number` on among the items of a transaction, or of a part. */
static int apply_one(Tree *tree, Step *step, int64_t kind, PyObject *items, int number)
{
    step->path = ITEM(items, number + 1);
    step->data = ITEM(items, number + 2);
    step->rest = ITEM(items, number + 3);
    int end = PyBytes_CheckExact(step->path) ? integer(ITEM(items, number), INT32_MIN, INT32_MAX, &step->number) : LEFT;
    if (end != DONE)
        return end;
    if (kind == CHECK)
        return step->data == Py_None ? DONE : LEFT;
    if (kind == DELETE)
        return step->number ? LEFT : apply_delete(tree, step);
    if (!PyBytes_CheckExact(step->data) || PyBytes_GET_SIZE(step->data) > LARGE_BYTES)
        return LEFT;
    if (kind == SET_DATA)
        return apply_set(tree, step);
    return kind == CREATE || kind == CREATE2 ? apply_create(tree, step) : LEFT;
}

static PyObject *apply(PyObject *module, PyObject *arguments)
{
    State *state = state_of(module);
    PyObject *object, *txn, *found = NULL;
    int is_watched;
    if (!PyArg_ParseTuple(arguments, "OO!p", &object, &PyTuple_Type, &txn, &is_watched))
        return NULL;
    int64_t kind, before;
    Step step = {0};
    if (!is_tuple(txn, 9) || integer(ITEM(txn, 4), CREATE, CREATE2, &kind) != DONE || kind == CHECK)
        Py_RETURN_NONE;
    PyObject *applied = PyObject_GetAttr(object, state->names[APPLIED]);
    if (applied == NULL)
        return NULL;
    bool plain = integer(applied, 0, INT64_MAX - 1, &before) == DONE &&
                 integer(ITEM(txn, 0), before + 1, INT64_MAX, &step.zxid) == DONE &&
                 integer(ITEM(txn, 1), INT64_MIN, INT64_MAX, &step.time) == DONE;
    Py_DECREF(applied);
    if (!plain)
        Py_RETURN_NONE;
    if ((step.triggers = is_watched ? PyList_New(0) : Py_NewRef(Py_None)) == NULL)
        return NULL;
    Tree tree;
    int end = open_tree(&tree, state, object);
    if (end == DONE && (end = apply_one(&tree, &step, kind, txn, 5)) == DONE)
        end = store_tree(&tree);
    if (end == DONE && PyObject_SetAttr(object, state->names[APPLIED], ITEM(txn, 0)))
        end = FAILED;
    if (end == DONE)
        found = PyTuple_Pack(
            5, state->zero, step.path, step.stat == NULL ? Py_None : step.stat, Py_None, step.triggers);
    close_tree(&tree);
    drop(2, step.stat, step.triggers);
    return end == LEFT ? Py_NewRef(Py_None) : found;
}

static PyObject *apply_parts(PyObject *module, PyObject *arguments)
{
    PyObject *object, *parts, *results;
    Py_ssize_t first;
    long long zxid, time;
    Step step = {0};
    if (!PyArg_ParseTuple(arguments, "OLLO!nOO!", &object, &zxid, &time, &PyTuple_Type, &parts, &first, &step.triggers,
                          &PyList_Type, &results))
        return NULL;
    step.zxid = zxid, step.time = time;
    Tree tree;
    int end = open_tree(&tree, state_of(module), object);
    bool is_open = end == DONE && first >= 0 && (step.triggers == Py_None || PyList_CheckExact(step.triggers));
    for (; is_open && end == DONE && first < PyTuple_GET_SIZE(parts); first += end == DONE) {
        PyObject *part = ITEM(parts, first);
        int64_t kind;
        step.stat = NULL;
        end = is_tuple(part, 5) ? integer(ITEM(part, 0), INT32_MIN, INT32_MAX, &kind) : LEFT;
        if (end == DONE && (end = apply_one(&tree, &step, kind, part, 1)) == DONE) {
            PyObject *stat = step.stat == NULL ? Py_None : step.stat;
            PyObject *result = PyTuple_Pack(4, ITEM(part, 0), tree.state->zero, step.path, stat);
            end = result == NULL || PyList_Append(results, result) ? FAILED : DONE;
            Py_XDECREF(result);
        }
        Py_XDECREF(step.stat);
    }
    if (is_open && end != FAILED && store_tree(&tree) != DONE)
        end = FAILED;
    close_tree(&tree);
    return end == FAILED ? NULL : PyLong_FromSsize_t(first);
}

/* ------------------------------------------------------------------------------------------------------ the module */

static PyMethodDef functions[] = {
    {"apply", apply, METH_VARARGS, NULL},
    {"apply_parts", apply_parts, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int begin(PyObject *module)
{
    State *state = state_of(module);
    make_tables(state->crc);
    for (int name = 0; name < NAMES; name++)
        if ((state->names[name] = PyUnicode_InternFromString(NAMED[name])) == NULL)
            return -1;
    if ((state->root = PyBytes_FromString("/")) == NULL || (state->zero = PyLong_FromLong(0)) == NULL)
        return -1;
    PyObject *limits = Py_BuildValue("(iiii)", SHARD_COUNT, CROWD_COUNT, NEARING_COUNT, LARGE_BYTES);
    int failed = limits == NULL || PyModule_AddObjectRef(module, "LIMITS", limits);
    Py_XDECREF(limits);
    return failed ? -1 : 0;
}

static void release(void *module)
{
    State *state = state_of(module);
    for (int name = 0; name < NAMES; name++)
        Py_CLEAR(state->names[name]);
    drop(2, state->root, state->zero);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, begin}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "zab.native.tree",
    .m_size = sizeof(State),
    .m_methods = functions,
    .m_slots = slots,
    .m_free = release,
};

PyMODINIT_FUNC PyInit_tree(void) { return PyModuleDef_Init(&definition); }
