/* Batched operations on rows of 2K digits, eight rows per sweep of the kernel.
 *
 * Rows are numbers modulo n^2 in Montgomery form, base n (kernel.h).  Chunks of bytes are little-endian.
 * Callers (module.c) have checked every length and index; nothing here fails but an allocation.
 */
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HAVE_KERNEL 1
#else
#define HAVE_KERNEL 0
#endif

#include "batch.h"

#if HAVE_KERNEL

#define KERNEL_TARGET "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target(KERNEL_TARGET))), apply_to = function)
#else
#pragma GCC optimize("O3")
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx512ifma,prefer-vector-width=512")
#endif

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel.h"
#include "lanes.h"

#define WINDOW 4 /* bits of the exponent per table look-up in decryption */

/* One specialised copy per size.  K must be a multiple of both block sizes, which were chosen by measurement. */
#define SIZES(F) F(4, 2, 2) F(8, 2, 2) F(12, 2, 2) F(20, 2, 2) F(30, 2, 2) F(40, 2, 4) F(60, 4, 2)
#define DEFINE_SIZE(K, BM, BS)                                                                                         \
    __attribute__((noinline)) static void multiply_##K(V *r, const V *a, const V *b, const ring_t *ring)               \
    { multiply(K, BM, r, a, b, ring); }                                                                                \
    __attribute__((noinline)) static void square_##K(V *r, const V *a, const ring_t *ring)                             \
    { square(K, BS, r, a, ring); }                                                                                     \
    __attribute__((noinline)) static void half_##K(V *r, const V *a, const V *b, const ring_t *ring)                   \
    { montgomery_half(K, BM, r, a, b, ring); }
SIZES(DEFINE_SIZE)

typedef struct {
    int K;
    void (*multiply)(V *, const V *, const V *, const ring_t *);
    void (*square)(V *, const V *, const ring_t *);
    void (*half)(V *, const V *, const V *, const ring_t *);
} size_t_ops;
#define LIST_SIZE(K, BM, BS) {K, multiply_##K, square_##K, half_##K},
static const size_t_ops SIZE_TABLE[] = {SIZES(LIST_SIZE)};

static const size_t_ops *size_ops(int64_t K)
{
    for (size_t i = 0; i < sizeof SIZE_TABLE / sizeof *SIZE_TABLE; i++)
        if (SIZE_TABLE[i].K == K) return &SIZE_TABLE[i];
    return 0;
}

int kernel_has_size(int64_t digits) { return size_ops(digits) != 0; }

int kernel_supported(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512ifma");
}

static ring_t open_ring(const uint64_t *words)
{
    ring_t ring;
    ring.K = (int)words[0];
    ring.k0 = words[1];
    ring.n = words + 2;
    ring.cc = ring.n + ring.K;
    ring.r2 = ring.cc + ring.K;
    ring.one = ring.r2 + ring.K;
    return ring;
}

/* ---- products --------------------------------------------------------------------------------------------------- */

void batch_multiply(const uint64_t *words, uint64_t *out, const uint64_t *a, const int64_t *ia, const uint64_t *b,
                    const int64_t *ib, int64_t start, int64_t stop)
{
    const ring_t ring = open_ring(words);
    const size_t_ops *ops = size_ops(ring.K);
    const int width = 2 * ring.K;
    V x[2 * MAX_K], y[2 * MAX_K], r[2 * MAX_K];
    for (int64_t i = start; i < stop; i += LANES) {
        int count = lanes_here(i, stop);
        gather_at(width, x, a, ia, i, count);
        gather_at(width, y, b, ib, i, count);
        ops->multiply(r, x, y, &ring);
        scatter(width, r, out + (size_t)i * width, count);
    }
}

/* out = (...((T[i0])^(2^s1) T[i1])^(2^s2) T[i2] ...): lanes share the squarings, each has its own table rows.
 * A tile of lanes takes each step together, so that the part of the table which the step uses stays in the cache. */
