// Vector instructions over contiguous runs of a tile. Narrow float types are widened to float in
// chunks that stay in the first-level cache; every instruction rounds once, to its result's type.
#pragma once

#include "task.h"

namespace sn {

inline constexpr int64_t kChunk = 256;

// Bulk conversions use the CPU's instructions where it has them; the results are the same.
#if defined(__AVX512F__)
typedef float Float16Lanes __attribute__((vector_size(64), aligned(4)));
typedef short Half16Lanes __attribute__((vector_size(32), aligned(2)));
typedef short Half16Value __attribute__((vector_size(32)));
typedef float Float16Value __attribute__((vector_size(64)));

inline int64_t widen_fast(float* to, const half* from, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const Half16Value h = *reinterpret_cast<const Half16Lanes*>(from + i);
    *reinterpret_cast<Float16Lanes*>(to + i) =
        __builtin_ia32_vcvtph2ps512_mask(h, Float16Value{}, static_cast<unsigned short>(-1), 4);
  }
  return i;
}
inline int64_t narrow_fast(half* to, const float* from, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const Float16Value f = *reinterpret_cast<const Float16Lanes*>(from + i);
    *reinterpret_cast<Half16Lanes*>(to + i) =
        __builtin_ia32_vcvtps2ph512_mask(f, 0, Half16Value{}, static_cast<unsigned short>(-1));
  }
  return i;
}
#elif defined(__F16C__)
typedef float Float8Lanes __attribute__((vector_size(32), aligned(4)));
typedef short Half8Lanes __attribute__((vector_size(16), aligned(2)));
typedef short Half8Value __attribute__((vector_size(16)));
typedef float Float8Value __attribute__((vector_size(32)));

inline int64_t widen_fast(float* to, const half* from, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const Half8Value h = *reinterpret_cast<const Half8Lanes*>(from + i);
    *reinterpret_cast<Float8Lanes*>(to + i) = __builtin_ia32_vcvtph2ps256(h);
  }
  return i;
}
inline int64_t narrow_fast(half* to, const float* from, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const Float8Value f = *reinterpret_cast<const Float8Lanes*>(from + i);
    *reinterpret_cast<Half8Lanes*>(to + i) = __builtin_ia32_vcvtps2ph256(f, 0);
  }
  return i;
}
#else
inline int64_t widen_fast(float*, const half*, int64_t) { return 0; }
inline int64_t narrow_fast(half*, const float*, int64_t) { return 0; }
#endif

// Not inlined: every instruction of a kernel would carry a copy, which takes long to compile.
template <class T>
__attribute__((noinline)) void widen(float* to, const T* from, int64_t n) {
  int64_t i = 0;
  if constexpr (__is_same(T, half)) i = widen_fast(to, from, n);
  SN_IVDEP for (; i < n; ++i) to[i] = load(from[i]);
}
template <class T>
__attribute__((noinline)) void narrow(T* to, const float* from, int64_t n) {
  int64_t i = 0;
  if constexpr (__is_same(T, half)) i = narrow_fast(to, from, n);
  SN_IVDEP for (; i < n; ++i) to[i] = store<T>(from[i]);
}

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T, class F>
inline void map1(T* d, const T* a, int64_t n, F f) {
  if constexpr (kNarrow<T>) {
    float x[kChunk];
    for (int64_t i = 0; i < n; i += kChunk) {
      const int64_t m = least(kChunk, n - i);
      widen(x, a + i, m);
      SN_IVDEP for (int64_t k = 0; k < m; ++k) x[k] = f(x[k]);
      narrow(d + i, x, m);
    }
  } else {
    SN_IVDEP for (int64_t i = 0; i < n; ++i) d[i] = static_cast<T>(f(a[i]));
  }
}

template <class T, class F>
inline void map2(T* d, const T* a, const T* b, int64_t n, F f) {
  if constexpr (kNarrow<T>) {
    float x[kChunk], y[kChunk];
    for (int64_t i = 0; i < n; i += kChunk) {
      const int64_t m = least(kChunk, n - i);
      widen(x, a + i, m);
      widen(y, b + i, m);
      SN_IVDEP for (int64_t k = 0; k < m; ++k) x[k] = f(x[k], y[k]);
      narrow(d + i, x, m);
    }
  } else {
    SN_IVDEP for (int64_t i = 0; i < n; ++i) d[i] = static_cast<T>(f(a[i], b[i]));
  }
}

