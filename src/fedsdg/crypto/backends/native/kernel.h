/* Montgomery arithmetic modulo n^2, eight numbers at a time, with AVX-512 IFMA.
 *
 * A residue x modulo n^2 is held as two residues modulo n, its digits in base n:   x = x0 + x1 n.
 * Each half is K digits of 52 bits, one 64-bit word per digit; a vector V holds the same digit of eight numbers.
 * With R = 2^(52 K), Montgomery's product needs only
 *
 *     a0 b0 + p n = t R                               (p: the Montgomery quotient, K digits)
 *     (a0 + a1 n)(b0 + b1 n) / R  =  t + n [ (a0 b1 + a1 b0 - p + q n) / R ]        modulo n^2
 *
 * that is 5 K^2 digit products instead of the 8 K^2 of a 2K-digit Montgomery product; a square needs 3.5 K^2.
 *
 * Ranges.  The caller guarantees 2^12 n <= R.  If every half is below 32 n on entry, both halves of a result are below
 * 2 n: (32 n)^2 / R <= n / 4, and the quotient terms add at most n + 1.  So nothing is ever subtracted here; `canonical`
 * in batch.c does that once, at the border.  No accumulator word overflows: it collects at most 6 K + 2 <= 362 terms
 * below 2^52, less than 2^61.
 *
 * Nothing here branches or addresses memory by the value of a number.
 */
#ifndef FEDSDG_KERNEL_H
#define FEDSDG_KERNEL_H

#include <immintrin.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 80")
#define NO_UNROLL _Pragma("GCC unroll 1")

typedef __m512i V;

#define DIGIT_BITS 52
#define DIGIT_MASK ((1ULL << DIGIT_BITS) - 1)

typedef struct {
    int K;              /* digits of n */
    uint64_t k0;        /* -1/n modulo 2^52 */
    const uint64_t *n;  /* K digits */
    const uint64_t *cc; /* (1 - R) modulo n, K digits: offsets the digits of -p to keep them positive */
    const uint64_t *r2; /* R^2 modulo n, K digits: brings a plaintext into Montgomery form */
    const uint64_t *one;/* the number 1 in Montgomery form, 2K digits */
} ring_t;

#define ZERO _mm512_setzero_si512()
#define EACH(x) _mm512_set1_epi64((long long)(x))
#define ADD _mm512_add_epi64
#define SUB _mm512_sub_epi64
#define LO _mm512_madd52lo_epu64 /* c + low  52 bits of a*b */
#define HI _mm512_madd52hi_epu64 /* c + high 52 bits of a*b */

/* The carry out of a column whose low 52 bits Montgomery's quotient is about to cancel: they cancel to 0 (no carry)
 * if they are 0, to 2^52 otherwise. */
INLINE V cancelled_carry(V column) { return _mm512_srli_epi64(ADD(column, EACH(DIGIT_MASK)), DIGIT_BITS); }

INLINE void propagate_carries(const int K, V *out, const V *columns)
{
    V carry = ZERO;
    UNROLL for (int j = 0; j < K; j++) {
        V t = ADD(columns[j], carry);
        out[j] = _mm512_and_si512(t, EACH(DIGIT_MASK));
        carry = _mm512_srli_epi64(t, DIGIT_BITS);
    }
}

