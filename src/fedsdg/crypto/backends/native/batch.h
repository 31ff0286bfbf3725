/* Batched operations on rows of 2K digits; see batch.c.  Plain C types only, so module.c needs no AVX-512. */
#ifndef FEDSDG_BATCH_H
#define FEDSDG_BATCH_H

#include <stdint.h>

/* The layout of a ring in one array of 64-bit words: K, k0, n[K], cc[K], r2[K], one[2K]. */
#define RING_WORDS(K) (2 + 5 * (K))

int kernel_supported(void);          /* 1 when this CPU (and operating system) can run the kernel */
int kernel_has_size(int64_t digits); /* 1 when a kernel for K = digits was compiled in */
double kernel_nanoseconds_per_ifma(void);

/* Every function works on lanes [start, stop), so that several threads can share one call.  `ia`, `ib` may be NULL.
 * Those that return an int return 0, or -1 when memory ran out. */
void batch_multiply(const uint64_t *ring, uint64_t *out, const uint64_t *a, const int64_t *ia, const uint64_t *b,
                    const int64_t *ib, int64_t start, int64_t stop);
int batch_chain(const uint64_t *ring, uint64_t *out, const uint64_t *table, const int64_t *indices, int64_t lanes,
                const int64_t *squarings, int64_t steps, int64_t start, int64_t stop);
void batch_segment_products(const uint64_t *ring, uint64_t *out, const uint64_t *table, const int64_t *offsets,
                            const int64_t *members, int64_t start, int64_t stop);
int batch_power_scanned(const uint64_t *ring, uint64_t *out, const uint64_t *a, const uint8_t *exponent,
                        int64_t exponent_bytes, int64_t start, int64_t stop);
void batch_load(const uint64_t *ring, uint64_t *out, const uint8_t *raw, int64_t chunk_bytes, const uint64_t *factors,
                int64_t chunks, int64_t start, int64_t stop);
void batch_dump(const uint64_t *ring, uint8_t *raw, int64_t width, const uint64_t *a, int64_t start, int64_t stop);
void batch_split(const uint64_t *ring, uint8_t *low, uint8_t *high, int64_t width, const uint64_t *a, int64_t start,
                 int64_t stop);
void batch_add_plain(const uint64_t *ring, uint64_t *out, const uint64_t *a, const uint8_t *plain, int64_t width,
                     int64_t start, int64_t stop);

#endif
