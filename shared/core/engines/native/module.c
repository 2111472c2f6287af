/* The Python side: checks every argument, then computes without the interpreter lock. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "sketch.h"

/* Only what the processor supports, fastest first. */
static const struct level *find_level(const char *name) {
    for (const struct level *const *level = sketch_levels; *level; level++) {
        if (strcmp((*level)->name, name) == 0 && (*level)->is_supported()) return *level;
    }
    PyErr_Format(PyExc_ValueError, "level: this processor has no '%s'", name);
    return NULL;
}

static PyObject *list_levels(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyObject *names = PyList_New(0);
    for (const struct level *const *level = sketch_levels; names && *level; level++) {
        if (!(*level)->is_supported()) continue;
        PyObject *name = PyUnicode_FromString((*level)->name);
        if (!name || PyList_Append(names, name) < 0) Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

/* A contiguous buffer of `size` bytes exactly, items of `code`. */
static int get_exactly(PyObject *object, Py_buffer *view, int writable, const char *code,
                       size_t size, const char *name) {
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags) < 0) return -1;
    if ((size_t)view->len == size && view->format && strchr(code, view->format[0]) &&
        view->format[1] == '\0') {
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "%s: needs %zu bytes of type '%s', got %zd of type '%s'", name,
                 size, code, view->len, view->format ? view->format : "B");
    PyBuffer_Release(view);
    return -1;
}

static int multiply_sizes(size_t a, size_t b, size_t *product) {
    if (!__builtin_mul_overflow(a, b, product)) return 0;
    PyErr_SetString(PyExc_OverflowError, "the sketch does not fit the memory of this machine");
    return -1;
}

/* d, r and groups within what the arithmetic below can count. */
static int check_shape(Py_ssize_t d, Py_ssize_t r, Py_ssize_t groups) {
    if (d >= 1 && r >= 1 && groups >= 1 && d <= INT32_MAX && r <= INT32_MAX &&
        groups <= INT32_MAX && r * groups <= INT32_MAX && d <= PY_SSIZE_T_MAX / 256 / (r * groups)) {
        return 0;
    }
    PyErr_SetString(PyExc_ValueError, "d, r and groups: must be positive and fit memory");
    return -1;
}

static PyObject *packed_size(PyObject *module, PyObject *args) {
    (void)module;
    const char *name;
    Py_ssize_t d, r, groups;
    if (!PyArg_ParseTuple(args, "snnn", &name, &d, &r, &groups)) return NULL;
    const struct level *level = find_level(name);
    if (!level || check_shape(d, r, groups) < 0) return NULL;
    return PyLong_FromSize_t(sketch_packed_size(level, (size_t)d, (size_t)r, (size_t)groups));
}

static PyObject *pack(PyObject *module, PyObject *args) {
    (void)module;
    const char *name;
    PyObject *turns_object, *places_object, *packed_object;
    Py_ssize_t d, r, groups;
    if (!PyArg_ParseTuple(args, "sOnnnOO", &name, &turns_object, &d, &r, &groups, &places_object,
                          &packed_object)) {
        return NULL;
    }
    const struct level *level = find_level(name);
    if (!level || check_shape(d, r, groups) < 0) return NULL;
    const size_t m = (size_t)(r * groups);
    Py_buffer turns, places = {0}, packed;
    PyObject *result = NULL;
    if (get_exactly(turns_object, &turns, 0, "h", (size_t)d * m * 2, "turns") < 0) return NULL;
    if (places_object != Py_None &&
        get_exactly(places_object, &places, 0, "lq", m * 8, "places") < 0) {
        goto release_turns;
    }
    const int64_t *order = places.buf;
    for (size_t i = 0; order && i < m; i++) {
        if (order[i] < 0 || (uint64_t)order[i] >= m) {
            PyErr_Format(PyExc_ValueError, "places[%zu]: must be a feature number below m", i);
            goto release_places;
        }
    }
    size_t size = sketch_packed_size(level, (size_t)d, (size_t)r, (size_t)groups);
    if (get_exactly(packed_object, &packed, 1, "h", size, "packed") < 0) goto release_places;
    Py_BEGIN_ALLOW_THREADS
    sketch_pack(level, turns.buf, (size_t)d, (size_t)r, (size_t)groups, order, packed.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&packed);
    result = Py_NewRef(Py_None);
release_places:
    if (places.obj) PyBuffer_Release(&places);
release_turns:
    PyBuffer_Release(&turns);
    return result;
}

