/* The Python face of the kernel: checks every buffer, length and index, releases the GIL, calls batch.c. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "batch.h"

/* Views of the arguments of one call, released together. */
#define MAX_VIEWS 6
typedef struct {
    Py_buffer views[MAX_VIEWS];
    int count;
} arguments;

static void release(arguments *args)
{
    while (args->count > 0) PyBuffer_Release(&args->views[--args->count]);
}

static PyObject *refuse(arguments *args, const char *why)
{
    release(args);
    PyErr_SetString(PyExc_ValueError, why);
    return NULL;
}

/* The bytes of a C-contiguous buffer, or NULL with an exception set. */
static void *view(arguments *args, PyObject *object, int writable, int64_t *bytes)
{
    Py_buffer *slot = &args->views[args->count];
    if (PyObject_GetBuffer(object, slot, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0) return NULL;
    args->count++;
    *bytes = (int64_t)slot->len;
    return slot->buf;
}

/* The ring, checked: its size is one we have a kernel for, and the array is as long as that size says. */
static const uint64_t *view_ring(arguments *args, PyObject *object, int64_t *K)
{
    int64_t bytes;
    const uint64_t *words = view(args, object, 0, &bytes);
    if (!words) return NULL;
    if (!kernel_supported()) { refuse(args, "this CPU cannot run the kernel"); return NULL; }
    if (bytes < 16 || words[0] > 4096 || !kernel_has_size((int64_t)words[0]) ||
        bytes != 8 * RING_WORDS((int64_t)words[0])) {
        refuse(args, "not a ring of a supported size");
        return NULL;
    }
    *K = (int64_t)words[0];
    return words;
}

static int range_ok(int64_t start, int64_t stop, int64_t rows) { return start >= 0 && start <= stop && stop <= rows; }

static int indices_ok(const int64_t *indices, int64_t count, int64_t rows)
{
    for (int64_t i = 0; i < count; i++)
        if (indices[i] < 0 || indices[i] >= rows) return 0;
    return 1;
}

#define ROW_BYTES(K) (16 * (K))

/* Whether a buffer is `rows` rows of `width` bytes.  Divides instead of multiplying: a product could wrap around. */
static int holds(int64_t bytes, int64_t rows, int64_t width)
{
    return width >= 1 && (rows ? bytes % rows == 0 && bytes / rows == width : bytes == 0);
}

static PyObject *py_supported(PyObject *self, PyObject *none)
{
    (void)self; (void)none;
    return PyBool_FromLong(kernel_supported());
}

static PyObject *py_has_size(PyObject *self, PyObject *args)
{
    long long digits;
    (void)self;
    if (!PyArg_ParseTuple(args, "L", &digits)) return NULL;
    return PyBool_FromLong(kernel_has_size(digits));
}

static PyObject *py_nanoseconds_per_ifma(PyObject *self, PyObject *none)
{
    double ns = 0;
    (void)self; (void)none;
    if (!kernel_supported()) return PyFloat_FromDouble(0);
    Py_BEGIN_ALLOW_THREADS
    ns = kernel_nanoseconds_per_ifma();
    Py_END_ALLOW_THREADS
    return PyFloat_FromDouble(ns);
}

static PyObject *py_multiply(PyObject *self, PyObject *tuple)
{
    PyObject *o_ring, *o_out, *o_a, *o_ia, *o_b, *o_ib;
    long long start, stop;
    int64_t K = 0, out_bytes, a_bytes, b_bytes, index_bytes;
    const int64_t *ia = NULL, *ib = NULL;
    arguments args = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(tuple, "OOOOOOLL", &o_ring, &o_out, &o_a, &o_ia, &o_b, &o_ib, &start, &stop)) return NULL;
    const uint64_t *ring = view_ring(&args, o_ring, &K);
    if (!ring) return NULL;
    uint64_t *out = view(&args, o_out, 1, &out_bytes);
    const uint64_t *a = out ? view(&args, o_a, 0, &a_bytes) : NULL;
    const uint64_t *b = a ? view(&args, o_b, 0, &b_bytes) : NULL;
    if (!b) { release(&args); return NULL; }
    int64_t rows = out_bytes / ROW_BYTES(K), a_rows = a_bytes / ROW_BYTES(K), b_rows = b_bytes / ROW_BYTES(K);
    if (out_bytes % ROW_BYTES(K) || a_bytes % ROW_BYTES(K) || b_bytes % ROW_BYTES(K) || !range_ok(start, stop, rows))
        return refuse(&args, "multiply: lengths do not match");
    if (o_ia != Py_None) {
        if (!(ia = view(&args, o_ia, 0, &index_bytes))) { release(&args); return NULL; }
        if (index_bytes != 8 * rows || !indices_ok(ia + start, stop - start, a_rows))
            return refuse(&args, "multiply: index out of range");
    } else if (a_rows < stop) return refuse(&args, "multiply: first factor too short");
    if (o_ib != Py_None) {
        if (!(ib = view(&args, o_ib, 0, &index_bytes))) { release(&args); return NULL; }
        if (index_bytes != 8 * rows || !indices_ok(ib + start, stop - start, b_rows))
            return refuse(&args, "multiply: index out of range");
    } else if (b_rows < stop) return refuse(&args, "multiply: second factor too short");
    Py_BEGIN_ALLOW_THREADS
    batch_multiply(ring, out, a, ia, b, ib, start, stop);
    Py_END_ALLOW_THREADS
    release(&args);
    Py_RETURN_NONE;
}