template <class T, class F>
inline void map3(T* d, const T* a, const T* b, const T* c, int64_t n, F f) {
  if constexpr (kNarrow<T>) {
    float x[kChunk], y[kChunk], z[kChunk];
    for (int64_t i = 0; i < n; i += kChunk) {
      const int64_t m = least(kChunk, n - i);
      widen(x, a + i, m);
      widen(y, b + i, m);
      widen(z, c + i, m);
      SN_IVDEP for (int64_t k = 0; k < m; ++k) x[k] = f(x[k], y[k], z[k]);
      narrow(d + i, x, m);
    }
  } else {
    SN_IVDEP for (int64_t i = 0; i < n; ++i) d[i] = static_cast<T>(f(a[i], b[i], c[i]));
  }
}

template <class T>
inline void fill(T* d, T value, int64_t n) {
  for (int64_t i = 0; i < n; ++i) d[i] = value;
}

template <class T, class V>
inline void progression(T* d, V first, V step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) d[i] = store<T>(static_cast<V>(first + static_cast<V>(i) * step));
}

template <Round mode, class To, class From>
inline To cast_one(From value) {
  const auto x = load(value);
  using V = decltype(x + x);
  if constexpr (kFloat<To> && __is_same(To, From)) {  // to a whole number, in the same type
    return mode == Round::none ? value : store<To>(rounded<mode>(x));
  } else if constexpr (kFloat<From> && !kFloat<To>) {
    return to_int<To>(rounded<mode>(static_cast<V>(x)));
  } else if constexpr (kFloat<From> && kFloat<To> && mode != Round::none && mode != Round::rint) {
    return narrow_towards<mode, To>(static_cast<float>(x));
  } else if constexpr (!kFloat<From> && !kFloat<To>) {
    return saturate<To>(x);
  } else {
    return store<To>(x);
  }
}

template <Round mode, class To, class From>
inline void cast(To* d, const From* a, int64_t n) {
  constexpr bool plain = mode == Round::none || mode == Round::rint;
  if constexpr (__is_same(To, float) && kNarrow<From>) {
    widen(d, a, n);
  } else if constexpr (__is_same(From, float) && kNarrow<To> && plain) {
    narrow(d, a, n);
  } else {
    SN_IVDEP for (int64_t i = 0; i < n; ++i) d[i] = cast_one<mode, To>(a[i]);
  }
}

inline void cast_scaled(half* d, const int32_t* a, int64_t n, float scale) {
  SN_IVDEP for (int64_t i = 0; i < n; ++i) d[i] = to_half(static_cast<float>(a[i]) * scale);
}

// One bit per element, the first in the lowest bit of the first byte.
template <class T, class F>
inline void compare(uint8_t* mask, const T* a, const T* b, int64_t step, int64_t n, F f) {
  for (int64_t i = 0; i < n; i += 8) {
    uint8_t bits = 0;
    for (int64_t k = 0; k < least(8, n - i); ++k) {
      bits |= static_cast<uint8_t>(f(load(a[i + k]), load(b[(i + k) * step])) << k);
    }
    mask[i / 8] = bits;
  }
}

template <class T>
inline void select(T* d, const uint8_t* mask, const T* a, const T* b, int64_t step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) d[i] = (mask[i / 8] >> (i % 8)) & 1 ? a[i] : b[i * step];
}

template <class T, class I>
inline bool gather(Task& task, T* d, const T* src, int64_t room, const I* offsets, int64_t base,
                   int64_t n, int where) {
  constexpr int64_t size = sizeof(T);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = base + static_cast<int64_t>(static_cast<uint32_t>(offsets[i]));
    if (SN_UNLIKELY(at % size != 0 || at < 0 || at / size >= room)) {
      return task.fail(SN_FAULT_UB_RANGE, static_cast<uint64_t>(at), where,
                       "gather: byte offset %lld of element %lld is not an element of the source, "
                       "which has %lld bytes (offsets count bytes)",
                       static_cast<long long>(at), static_cast<long long>(i),
                       static_cast<long long>(room * size));
    }
    d[i] = src[at / size];
  }
  return true;
}

template <class T>
inline void broadcast_rows(T* d, const T* src, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r)
    memcpy(d + r * cols, src, static_cast<size_t>(cols) * sizeof(T));
}
template <class T>
inline void broadcast_cols(T* d, const T* src, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r) fill(d + r * cols, src[r], cols);
}

}  // namespace sn