/* ---- records ---- */

struct opened {
    struct records records;
    struct column *columns;
    Py_buffer *views;
    Py_ssize_t n_views;
};

static void close_records(struct opened *opened) {
    for (Py_ssize_t i = 0; i < opened->n_views; i++) PyBuffer_Release(opened->views + i);
    PyMem_Free(opened->views);
    PyMem_Free(opened->columns);
}

/* Whether items are doubles (1) or floats (0) in native byte order, aligned or not. */
static int find_type(const Py_buffer *view) {
    const char *format = view->format ? view->format : "B";
    if (*format == '=' || *format == '@') format++;
    if (strcmp(format, "d") == 0 && view->itemsize == sizeof(double)) return 1;
    if (strcmp(format, "f") == 0 && view->itemsize == sizeof(float)) return 0;
    PyErr_SetString(PyExc_ValueError, "records: must be float32 or float64");
    return -1;
}

static int open_view(struct opened *opened, PyObject *object, int dimensions) {
    Py_buffer *view = opened->views + opened->n_views;
    if (PyObject_GetBuffer(object, view, PyBUF_STRIDED_RO | PyBUF_FORMAT) < 0) return -1;
    opened->n_views++;
    if (view->ndim == dimensions) return find_type(view);
    PyErr_Format(PyExc_ValueError, "records: needs %d dimensions and has %d", dimensions,
                 view->ndim);
    return -1;
}

/* A tuple of d columns of n values, or one array of n rows and d columns. */
static int open_records(struct opened *opened, PyObject *object, Py_ssize_t d) {
    const int is_tuple = PyTuple_Check(object);
    const Py_ssize_t n_views = is_tuple ? PyTuple_Size(object) : 1;
    memset(opened, 0, sizeof *opened);
    if (is_tuple && n_views != d) {
        PyErr_Format(PyExc_ValueError, "records: needs %zd columns and has %zd", d, n_views);
        return -1;
    }
    opened->views = PyMem_Calloc((size_t)n_views, sizeof *opened->views);
    opened->columns = PyMem_Calloc((size_t)d, sizeof *opened->columns);
    if (!opened->views || !opened->columns) {
        PyErr_NoMemory();
        return -1;
    }
    struct records *records = &opened->records;
    records->d = (size_t)d;
    records->columns = opened->columns;
    for (Py_ssize_t i = 0; i < n_views; i++) {
        int is_double = open_view(opened, is_tuple ? PyTuple_GetItem(object, i) : object,
                                  is_tuple ? 1 : 2);
        if (is_double < 0) return -1;
        const Py_buffer *view = opened->views + i;
        if (i == 0) records->n = (size_t)view->shape[0];
        if (!is_tuple && view->shape[1] != d) {
            PyErr_Format(PyExc_ValueError, "records: needs %zd columns and has %zd", d,
                         view->shape[1]);
            return -1;
        }
        if ((size_t)view->shape[0] != records->n) {
            PyErr_SetString(PyExc_ValueError, "records: columns differ in length");
            return -1;
        }
        for (Py_ssize_t j = 0; j < (is_tuple ? 1 : d); j++) {
            struct column column = {
                (const char *)view->buf + (is_tuple ? 0 : j * view->strides[1]),
                view->strides[0],
                is_double,
            };
            opened->columns[i + j] = column;
        }
        records->is_contiguous = !is_tuple && view->strides[1] == view->itemsize &&
                                 view->strides[0] == d * view->itemsize;
    }
    return 0;
}