int batch_chain(const uint64_t *words, uint64_t *out, const uint64_t *table, const int64_t *indices, int64_t lanes,
                const int64_t *squarings, int64_t steps, int64_t start, int64_t stop)
{
    enum { TILE = 16 };
    const ring_t ring = open_ring(words);
    const size_t_ops *ops = size_ops(ring.K);
    const int width = 2 * ring.K;
    V factor[2 * MAX_K];
    V *buffers = aligned_alloc(64, sizeof(V) * (size_t)width * 2 * TILE);
    if (!buffers) return -1;
    for (int64_t first = start; first < stop; first += TILE * LANES) {
        int groups = (int)((stop - first + LANES - 1) / LANES);
        if (groups > TILE) groups = TILE;
        int now[TILE] = {0};
        for (int64_t t = 0; t < steps; t++) {
            const int64_t *here = indices + (size_t)t * lanes;
            for (int g = 0; g < groups; g++) {
                int64_t i = first + g * LANES;
                int count = lanes_here(i, stop);
                V *pair = buffers + (size_t)g * 2 * width;
                if (g + 1 < groups) prefetch_at(width, table, here + i + LANES, lanes_here(i + LANES, stop));
                else if (t + 1 < steps) prefetch_at(width, table, here + lanes + first, lanes_here(first, stop));
                if (t == 0) { gather_at(width, pair, table, here, i, count); continue; }
                for (int64_t s = 0; s < squarings[t]; s++, now[g] ^= 1)
                    ops->square(pair + (now[g] ^ 1) * width, pair + now[g] * width, &ring);
                gather_at(width, factor, table, here, i, count);
                ops->multiply(pair + (now[g] ^ 1) * width, pair + now[g] * width, factor, &ring);
                now[g] ^= 1;
            }
        }
        for (int g = 0; g < groups; g++) {
            int64_t i = first + g * LANES;
            scatter(width, buffers + ((size_t)g * 2 + now[g]) * width, out + (size_t)i * width, lanes_here(i, stop));
        }
    }
    free(buffers);
    return 0;
}

/* out[i] = product of table[members[offsets[i] : offsets[i+1]]]; an empty product is 1.  Sort segments by length first:
 * eight neighbours run as long as the longest of them. */
void batch_segment_products(const uint64_t *words, uint64_t *out, const uint64_t *table, const int64_t *offsets,
                            const int64_t *members, int64_t start, int64_t stop)
{
    const ring_t ring = open_ring(words);
    const size_t_ops *ops = size_ops(ring.K);
    const int width = 2 * ring.K;
    V buffer[2][2 * MAX_K], factor[2 * MAX_K];
    for (int64_t i = start; i < stop; i += LANES) {
        int count = lanes_here(i, stop), now = 0;
        int64_t longest = 1;
        for (int l = 0; l < count; l++) {
            int64_t length = offsets[i + l + 1] - offsets[i + l];
            if (length > longest) longest = length;
        }
        for (int64_t t = 0; t < longest; t++) {
            const uint64_t *rows[LANES];
            for (int l = 0; l < LANES; l++) {
                int64_t lane = i + (l < count ? l : 0), at = offsets[lane] + t;
                rows[l] = at < offsets[lane + 1] ? table + (size_t)members[at] * width : ring.one;
                if (at + 2 < offsets[lane + 1]) {
                    const char *later = (const char *)(table + (size_t)members[at + 2] * width);
                    for (int o = 0; o < width * 8; o += 64) _mm_prefetch(later + o, _MM_HINT_T0);
                }
            }
            if (t == 0) { gather(width, buffer[0], rows); continue; }
            gather(width, factor, rows);
            ops->multiply(buffer[now ^ 1], buffer[now], factor, &ring);
            now ^= 1;
        }
        scatter(width, buffer[now], out + (size_t)i * width, count);
    }
}

/* out = a^exponent for a secret exponent shared by all lanes.  Every table row is read for every window, so neither the
 * addresses nor the sequence of operations depend on the exponent; only its length (in bytes) shows. */
