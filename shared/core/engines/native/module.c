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

/* ---- statistics without frequencies ---- */

/* Rules from rows of {dimension, kind of scale, size} and of {centre, scale, resolution}; NULL if a
 * number is out of range. `size` becomes the bytes of their bins. */
static struct bin_rule *make_rules(const int64_t *integers, const double *doubles, Py_ssize_t count,
                                   Py_ssize_t d, size_t *size) {
    struct bin_rule *rules = PyMem_Calloc((size_t)count, sizeof *rules);
    if (!rules) return (struct bin_rule *)PyErr_NoMemory();
    *size = 0;
    for (Py_ssize_t i = 0; i < count; i++, integers += 3, doubles += 3) {
        const int64_t kind = integers[1], most = kind == LEVELS ? INT32_MAX : 12;
        if (integers[0] < 0 || integers[0] >= d || kind < LINEAR || kind > LEVELS ||
            integers[2] < 1 || integers[2] > most) {
            PyErr_Format(PyExc_ValueError, "rules[%zd]: a number is out of range", i);
            PyMem_Free(rules);
            return NULL;
        }
        struct bin_rule rule = {(size_t)integers[0], (int)kind,  (uint32_t)integers[2],
                                doubles[0],          doubles[1], doubles[2]};
        rules[i] = rule;
        *size += sketch_count_bins(&rule) * sizeof(int64_t);
    }
    return rules;
}

static PyObject *add_histogram(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *records_object, *integers_object, *doubles_object, *sums_object;
    Py_ssize_t d, count;
    if (!PyArg_ParseTuple(args, "OnnOOO", &records_object, &d, &count, &integers_object,
                          &doubles_object, &sums_object)) {
        return NULL;
    }
    if (check_shape(d, 1, 1) < 0 || check_shape(count, 1, 1) < 0) return NULL;
    PyObject *result = NULL;
    struct opened opened;
    struct bin_rule *rules = NULL;
    Py_buffer integers, doubles, sums;
    size_t size = 0;
    if (open_records(&opened, records_object, d) < 0) goto close_records_;
    if (get_exactly(integers_object, &integers, 0, "lq", (size_t)count * 24, "integers") < 0)
        goto close_records_;
    if (get_exactly(doubles_object, &doubles, 0, "d", (size_t)count * 24, "doubles") < 0)
        goto release_integers;
    rules = make_rules(integers.buf, doubles.buf, count, d, &size);
    if (!rules || get_exactly(sums_object, &sums, 1, "lq", size, "sums") < 0) goto release_doubles;
    Py_BEGIN_ALLOW_THREADS
    sketch_add_histogram(&opened.records, rules, (size_t)count, sums.buf);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
    PyBuffer_Release(&sums);
release_doubles:
    PyMem_Free(rules);
    PyBuffer_Release(&doubles);
release_integers:
    PyBuffer_Release(&integers);
close_records_:
    close_records(&opened);
    return result;
}

/* Records, the box of their d coordinates, and sums of as many integers as the caller says. */
struct boxed {
    struct opened opened;
    Py_buffer centre, scale, sums;
};

static void close_boxed(struct boxed *boxed) {
    if (boxed->sums.obj) PyBuffer_Release(&boxed->sums);
    if (boxed->scale.obj) PyBuffer_Release(&boxed->scale);
    if (boxed->centre.obj) PyBuffer_Release(&boxed->centre);
    close_records(&boxed->opened);
}

static int open_boxed(struct boxed *boxed, PyObject *records, Py_ssize_t d, PyObject *centre,
                      PyObject *scale, PyObject *sums, size_t count) {
    const size_t size = (size_t)d * sizeof(double);
    if (open_records(&boxed->opened, records, d) < 0) return -1;
    if (get_exactly(centre, &boxed->centre, 0, "d", size, "centre") < 0) return -1;
    if (get_exactly(scale, &boxed->scale, 0, "d", size, "scale") < 0) return -1;
    return get_exactly(sums, &boxed->sums, 1, "lq", count * sizeof(int64_t), "sums");
}