static PyObject *py_chain(PyObject *self, PyObject *tuple)
{
    PyObject *o_ring, *o_out, *o_table, *o_indices, *o_squarings;
    long long start, stop;
    int64_t K = 0, out_bytes, table_bytes, index_bytes, squaring_bytes;
    int failed = 0;
    arguments args = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(tuple, "OOOOOLL", &o_ring, &o_out, &o_table, &o_indices, &o_squarings, &start, &stop))
        return NULL;
    const uint64_t *ring = view_ring(&args, o_ring, &K);
    if (!ring) return NULL;
    uint64_t *out = view(&args, o_out, 1, &out_bytes);
    const uint64_t *table = out ? view(&args, o_table, 0, &table_bytes) : NULL;
    const int64_t *indices = table ? view(&args, o_indices, 0, &index_bytes) : NULL;
    const int64_t *squarings = indices ? view(&args, o_squarings, 0, &squaring_bytes) : NULL;
    if (!squarings) { release(&args); return NULL; }
    int64_t rows = out_bytes / ROW_BYTES(K), steps = squaring_bytes / 8;
    if (out_bytes % ROW_BYTES(K) || table_bytes % ROW_BYTES(K) || steps < 1 || index_bytes != 8 * steps * rows ||
        !range_ok(start, stop, rows))
        return refuse(&args, "chain: lengths do not match");
    for (int64_t t = 0; t < steps; t++) {
        if (squarings[t] < 0) return refuse(&args, "chain: negative number of squarings");
        if (!indices_ok(indices + t * rows + start, stop - start, table_bytes / ROW_BYTES(K)))
            return refuse(&args, "chain: index out of range");
    }
    Py_BEGIN_ALLOW_THREADS
    failed = batch_chain(ring, out, table, indices, rows, squarings, steps, start, stop);
    Py_END_ALLOW_THREADS
    release(&args);
    if (failed) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *py_segment_products(PyObject *self, PyObject *tuple)
{
    PyObject *o_ring, *o_out, *o_table, *o_offsets, *o_members;
    long long start, stop;
    int64_t K = 0, out_bytes, table_bytes, offset_bytes, member_bytes;
    arguments args = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(tuple, "OOOOOLL", &o_ring, &o_out, &o_table, &o_offsets, &o_members, &start, &stop))
        return NULL;
    const uint64_t *ring = view_ring(&args, o_ring, &K);
    if (!ring) return NULL;
    uint64_t *out = view(&args, o_out, 1, &out_bytes);
    const uint64_t *table = out ? view(&args, o_table, 0, &table_bytes) : NULL;
    const int64_t *offsets = table ? view(&args, o_offsets, 0, &offset_bytes) : NULL;
    const int64_t *members = offsets ? view(&args, o_members, 0, &member_bytes) : NULL;
    if (!members) { release(&args); return NULL; }
    int64_t rows = out_bytes / ROW_BYTES(K);
    if (out_bytes % ROW_BYTES(K) || table_bytes % ROW_BYTES(K) || offset_bytes != 8 * (rows + 1) ||
        !range_ok(start, stop, rows))
        return refuse(&args, "segment_products: lengths do not match");
    for (int64_t i = start; i < stop; i++)
        if (offsets[i] < 0 || offsets[i] > offsets[i + 1] || offsets[i + 1] > member_bytes / 8 ||
            !indices_ok(members + offsets[i], offsets[i + 1] - offsets[i], table_bytes / ROW_BYTES(K)))
            return refuse(&args, "segment_products: index out of range");
    Py_BEGIN_ALLOW_THREADS
    batch_segment_products(ring, out, table, offsets, members, start, stop);
    Py_END_ALLOW_THREADS
    release(&args);
    Py_RETURN_NONE;
}