int batch_power_scanned(const uint64_t *words, uint64_t *out, const uint64_t *a, const uint8_t *exponent,
                        int64_t exponent_bytes, int64_t start, int64_t stop)
{
    enum { ROWS = 1 << WINDOW };
    const ring_t ring = open_ring(words);
    const size_t_ops *ops = size_ops(ring.K);
    const int width = 2 * ring.K;
    V *table = aligned_alloc(64, sizeof(V) * (size_t)width * ROWS);
    if (!table) return -1;
    V buffer[2][2 * MAX_K], factor[2 * MAX_K];
    for (int64_t i = start; i < stop; i += LANES) {
        int count = lanes_here(i, stop), now = 0;
        for (int j = 0; j < width; j++) table[j] = EACH(ring.one[j]);
        gather_at(width, table + width, a, 0, i, count);
        for (int e = 2; e < ROWS; e++) {
            if (e & 1) ops->multiply(table + width * e, table + width * (e - 1), table + width, &ring);
            else ops->square(table + width * e, table + width * (e / 2), &ring);
        }
        for (int64_t window = 2 * exponent_bytes - 1; window >= 0; window--) {
            uint64_t wanted = (exponent[window >> 1] >> (4 * (window & 1))) & (ROWS - 1);
            V chosen[ROWS];
            for (int e = 0; e < ROWS; e++) {
                uint64_t differs = wanted ^ (uint64_t)e;
                chosen[e] = EACH(((differs | (0 - differs)) >> 63) - 1); /* all ones if equal, zero if not */
            }
            for (int j = 0; j < width; j++) {
                V word = ZERO;
                UNROLL for (int e = 0; e < ROWS; e++)
                    word = _mm512_or_si512(word, _mm512_and_si512(table[width * e + j], chosen[e]));
                factor[j] = word;
            }
            if (window == 2 * exponent_bytes - 1) { memcpy(buffer[0], factor, sizeof(V) * width); continue; }
            for (int s = 0; s < WINDOW; s++, now ^= 1) ops->square(buffer[now ^ 1], buffer[now], &ring);
            ops->multiply(buffer[now ^ 1], buffer[now], factor, &ring);
            now ^= 1;
        }
        scatter(width, buffer[now], out + (size_t)i * width, count);
    }
    memset(table, 0, sizeof(V) * (size_t)width * ROWS);
    __asm__ volatile("" : : "r"(table) : "memory");
    free(table);
    return 0;
}

/* ---- the border: bytes <-> rows --------------------------------------------------------------------------------- */

/* x - m where x >= m (per lane), x elsewhere; returns the lanes that were reduced. */
static __mmask8 subtract_if_not_below(int K, V *x, const uint64_t *m)
{
    V reduced[MAX_K], borrow = ZERO;
    for (int j = 0; j < K; j++) {
        V t = ADD(SUB(x[j], EACH(m[j])), borrow);
        reduced[j] = _mm512_and_si512(t, EACH(DIGIT_MASK));
        borrow = _mm512_srai_epi64(t, 63);
    }
    __mmask8 ok = _mm512_cmpeq_epi64_mask(borrow, ZERO);
    for (int j = 0; j < K; j++) x[j] = _mm512_mask_mov_epi64(x[j], ok, reduced[j]);
    return ok;
}

/* Leave Montgomery form, and reduce both halves to [0, n). */
static void canonical(const ring_t *ring, const size_t_ops *ops, V *out, const V *in)
{
    const int K = ring->K;
    V one[2 * MAX_K];
    for (int j = 0; j < 2 * K; j++) one[j] = ZERO;
    one[0] = EACH(1);
    ops->multiply(out, in, one, ring);
    __mmask8 carried = subtract_if_not_below(K, out, ring->n); /* x0 - n means x1 + 1 */
    V *high = out + K, bumped[MAX_K];
    for (int j = 0; j < K; j++) bumped[j] = high[j];
    bumped[0] = _mm512_mask_add_epi64(bumped[0], carried, bumped[0], EACH(1));
    propagate_carries(K, high, bumped);
    subtract_if_not_below(K, high, ring->n);
    subtract_if_not_below(K, high, ring->n);
}

/* out = sum over chunks of (chunk as an integer) * factors[chunk]: reduces a long number modulo n^2, or joins residues by
 * the Chinese remainder theorem.  Each chunk must be below 2 n.  At most 8 chunks, so halves stay below 16 n. */
