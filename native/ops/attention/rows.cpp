#include "rows.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <immintrin.h>

#include <cmath>

namespace softnpu::ops::attention {

namespace {

template <typename T>
void load(const uint16_t* from, float* to, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    to[i] = T(from[i], T::from_bits());
  }
}

template <typename T>
void store(const float* from, float factor, uint16_t* to, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    to[i] = T(from[i] * factor).x;
  }
}

float dot(const float* a, const float* b, int64_t size) {
  float sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

void add_scaled(float factor, const float* x, float* y, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    y[i] += factor * x[i];
  }
}

float exponentials(float* x, float largest, int64_t size) {
  float sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    x[i] = std::exp(x[i] - largest);
    sum += x[i];
  }
  return sum;
}

// The library is built for any x86-64, so what needs AVX2 is compiled apart and chosen when it
// runs.
#define SOFTNPU_AVX2 __attribute__((target("avx2,fma,f16c")))

SOFTNPU_AVX2 void load_half_avx2(const uint16_t* from, float* to, int64_t size) {
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(bits));
  }
  load<c10::Half>(from + i, to + i, size - i);
}

SOFTNPU_AVX2 void load_bfloat16_avx2(const uint16_t* from, float* to, int64_t size) {
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
    _mm256_storeu_ps(to + i, _mm256_castsi256_ps(wide));
  }
  load<c10::BFloat16>(from + i, to + i, size - i);
}

SOFTNPU_AVX2 float sum_of(__m256 eight) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

SOFTNPU_AVX2 float dot_avx2(const float* a, const float* b, int64_t size) {
  __m256 even = _mm256_setzero_ps();
  __m256 odd = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
    even = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), even);
    odd = _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 8), _mm256_loadu_ps(b + i + 8), odd);
  }
  return sum_of(_mm256_add_ps(even, odd)) + dot(a + i, b + i, size - i);
}

SOFTNPU_AVX2 void add_scaled_avx2(float factor, const float* x, float* y, int64_t size) {
  const __m256 wide = _mm256_set1_ps(factor);
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    _mm256_storeu_ps(y + i, _mm256_fmadd_ps(wide, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
  }
  add_scaled(factor, x + i, y + i, size - i);
}

SOFTNPU_AVX2 void store_half_avx2(const float* from, float factor, uint16_t* to, int64_t size) {
  const __m256 wide = _mm256_set1_ps(factor);
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const __m256 value = _mm256_mul_ps(_mm256_loadu_ps(from + i), wide);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
  store<c10::Half>(from + i, factor, to + i, size - i);
}

// exp(x) = 2^n * exp(r) with |r| <= ln(2) / 2; the series of exp(r) to its seventh term is exact to
// fp32 there. Results below the smallest normal number are zero.
SOFTNPU_AVX2 __m256 exp_avx2(__m256 x) {
  const __m256 positive = _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_NLE_UQ);  // or NaN
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  // ln(2) in two parts, so that the difference keeps its low bits.
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
  __m256 series = _mm256_set1_ps(1.0f / 5040);
  for (const float term : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) {
    series = _mm256_fmadd_ps(series, r, _mm256_set1_ps(term));
  }
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  const __m256 power = _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  return _mm256_and_ps(positive, _mm256_mul_ps(series, power));
}

SOFTNPU_AVX2 float exponentials_avx2(float* x, float largest, int64_t size) {
  const __m256 shift = _mm256_set1_ps(largest);
  __m256 sum = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const __m256 y = exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(x + i), shift));
    _mm256_storeu_ps(x + i, y);
    sum = _mm256_add_ps(sum, y);
  }
  return sum_of(sum) + exponentials(x + i, largest, size - i);
}

bool has_avx2() {
  static const bool known = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                            __builtin_cpu_supports("f16c");
  return known;
}

}  // namespace

const RowFunctions& row_functions(c10::ScalarType dtype) {
  static const RowFunctions half =
      has_avx2() ? RowFunctions{load_half_avx2, store_half_avx2, dot_avx2, add_scaled_avx2,
                                exponentials_avx2}
                 : RowFunctions{load<c10::Half>, store<c10::Half>, dot, add_scaled, exponentials};
  static const RowFunctions bfloat16 =
      has_avx2()
          ? RowFunctions{load_bfloat16_avx2, store<c10::BFloat16>, dot_avx2, add_scaled_avx2,
                         exponentials_avx2}
          : RowFunctions{load<c10::BFloat16>, store<c10::BFloat16>, dot, add_scaled, exponentials};
  return dtype == c10::ScalarType::Half ? half : bfloat16;
}

}  // namespace softnpu::ops::attention
