/* Eight rows of digits <-> vectors that hold one digit of each, and digits <-> little-endian bytes.
 *
 * Included by batch.c only, after kernel.h and under its target options.
 */
#ifndef FEDSDG_LANES_H
#define FEDSDG_LANES_H

#include <stdint.h>
#include <string.h>

#define LANES 8
#define MAX_K 60

/* ---- eight rows <-> vectors ------------------------------------------------------------------------------------- */

INLINE void transpose(V *out, const V *in)
{
    V t0 = _mm512_unpacklo_epi64(in[0], in[1]), t1 = _mm512_unpackhi_epi64(in[0], in[1]);
    V t2 = _mm512_unpacklo_epi64(in[2], in[3]), t3 = _mm512_unpackhi_epi64(in[2], in[3]);
    V t4 = _mm512_unpacklo_epi64(in[4], in[5]), t5 = _mm512_unpackhi_epi64(in[4], in[5]);
    V t6 = _mm512_unpacklo_epi64(in[6], in[7]), t7 = _mm512_unpackhi_epi64(in[6], in[7]);
    V a0 = _mm512_shuffle_i64x2(t0, t2, 0x88), a1 = _mm512_shuffle_i64x2(t0, t2, 0xdd);
    V a2 = _mm512_shuffle_i64x2(t4, t6, 0x88), a3 = _mm512_shuffle_i64x2(t4, t6, 0xdd);
    V b0 = _mm512_shuffle_i64x2(t1, t3, 0x88), b1 = _mm512_shuffle_i64x2(t1, t3, 0xdd);
    V b2 = _mm512_shuffle_i64x2(t5, t7, 0x88), b3 = _mm512_shuffle_i64x2(t5, t7, 0xdd);
    out[0] = _mm512_shuffle_i64x2(a0, a2, 0x88);
    out[4] = _mm512_shuffle_i64x2(a0, a2, 0xdd);
    out[2] = _mm512_shuffle_i64x2(a1, a3, 0x88);
    out[6] = _mm512_shuffle_i64x2(a1, a3, 0xdd);
    out[1] = _mm512_shuffle_i64x2(b0, b2, 0x88);
    out[5] = _mm512_shuffle_i64x2(b0, b2, 0xdd);
    out[3] = _mm512_shuffle_i64x2(b1, b3, 0x88);
    out[7] = _mm512_shuffle_i64x2(b1, b3, 0xdd);
}

INLINE __mmask8 columns_left(int width, int j) { return (__mmask8)(width - j >= 8 ? 0xff : (1 << (width - j)) - 1); }

/* Lanes past `count` repeat lane 0: their results are thrown away. */
static void gather(int width, V *out, const uint64_t *const rows[LANES])
{
    for (int j = 0; j < width; j += 8) {
        V in[8], turned[8];
        __mmask8 mask = columns_left(width, j);
        for (int l = 0; l < 8; l++) in[l] = _mm512_maskz_loadu_epi64(mask, rows[l] + j);
        transpose(turned, in);
        for (int l = 0; l < 8 && j + l < width; l++) out[j + l] = turned[l];
    }
}

static void scatter(int width, const V *in, uint64_t *out, int count)
{
    for (int j = 0; j < width; j += 8) {
        V block[8], turned[8];
        __mmask8 mask = columns_left(width, j);
        for (int l = 0; l < 8; l++) block[l] = j + l < width ? in[j + l] : ZERO;
        transpose(turned, block);
        for (int l = 0; l < count; l++) _mm512_mask_storeu_epi64(out + (size_t)l * width + j, mask, turned[l]);
    }
}

INLINE int lanes_here(int64_t i, int64_t stop) { return stop - i < LANES ? (int)(stop - i) : LANES; }

static void gather_at(int width, V *out, const uint64_t *table, const int64_t *indices, int64_t first, int count)
{
    const uint64_t *rows[LANES];
    for (int l = 0; l < LANES; l++) {
        int64_t at = first + (l < count ? l : 0);
        rows[l] = table + (size_t)(indices ? indices[at] : at) * width;
    }
    gather(width, out, rows);
}

static void prefetch_at(int width, const uint64_t *table, const int64_t *indices, int count)
{
    for (int l = 0; l < count; l++) {
        const char *row = (const char *)(table + (size_t)indices[l] * width);
        for (int o = 0; o < width * 8; o += 64) _mm_prefetch(row + o, _MM_HINT_T0);
    }
}

/* Little-endian bytes -> K digits in lane `lane` of eight interleaved lanes. */
static void digits_from_bytes(int K, uint64_t *lanes, int lane, const uint8_t *raw, int64_t width)
{
    uint8_t padded[(MAX_K * DIGIT_BITS) / 8 + 16];
    memset(padded, 0, sizeof padded);
    memcpy(padded, raw, (size_t)width);
    for (int j = 0; j < K; j++) {
        int bit = DIGIT_BITS * j;
        uint64_t word;
        memcpy(&word, padded + bit / 8, 8);
        lanes[j * LANES + lane] = (word >> (bit % 8)) & DIGIT_MASK;
    }
}

static void bytes_from_digits(int digits, uint8_t *raw, int64_t width, const uint64_t *lanes, int lane)
{
    unsigned __int128 pending = 0;
    int bits = 0;
    int64_t at = 0;
    for (int j = 0; j < digits; j++) {
        pending |= (unsigned __int128)lanes[j * LANES + lane] << bits;
        for (bits += DIGIT_BITS; bits >= 8 && at < width; bits -= 8, pending >>= 8) raw[at++] = (uint8_t)pending;
        if (at == width) return;
    }
    for (; at < width; pending >>= 8) raw[at++] = (uint8_t)pending;
}

#endif