/* r = a b / R modulo n, one half only.  B rows of the multiplier per sweep keep the accumulator in registers. */
INLINE void montgomery_half(const int K, const int B, V *r, const V *a, const V *b, const ring_t *ring)
{
    V acc[K];
    const uint64_t *n = ring->n;
    const V k0 = EACH(ring->k0);
    UNROLL for (int j = 0; j < K; j++) acc[j] = ZERO;
    NO_UNROLL for (int i = 0; i < K; i += B) {
        V x[B], p[B], c = ZERO;
        UNROLL for (int s = 0; s < B; s++) x[s] = b[i + s];
        UNROLL for (int d = 0; d < B; d++) {
            V u = ADD(acc[d], c), v = ZERO;
            UNROLL for (int s = 0; s <= d; s++) {
                u = LO(u, a[d - s], x[s]);
                if (d - 1 - s >= 0) v = HI(v, a[d - 1 - s], x[s]);
            }
            UNROLL for (int s = 0; s < d; s++) {
                u = LO(u, EACH(n[d - s]), p[s]);
                v = HI(v, EACH(n[d - 1 - s]), p[s]);
            }
            u = ADD(u, v);
            p[d] = LO(ZERO, u, k0);
            c = cancelled_carry(u);
        }
        UNROLL for (int j = B; j < K + B; j++) {
            V u = j < K ? acc[j] : ZERO, v = ZERO;
            UNROLL for (int s = 0; s < B; s++) {
                if (j - s < K) { u = LO(u, a[j - s], x[s]); v = LO(v, EACH(n[j - s]), p[s]); }
                if (j - 1 - s < K) { u = HI(u, a[j - 1 - s], x[s]); v = HI(v, EACH(n[j - 1 - s]), p[s]); }
            }
            u = ADD(u, v);
            acc[j - B] = j == B ? ADD(u, c) : u;
        }
    }
    propagate_carries(K, r, acc);
}

/* r = a b / R modulo n^2.  Both halves advance together: while the quotient digits of one wait for their carries, the
 * other keeps the multiplier busy.  r must not overlap a or b. */
INLINE void multiply(const int K, const int B, V *restrict r, const V *a, const V *b, const ring_t *ring)
{
    V acc0[K], acc1[K];
    const V *a0 = a, *a1 = a + K, *b0 = b, *b1 = b + K;
    const uint64_t *n = ring->n;
    const V k0 = EACH(ring->k0);
    UNROLL for (int j = 0; j < K; j++) {
        acc0[j] = ZERO;
        acc1[j] = EACH(ring->cc[j] + DIGIT_MASK);
    }
    NO_UNROLL for (int i = 0; i < K; i += B) {
        V x[B], y[B], p[B], q[B], c = ZERO, e = ZERO;
        UNROLL for (int s = 0; s < B; s++) { x[s] = b0[i + s]; y[s] = b1[i + s]; }
        /* the B lowest columns decide the quotient digits p (for x0) and q (for x1) */
        UNROLL for (int d = 0; d < B; d++) {
            V u = ADD(acc0[d], c), v = ZERO, w = ADD(acc1[d], e), z = ZERO;
            UNROLL for (int s = 0; s <= d; s++) {
                u = LO(u, a0[d - s], x[s]);
                w = LO(w, a0[d - s], y[s]);
                z = LO(z, a1[d - s], x[s]);
                if (d - 1 - s >= 0) {
                    v = HI(v, a0[d - 1 - s], x[s]);
                    w = HI(w, a0[d - 1 - s], y[s]);
                    z = HI(z, a1[d - 1 - s], x[s]);
                }
            }
            UNROLL for (int s = 0; s < d; s++) {
                V low = EACH(n[d - s]), high = EACH(n[d - 1 - s]);
                u = LO(u, low, p[s]);
                v = HI(v, high, p[s]);
                w = LO(w, low, q[s]);
                z = HI(z, high, q[s]);
            }
            u = ADD(u, v);
            p[d] = LO(ZERO, u, k0);
            c = cancelled_carry(u);
            w = SUB(ADD(w, z), p[d]); /* the -p of the formula, one digit per row */
            q[d] = LO(ZERO, w, k0);
            e = cancelled_carry(w);
        }
        UNROLL for (int j = B; j < K + B; j++) {
            V u = j < K ? acc0[j] : ZERO, v = ZERO, w = j < K ? acc1[j] : ZERO, z = ZERO;
            UNROLL for (int s = 0; s < B; s++) {
                if (j - s < K) {
                    V low = EACH(n[j - s]);
                    u = LO(u, a0[j - s], x[s]);
                    v = LO(v, low, p[s]);
                    w = LO(w, a0[j - s], y[s]);
                    z = LO(z, a1[j - s], x[s]);
                    w = LO(w, low, q[s]);
                }
                if (j - 1 - s < K) {
                    V high = EACH(n[j - 1 - s]);
                    u = HI(u, a0[j - 1 - s], x[s]);
                    v = HI(v, high, p[s]);
                    w = HI(w, a0[j - 1 - s], y[s]);
                    z = HI(z, a1[j - 1 - s], x[s]);
                    z = HI(z, high, q[s]);
                }
            }
            u = ADD(u, v);
            w = ADD(w, z);
            acc0[j - B] = j == B ? ADD(u, c) : u;
            acc1[j - B] = j == B ? ADD(w, e) : w;
        }
    }
    propagate_carries(K, r, acc0);
    propagate_carries(K, r + K, acc1);
}

