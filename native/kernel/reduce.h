// Reductions of a two-dimensional tile. Sums of a row use 16 interleaved partial sums that are
// added pairwise at the end: the order is fixed, so results do not depend on the CPU.
#pragma once

#include "vector.h"

namespace sn {

struct Sum {
  template <class V>
  static V start() {
    return V(0);
  }
  template <class V>
  static V join(V a, V b) {
    return static_cast<V>(a + b);
  }
};
struct Max {
  template <class V>
  static V start() {
    if constexpr (kFloat<V>)
      return -static_cast<V>(INFINITY);
    else
      return static_cast<V>(V(1) << (sizeof(V) * 8 - 1));
  }
  template <class V>
  static V join(V a, V b) {
    return sn::max(a, b);
  }
};
struct Min {
  template <class V>
  static V start() {
    if constexpr (kFloat<V>)
      return static_cast<V>(INFINITY);
    else
      return static_cast<V>(~(V(1) << (sizeof(V) * 8 - 1)));
  }
  template <class V>
  static V join(V a, V b) {
    return sn::min(a, b);
  }
};

inline constexpr int64_t kLanes = 16;

template <class Op, class V>
inline void accumulate(V (&lanes)[kLanes], const V* x, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] = Op::join(lanes[k], x[i + k]);
  }
  for (int64_t k = 0; i + k < n; ++k) lanes[k] = Op::join(lanes[k], x[i + k]);
}

template <class Op, class T>
inline value_t<T> reduce_row(const T* row, int64_t n) {
  using V = value_t<T>;
  V lanes[kLanes];
  for (int64_t k = 0; k < kLanes; ++k) lanes[k] = Op::template start<V>();
  if constexpr (kNarrow<T>) {
    float x[kChunk];
    for (int64_t i = 0; i < n; i += kChunk) {
      const int64_t m = least(kChunk, n - i);
      widen(x, row + i, m);
      accumulate<Op>(lanes, x, m);
    }
  } else {
    accumulate<Op>(lanes, row, n);
  }
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t k = 0; k < width; ++k) lanes[k] = Op::join(lanes[k], lanes[k + width]);
  }
  return lanes[0];
}

// out[r] = reduction of row r.
template <class Op, class T>
inline void reduce_rows(T* out, const T* a, int64_t rows, int64_t cols, int64_t stride,
                        bool clear) {
  for (int64_t r = 0; r < rows; ++r) {
    const auto value = reduce_row<Op>(a + r * stride, cols);
    out[r] = store<T>(clear ? value : Op::join(load(out[r]), value));
  }
}

// out[c] = reduction of column c, from the first row to the last.
template <class Op, class T>
inline void reduce_cols(T* out, const T* a, int64_t rows, int64_t cols, int64_t stride,
                        bool clear) {
  using V = value_t<T>;
  for (int64_t c = 0; c < cols; c += kChunk) {
    const int64_t m = least(kChunk, cols - c);
    V sums[kChunk];
    for (int64_t k = 0; k < m; ++k) sums[k] = Op::template start<V>();
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = a + r * stride + c;
      SN_IVDEP for (int64_t k = 0; k < m; ++k) sums[k] = Op::join(sums[k], load(row[k]));
    }
    for (int64_t k = 0; k < m; ++k) {
      out[c + k] = store<T>(clear ? sums[k] : Op::join(load(out[c + k]), sums[k]));
    }
  }
}

}  // namespace sn