static PyObject *add_records(PyObject *module, PyObject *args) {
    (void)module;
    const char *name;
    PyObject *records_object, *centre_object, *scale_object, *packed_object, *sums_object;
    Py_ssize_t d, r, groups;
    int bits;
    unsigned long long assignment_key, first_record;
    if (!PyArg_ParseTuple(args, "sOnOOOnniKKO", &name, &records_object, &d, &centre_object,
                          &scale_object, &packed_object, &r, &groups, &bits, &assignment_key,
                          &first_record, &sums_object)) {
        return NULL;
    }
    const struct level *level = find_level(name);
    if (!level || check_shape(d, r, groups) < 0) return NULL;
    if (bits < 16 || bits > 32) {
        PyErr_SetString(PyExc_ValueError, "bits: must be 16 to 32");
        return NULL;
    }
    size_t sums_size;
    if (multiply_sizes((size_t)(r * groups), 16, &sums_size) < 0) return NULL;
    const size_t per_dimension = (size_t)d * sizeof(double);
    const size_t size = sketch_packed_size(level, (size_t)d, (size_t)r, (size_t)groups);
    PyObject *result = NULL;
    struct opened opened;
    Py_buffer centre, scale, packed, sums;
    if (open_records(&opened, records_object, d) < 0) goto close_records_;
    if (get_exactly(centre_object, &centre, 0, "d", per_dimension, "centre") < 0)
        goto close_records_;
    if (get_exactly(scale_object, &scale, 0, "d", per_dimension, "scale") < 0) goto release_centre;
    if (get_exactly(packed_object, &packed, 0, "h", size, "packed") < 0) goto release_scale;
    if (get_exactly(sums_object, &sums, 1, "lq", sums_size, "sums") < 0) goto release_packed;
    {
        const struct operator operator = {
            centre.buf, scale.buf, packed.buf, (size_t)r, (size_t)groups, bits, assignment_key,
        };
        int64_t unsketchable;
        Py_BEGIN_ALLOW_THREADS
        unsketchable = sketch_add(level, &opened.records, &operator, first_record, sums.buf);
        Py_END_ALLOW_THREADS
        result = unsketchable < 0 ? PyErr_NoMemory() : PyLong_FromLongLong(unsketchable);
    }
    PyBuffer_Release(&sums);
release_packed:
    PyBuffer_Release(&packed);
release_scale:
    PyBuffer_Release(&scale);
release_centre:
    PyBuffer_Release(&centre);
close_records_:
    close_records(&opened);
    return result;
}

static PyMethodDef methods[] = {
    {"levels", list_levels, METH_NOARGS,
     "levels()\n--\n\nNames of the levels that this processor supports, fastest first."},
    {"packed_size", packed_size, METH_VARARGS,
     "packed_size(level, d, r, groups)\n--\n\nBytes of the packed form of W."},
    {"pack", pack, METH_VARARGS,
     "pack(level, turns, d, r, groups, places, packed)\n--\n\n"
     "Write the packed form of W, groups of r places, into `packed`."},
    {"add_records", add_records, METH_VARARGS,
     "add_records(level, records, d, centre, scale, packed, r, groups, bits, assignment_key,\n"
     "            first_record, sums)\n--\n\n"
     "Add the features of records to `sums`, by place; return how many cannot be sketched."},
    {NULL, NULL, 0, NULL},
};

/* Of the sources that this was compiled from: an old kernel beside newer sources is not used. */
#ifndef SFUMATO_SOURCE_DIGEST
#error "define SFUMATO_SOURCE_DIGEST: see shared/core/engines/source_digest.py"
#endif

static int add_constants(PyObject *module) {
    return PyModule_AddStringConstant(module, "source_digest", SFUMATO_SOURCE_DIGEST);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)add_constants}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The integer sketch in C.", 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