/* r = a^2 / R modulo n^2: the cross products of a0^2 once and doubled, and 2 a0 a1 as one product. */
INLINE void square(const int K, const int B, V *restrict r, const V *a, const ring_t *ring)
{
    V a0_squared[2 * K], acc1[K], twice_a0[K];
    const V *a0 = a, *a1 = a + K;
    const uint64_t *n = ring->n;
    const V k0 = EACH(ring->k0);
    V from_below = ZERO;
    UNROLL for (int c = 0; c < 2 * K; c++) {
        V u = from_below, v = ZERO;
        UNROLL for (int i = c < K ? 0 : c - K + 1; 2 * i < c; i++) {
            u = LO(u, a0[i], a0[c - i]);
            v = HI(v, a0[i], a0[c - i]);
        }
        u = ADD(u, u);
        a0_squared[c] = c & 1 ? HI(u, a0[c / 2], a0[c / 2]) : LO(u, a0[c / 2], a0[c / 2]);
        from_below = v;
    }
    V below = ZERO;
    UNROLL for (int j = 0; j < K; j++) {
        V doubled = _mm512_and_si512(_mm512_slli_epi64(a0[j], 1), EACH(DIGIT_MASK));
        twice_a0[j] = _mm512_or_si512(doubled, _mm512_srli_epi64(below, DIGIT_BITS - 1));
        below = a0[j];
        acc1[j] = EACH(ring->cc[j] + DIGIT_MASK);
    }
    NO_UNROLL for (int i = 0; i < K; i += B) {
        V *acc0 = a0_squared + i;
        V x[B], p[B], q[B], c = ZERO, e = ZERO;
        UNROLL for (int s = 0; s < B; s++) x[s] = a1[i + s];
        UNROLL for (int d = 0; d < B; d++) {
            V u = ADD(acc0[d], c), v = ZERO, w = ADD(acc1[d], e), z = ZERO;
            UNROLL for (int s = 0; s <= d; s++) {
                w = LO(w, twice_a0[d - s], x[s]);
                if (d - 1 - s >= 0) w = HI(w, twice_a0[d - 1 - s], x[s]);
            }
            UNROLL for (int s = 0; s < d; s++) {
                V low = EACH(n[d - s]), high = EACH(n[d - 1 - s]);
                u = LO(u, low, p[s]);
                v = HI(v, high, p[s]);
                z = LO(z, low, q[s]);
                z = HI(z, high, q[s]);
            }
            u = ADD(u, v);
            p[d] = LO(ZERO, u, k0);
            c = cancelled_carry(u);
            w = SUB(ADD(w, z), p[d]);
            q[d] = LO(ZERO, w, k0);
            e = cancelled_carry(w);
        }
        UNROLL for (int j = B; j < K + B; j++) {
            V u = acc0[j], v = ZERO, w = j < K ? acc1[j] : ZERO, z = ZERO;
            UNROLL for (int s = 0; s < B; s++) {
                if (j - s < K) {
                    V low = EACH(n[j - s]);
                    u = LO(u, low, p[s]);
                    w = LO(w, twice_a0[j - s], x[s]);
                    z = LO(z, low, q[s]);
                }
                if (j - 1 - s < K) {
                    V high = EACH(n[j - 1 - s]);
                    v = HI(v, high, p[s]);
                    w = HI(w, twice_a0[j - 1 - s], x[s]);
                    z = HI(z, high, q[s]);
                }
            }
            u = ADD(u, v);
            w = ADD(w, z);
            acc0[j] = j == B ? ADD(u, c) : u;
            acc1[j - B] = j == B ? ADD(w, e) : w;
        }
    }
    propagate_carries(K, r, a0_squared + K);
    propagate_carries(K, r + K, acc1);
}

#endif