static PyObject *py_power_scanned(PyObject *self, PyObject *tuple)
{
    PyObject *o_ring, *o_out, *o_a, *o_exponent;
    long long start, stop;
    int64_t K = 0, out_bytes, a_bytes, exponent_bytes;
    int failed = 0;
    arguments args = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(tuple, "OOOOLL", &o_ring, &o_out, &o_a, &o_exponent, &start, &stop)) return NULL;
    const uint64_t *ring = view_ring(&args, o_ring, &K);
    if (!ring) return NULL;
    uint64_t *out = view(&args, o_out, 1, &out_bytes);
    const uint64_t *a = out ? view(&args, o_a, 0, &a_bytes) : NULL;
    const uint8_t *exponent = a ? view(&args, o_exponent, 0, &exponent_bytes) : NULL;
    if (!exponent) { release(&args); return NULL; }
    if (out_bytes % ROW_BYTES(K) || a_bytes != out_bytes || exponent_bytes < 1 ||
        !range_ok(start, stop, out_bytes / ROW_BYTES(K)))
        return refuse(&args, "power_scanned: lengths do not match");
    Py_BEGIN_ALLOW_THREADS
    failed = batch_power_scanned(ring, out, a, exponent, exponent_bytes, start, stop);
    Py_END_ALLOW_THREADS
    release(&args);
    if (failed) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *py_load(PyObject *self, PyObject *tuple)
{
    PyObject *o_ring, *o_out, *o_raw, *o_factors;
    long long chunk_bytes, start, stop;
    int64_t K = 0, out_bytes, raw_bytes, factor_bytes;
    arguments args = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(tuple, "OOOLOLL", &o_ring, &o_out, &o_raw, &chunk_bytes, &o_factors, &start, &stop))
        return NULL;
    const uint64_t *ring = view_ring(&args, o_ring, &K);
    if (!ring) return NULL;
    uint64_t *out = view(&args, o_out, 1, &out_bytes);
    const uint8_t *raw = out ? view(&args, o_raw, 0, &raw_bytes) : NULL;
    const uint64_t *factors = raw ? view(&args, o_factors, 0, &factor_bytes) : NULL;
    if (!factors) { release(&args); return NULL; }
    int64_t rows = out_bytes / ROW_BYTES(K), chunks = factor_bytes / ROW_BYTES(K);
    if (out_bytes % ROW_BYTES(K) || factor_bytes % ROW_BYTES(K) || chunks < 1 || chunks > 8 ||
        chunk_bytes > 52 * K / 8 || !holds(raw_bytes, rows * chunks, chunk_bytes) || !range_ok(start, stop, rows))
        return refuse(&args, "load: lengths do not match");
    Py_BEGIN_ALLOW_THREADS
    batch_load(ring, out, raw, chunk_bytes, factors, chunks, start, stop);
    Py_END_ALLOW_THREADS
    release(&args);
    Py_RETURN_NONE;
}

static PyObject *py_dump(PyObject *self, PyObject *tuple)
{
    PyObject *o_ring, *o_raw, *o_a;
    long long width, start, stop;
    int64_t K = 0, raw_bytes, a_bytes;
    arguments args = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(tuple, "OOLOLL", &o_ring, &o_raw, &width, &o_a, &start, &stop)) return NULL;
    const uint64_t *ring = view_ring(&args, o_ring, &K);
    if (!ring) return NULL;
    uint8_t *raw = view(&args, o_raw, 1, &raw_bytes);
    const uint64_t *a = raw ? view(&args, o_a, 0, &a_bytes) : NULL;
    if (!a) { release(&args); return NULL; }
    int64_t rows = a_bytes / ROW_BYTES(K);
    if (a_bytes % ROW_BYTES(K) || !holds(raw_bytes, rows, width) || !range_ok(start, stop, rows))
        return refuse(&args, "dump: lengths do not match");
    Py_BEGIN_ALLOW_THREADS
    batch_dump(ring, raw, width, a, start, stop);
    Py_END_ALLOW_THREADS
    release(&args);
    Py_RETURN_NONE;
}