void batch_load(const uint64_t *words, uint64_t *out, const uint8_t *raw, int64_t chunk_bytes, const uint64_t *factors,
                int64_t chunks, int64_t start, int64_t stop)
{
    const ring_t ring = open_ring(words);
    const size_t_ops *ops = size_ops(ring.K);
    const int K = ring.K, width = 2 * K;
    V x[2 * MAX_K], y[2 * MAX_K], r[2 * MAX_K], sum[2 * MAX_K];
    for (int64_t i = start; i < stop; i += LANES) {
        int count = lanes_here(i, stop);
        for (int j = 0; j < width; j++) sum[j] = ZERO;
        for (int64_t c = 0; c < chunks; c++) {
            for (int l = 0; l < LANES; l++)
                digits_from_bytes(K, (uint64_t *)x, l,
                                  raw + (size_t)((i + (l < count ? l : 0)) * chunks + c) * chunk_bytes, chunk_bytes);
            for (int j = 0; j < K; j++) x[K + j] = ZERO;
            for (int j = 0; j < width; j++) y[j] = EACH(factors[(size_t)c * width + j]);
            ops->multiply(r, x, y, &ring);
            for (int j = 0; j < width; j++) sum[j] = ADD(sum[j], r[j]);
        }
        propagate_carries(K, r, sum);
        propagate_carries(K, r + K, sum + K);
        scatter(width, r, out + (size_t)i * width, count);
    }
}

/* raw = x0 + x1 n as one little-endian integer of `width` bytes, in [0, n^2). */
void batch_dump(const uint64_t *words, uint8_t *raw, int64_t bytes, const uint64_t *a, int64_t start, int64_t stop)
{
    const ring_t ring = open_ring(words);
    const size_t_ops *ops = size_ops(ring.K);
    const int K = ring.K, width = 2 * K;
    V x[2 * MAX_K], y[2 * MAX_K], product[2 * MAX_K];
    for (int64_t i = start; i < stop; i += LANES) {
        int count = lanes_here(i, stop);
        gather_at(width, x, a, 0, i, count);
        canonical(&ring, ops, y, x);
        for (int j = 0; j < K; j++) { product[j] = y[j]; product[K + j] = ZERO; }
        for (int s = 0; s < K; s++) {
            V digit = EACH(ring.n[s]);
            for (int j = 0; j < K; j++) {
                product[s + j] = LO(product[s + j], y[K + j], digit);
                product[s + j + 1] = HI(product[s + j + 1], y[K + j], digit);
            }
        }
        propagate_carries(width, x, product);
        for (int l = 0; l < count; l++)
            bytes_from_digits(width, raw + (size_t)(i + l) * bytes, bytes, (const uint64_t *)x, l);
    }
}

/* The canonical halves x0 and x1, each as a little-endian integer of `width` bytes. */
void batch_split(const uint64_t *words, uint8_t *low, uint8_t *high, int64_t bytes, const uint64_t *a, int64_t start,
                 int64_t stop)
{
    const ring_t ring = open_ring(words);
    const size_t_ops *ops = size_ops(ring.K);
    const int K = ring.K, width = 2 * K;
    V x[2 * MAX_K], y[2 * MAX_K];
    for (int64_t i = start; i < stop; i += LANES) {
        int count = lanes_here(i, stop);
        gather_at(width, x, a, 0, i, count);
        canonical(&ring, ops, y, x);
        for (int l = 0; l < count; l++) {
            bytes_from_digits(K, low + (size_t)(i + l) * bytes, bytes, (const uint64_t *)y, l);
            bytes_from_digits(K, high + (size_t)(i + l) * bytes, bytes, (const uint64_t *)(y + K), l);
        }
    }
}

/* a (1 + m n) = a0 + (a1 + m a0) n: two products modulo n instead of one modulo n^2. */
void batch_add_plain(const uint64_t *words, uint64_t *out, const uint64_t *a, const uint8_t *plain, int64_t bytes,
                     int64_t start, int64_t stop)
{
    const ring_t ring = open_ring(words);
    const size_t_ops *ops = size_ops(ring.K);
    const int K = ring.K, width = 2 * K;
    V x[2 * MAX_K], m[MAX_K], r2[MAX_K], t[MAX_K], u[MAX_K];
    uint64_t twice_n[MAX_K], carry = 0;
    for (int j = 0; j < K; j++) {
        r2[j] = EACH(ring.r2[j]);
        uint64_t doubled = 2 * ring.n[j] + carry;
        twice_n[j] = doubled & DIGIT_MASK;
        carry = doubled >> DIGIT_BITS;
    }
    for (int64_t i = start; i < stop; i += LANES) {
        int count = lanes_here(i, stop);
        gather_at(width, x, a, 0, i, count);
        for (int l = 0; l < LANES; l++)
            digits_from_bytes(K, (uint64_t *)m, l, plain + (size_t)(i + (l < count ? l : 0)) * bytes, bytes);
        ops->half(t, m, r2, &ring);
        ops->half(u, t, x, &ring);
        for (int j = 0; j < K; j++) u[j] = ADD(u[j], x[K + j]);
        propagate_carries(K, x + K, u);
        subtract_if_not_below(K, x + K, twice_n); /* keeps the bound of kernel.h however often it is called */
        scatter(width, x, out + (size_t)i * width, count);
    }
}