static PyObject *add_grid(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *records, *centre, *scale, *cells_object, *sums;
    Py_ssize_t d;
    if (!PyArg_ParseTuple(args, "OnOOOO", &records, &d, &centre, &scale, &cells_object, &sums))
        return NULL;
    if (check_shape(d, 1, 1) < 0) return NULL;
    PyObject *result = NULL;
    struct boxed boxed = {0};
    Py_buffer cells;
    if (get_exactly(cells_object, &cells, 0, "lq", (size_t)d * 8, "cells") < 0) return NULL;
    int64_t count = 1;
    for (Py_ssize_t i = 0; i < d && count >= 1; i++) {
        const int64_t m = ((const int64_t *)cells.buf)[i];
        count = m >= 1 && m <= INT32_MAX / count ? count * m : 0;
    }
    if (count < 1) {
        PyErr_SetString(PyExc_ValueError, "cells: must be positive, with a product below 2^31");
    } else if (open_boxed(&boxed, records, d, centre, scale, sums, (size_t)count + 1) == 0) {
        Py_BEGIN_ALLOW_THREADS
        sketch_add_grid(&boxed.opened.records, boxed.centre.buf, boxed.scale.buf, cells.buf,
                        boxed.sums.buf);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    close_boxed(&boxed);
    PyBuffer_Release(&cells);
    return result;
}

static PyObject *add_moments(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *records, *centre, *scale, *sums;
    Py_ssize_t d;
    long long radius, constant, mean_weight, diagonal_weight, weight;
    if (!PyArg_ParseTuple(args, "OnOOLLLLLO", &records, &d, &centre, &scale, &radius, &constant,
                          &mean_weight, &diagonal_weight, &weight, &sums)) {
        return NULL;
    }
    if (check_shape(d, d, 1) < 0) return NULL;
    if (radius < 1 || radius > 1 << 20) {
        PyErr_SetString(PyExc_ValueError, "radius: must be 1 to 2^20");
        return NULL;
    }
    PyObject *result = NULL;
    struct boxed boxed = {0};
    const size_t count = 1 + (size_t)d + (size_t)d * ((size_t)d + 1) / 2;
    if (open_boxed(&boxed, records, d, centre, scale, sums, count) == 0) {
        const struct moment_rule rule = {
            (uint32_t)radius, constant, mean_weight, diagonal_weight, weight,
        };
        int64_t unsketchable;
        Py_BEGIN_ALLOW_THREADS
        unsketchable = sketch_add_moments(&boxed.opened.records, boxed.centre.buf,
                                          boxed.scale.buf, &rule, boxed.sums.buf);
        Py_END_ALLOW_THREADS
        result = unsketchable < 0 ? PyErr_NoMemory() : PyLong_FromLongLong(unsketchable);
    }
    close_boxed(&boxed);
    return result;
}

/* A cluster rule of the numbers in one array, in the order in which `sketch.h` declares them;
 * returns the integers of its sums, or -1 where a number is out of range. */
static Py_ssize_t read_cluster_rule(const int64_t *numbers, Py_ssize_t n, Py_ssize_t d,
                                    struct cluster_rule *rule) {
    enum { SIZES = 14 };
    if (n < SIZES) return -1;
    for (int i = 0; i < 5; i++)
        if (numbers[i] < 0 || numbers[i] > 1 << 24) return -1;
    rule->k = (size_t)numbers[0], rule->d = (size_t)numbers[1], rule->e = (size_t)numbers[2];
    rule->n_optional = (size_t)numbers[3], rule->n_candidates = (size_t)numbers[4];
    rule->cap = numbers[5], rule->residual = numbers[6], rule->count = numbers[7];
    rule->square = numbers[8], rule->beyond = numbers[9], rule->presence = numbers[10];
    rule->total = numbers[11], rule->is_l1 = numbers[12] != 0;
    const Py_ssize_t size = (Py_ssize_t)numbers[13];
    const size_t k = rule->k, e = rule->e;
    const size_t parts[] = {rule->d, e, rule->n_optional, k * rule->d, rule->d, k * e, k * e,
                            rule->n_candidates * k * rule->d, k};
    const int64_t **arrays[] = {&rule->assigned, &rule->summed, &rule->optional,
                                &rule->centres, &rule->weights, &rule->origins,
                                &rule->radii, &rule->candidates, &rule->blocks};
    size_t at = SIZES;
    for (int i = 0; i < 9; i++) {
        *arrays[i] = numbers + at;
        at += parts[i];
        if (at > (size_t)n) return -1;
    }
    if (k < 1 || rule->d < 1 || rule->cap < 1 || at != (size_t)n) return -1;
    for (size_t i = 0; i < rule->d + e + rule->n_optional; i++)
        if (rule->assigned[i] < 0 || rule->assigned[i] >= d) return -1;
    for (size_t i = 0; i < k * e; i++)
        if (rule->radii[i] < 1) return -1;
    const Py_ssize_t n_totals =
        (rule->beyond != 0) + (rule->total ? 1 + (Py_ssize_t)rule->n_candidates : 0);
    const Py_ssize_t block = 1 + (rule->square != 0) + (Py_ssize_t)e +
                             (rule->presence ? (Py_ssize_t)rule->n_optional : 0);
    rule->totals = (size_t)(size - n_totals);
    for (size_t j = 0; j < k; j++)
        if (rule->blocks[j] < -1 || rule->blocks[j] > size - n_totals - block) return -1;
    return size < n_totals ? -1 : size;
}

static PyObject *add_clusters(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *records, *centre, *scale, *numbers_object, *sums;
    Py_ssize_t d;
    if (!PyArg_ParseTuple(args, "OnOOOO", &records, &d, &centre, &scale, &numbers_object, &sums))
        return NULL;
    if (check_shape(d, 1, 1) < 0) return NULL;
    PyObject *result = NULL;
    struct boxed boxed = {0};
    struct cluster_rule rule;
    Py_buffer numbers;
    if (PyObject_GetBuffer(numbers_object, &numbers, PyBUF_C_CONTIGUOUS) < 0) return NULL;
    const Py_ssize_t size =
        numbers.itemsize == 8
            ? read_cluster_rule(numbers.buf, numbers.len / 8, d, &rule) : -1;
    if (size < 0) {
        PyErr_SetString(PyExc_ValueError, "rule: a number is out of range");
    } else if (open_boxed(&boxed, records, d, centre, scale, sums, (size_t)size) == 0) {
        int64_t unusable;
        Py_BEGIN_ALLOW_THREADS
        unusable = sketch_add_clusters(&boxed.opened.records, boxed.centre.buf, boxed.scale.buf,
                                       &rule, boxed.sums.buf);
        Py_END_ALLOW_THREADS
        result = unusable < 0 ? PyErr_NoMemory() : PyLong_FromLongLong(unusable);
    }
    close_boxed(&boxed);
    PyBuffer_Release(&numbers);
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
    {"add_histogram", add_histogram, METH_VARARGS,
     "add_histogram(records, d, count, integers, doubles, sums)\n--\n\n"
     "Count records in the bins of `count` rules: rows {dimension, scale, size} of integers and\n"
     "{centre, scale, resolution} of doubles."},
    {"add_grid", add_grid, METH_VARARGS,
     "add_grid(records, d, centre, scale, cells, sums)\n--\n\n"
     "Count records in cells; what cannot be sketched in the place after the last."},
    {"add_moments", add_moments, METH_VARARGS,
     "add_moments(records, d, centre, scale, radius, constant, mean_weight, diagonal_weight,\n"
     "            weight, sums)\n--\n\n"
     "Add the moments of clipped records; return how many cannot be sketched."},
    {"add_clusters", add_clusters, METH_VARARGS,
     "add_clusters(records, d, centre, scale, rule, sums)\n--\n\n"
     "Add records to their clusters; return how many lack an assigned coordinate."},
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