static PyObject *py_split(PyObject *self, PyObject *tuple)
{
    PyObject *o_ring, *o_low, *o_high, *o_a;
    long long width, start, stop;
    int64_t K = 0, low_bytes, high_bytes, a_bytes;
    arguments args = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(tuple, "OOOLOLL", &o_ring, &o_low, &o_high, &width, &o_a, &start, &stop)) return NULL;
    const uint64_t *ring = view_ring(&args, o_ring, &K);
    if (!ring) return NULL;
    uint8_t *low = view(&args, o_low, 1, &low_bytes);
    uint8_t *high = low ? view(&args, o_high, 1, &high_bytes) : NULL;
    const uint64_t *a = high ? view(&args, o_a, 0, &a_bytes) : NULL;
    if (!a) { release(&args); return NULL; }
    int64_t rows = a_bytes / ROW_BYTES(K);
    if (a_bytes % ROW_BYTES(K) || !holds(low_bytes, rows, width) || high_bytes != low_bytes ||
        !range_ok(start, stop, rows))
        return refuse(&args, "split: lengths do not match");
    Py_BEGIN_ALLOW_THREADS
    batch_split(ring, low, high, width, a, start, stop);
    Py_END_ALLOW_THREADS
    release(&args);
    Py_RETURN_NONE;
}

static PyObject *py_add_plain(PyObject *self, PyObject *tuple)
{
    PyObject *o_ring, *o_out, *o_a, *o_plain;
    long long width, start, stop;
    int64_t K = 0, out_bytes, a_bytes, plain_bytes;
    arguments args = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(tuple, "OOOOLLL", &o_ring, &o_out, &o_a, &o_plain, &width, &start, &stop)) return NULL;
    const uint64_t *ring = view_ring(&args, o_ring, &K);
    if (!ring) return NULL;
    uint64_t *out = view(&args, o_out, 1, &out_bytes);
    const uint64_t *a = out ? view(&args, o_a, 0, &a_bytes) : NULL;
    const uint8_t *plain = a ? view(&args, o_plain, 0, &plain_bytes) : NULL;
    if (!plain) { release(&args); return NULL; }
    int64_t rows = out_bytes / ROW_BYTES(K);
    if (out_bytes % ROW_BYTES(K) || a_bytes != out_bytes || width > 52 * K / 8 ||
        !holds(plain_bytes, rows, width) || !range_ok(start, stop, rows))
        return refuse(&args, "add_plain: lengths do not match");
    Py_BEGIN_ALLOW_THREADS
    batch_add_plain(ring, out, a, plain, width, start, stop);
    Py_END_ALLOW_THREADS
    release(&args);
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"supported", py_supported, METH_NOARGS, "Whether this CPU can run the kernel."},
    {"has_size", py_has_size, METH_VARARGS, "Whether a kernel for numbers of that many 52-bit digits exists."},
    {"nanoseconds_per_ifma", py_nanoseconds_per_ifma, METH_NOARGS, "Measured time per 8-lane multiply-add."},
    {"multiply", py_multiply, METH_VARARGS, "multiply(ring, out, a, ia, b, ib, start, stop)"},
    {"chain", py_chain, METH_VARARGS, "chain(ring, out, table, indices, squarings, start, stop)"},
    {"segment_products", py_segment_products, METH_VARARGS,
     "segment_products(ring, out, table, offsets, members, start, stop)"},
    {"power_scanned", py_power_scanned, METH_VARARGS, "power_scanned(ring, out, a, exponent, start, stop)"},
    {"load", py_load, METH_VARARGS, "load(ring, out, raw, chunk_bytes, factors, start, stop)"},
    {"dump", py_dump, METH_VARARGS, "dump(ring, raw, width, a, start, stop)"},
    {"split", py_split, METH_VARARGS, "split(ring, low, high, width, a, start, stop)"},
    {"add_plain", py_add_plain, METH_VARARGS, "add_plain(ring, out, a, plain, width, start, stop)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_native", "Batched arithmetic modulo n^2 (AVX-512 IFMA).", 0, METHODS, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModule_Create(&MODULE); }