/* The reciprocal throughput of the instruction that everything above is made of. */
double kernel_nanoseconds_per_ifma(void)
{
    enum { CHAINS = 12, ROUNDS = 200000 };
    const V x = EACH(123456789), y = EACH(987654321);
    V a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x;
    double best = 1e9;
    for (int trial = 0; trial < 9; trial++) {
        struct timespec from, to;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        for (int round = 0; round < ROUNDS; round++) {
            a = LO(a, x, y); b = LO(b, x, y); c = LO(c, x, y); d = LO(d, x, y); e = LO(e, x, y); f = LO(f, x, y);
            g = LO(g, x, y); h = LO(h, x, y); i = LO(i, x, y); j = LO(j, x, y); k = LO(k, x, y); l = LO(l, x, y);
            __asm__ volatile("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f));
            __asm__ volatile("" : "+v"(g), "+v"(h), "+v"(i), "+v"(j), "+v"(k), "+v"(l));
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        double took = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
        if (took < best) best = took;
    }
    return best / ((double)CHAINS * ROUNDS);
}

#if defined(__clang__)
#pragma clang attribute pop
#endif

#else /* another architecture: the module still imports, and says that it cannot help */

int kernel_supported(void) { return 0; }
int kernel_has_size(int64_t digits) { (void)digits; return 0; }
double kernel_nanoseconds_per_ifma(void) { return 0; }
void batch_multiply(const uint64_t *r, uint64_t *o, const uint64_t *a, const int64_t *ia, const uint64_t *b,
                    const int64_t *ib, int64_t s, int64_t e)
{ (void)r; (void)o; (void)a; (void)ia; (void)b; (void)ib; (void)s; (void)e; }
int batch_chain(const uint64_t *r, uint64_t *o, const uint64_t *t, const int64_t *i, int64_t l, const int64_t *q,
                int64_t n, int64_t s, int64_t e)
{ (void)r; (void)o; (void)t; (void)i; (void)l; (void)q; (void)n; (void)s; (void)e; return -1; }
void batch_segment_products(const uint64_t *r, uint64_t *o, const uint64_t *t, const int64_t *f, const int64_t *m,
                            int64_t s, int64_t e)
{ (void)r; (void)o; (void)t; (void)f; (void)m; (void)s; (void)e; }
int batch_power_scanned(const uint64_t *r, uint64_t *o, const uint64_t *a, const uint8_t *x, int64_t b, int64_t s,
                        int64_t e)
{ (void)r; (void)o; (void)a; (void)x; (void)b; (void)s; (void)e; return -1; }
void batch_load(const uint64_t *r, uint64_t *o, const uint8_t *w, int64_t c, const uint64_t *f, int64_t n, int64_t s,
                int64_t e)
{ (void)r; (void)o; (void)w; (void)c; (void)f; (void)n; (void)s; (void)e; }
void batch_dump(const uint64_t *r, uint8_t *w, int64_t b, const uint64_t *a, int64_t s, int64_t e)
{ (void)r; (void)w; (void)b; (void)a; (void)s; (void)e; }
void batch_split(const uint64_t *r, uint8_t *l, uint8_t *h, int64_t b, const uint64_t *a, int64_t s, int64_t e)
{ (void)r; (void)l; (void)h; (void)b; (void)a; (void)s; (void)e; }
void batch_add_plain(const uint64_t *r, uint64_t *o, const uint64_t *a, const uint8_t *p, int64_t b, int64_t s,
                     int64_t e)
{ (void)r; (void)o; (void)a; (void)p; (void)b; (void)s; (void)e; }

#endif
