// Copies between global memory and tiles: rows of a tensor, clamped to it, padded in the tile.
#pragma once

#include "task.h"

namespace sn {

// The two-dimensional window of a tensor that a copy names.
struct Window {
  int64_t offset;                // in elements, of the window's first element
  int64_t stride;                // in elements, between its rows
  int64_t row, rows, row_limit;  // first row, how many, the tensor's size in that dimension
  int64_t col, cols, col_limit;

  int64_t valid_rows() const { return clamp(row_limit - row, rows); }
  int64_t valid_cols() const { return clamp(col_limit - col, cols); }
  static int64_t clamp(int64_t left, int64_t extent) {
    return left >= extent ? extent : left > 0 ? left : 0;
  }
};

template <class T>
inline bool window_inside(Task& task, const Gm<T>& gm, const Window& w, int where) {
  if (SN_UNLIKELY(w.row < 0 || w.col < 0 || w.rows < 0 || w.cols < 0)) {
    return task.fail(SN_FAULT_GM_RANGE, reinterpret_cast<uintptr_t>(gm.data + w.offset), where,
                     "%s: the copy begins before the tensor, at row %lld, column %lld", gm.name,
                     static_cast<long long>(w.row), static_cast<long long>(w.col));
  }
  const int64_t rows = w.valid_rows(), cols = w.valid_cols();
  if (rows == 0 || cols == 0) return true;
  return gm.check(task, w.offset, w.offset + (rows - 1) * w.stride + cols - 1, where);
}

template <class T>
inline bool window_fits(Task& task, const Window& w, int64_t tile_rows, int64_t tile_cols,
                        int where) {
  return task.fits(w.valid_rows(), tile_rows, where) && task.fits(w.valid_cols(), tile_cols, where);
}

template <class T>
inline bool read_tile(Task& task, const Gm<T>& gm, const Window& w, T* tile, int64_t tile_rows,
                      int64_t tile_cols, T pad, int where) {
  if (!window_inside(task, gm, w, where) || !window_fits<T>(task, w, tile_rows, tile_cols, where)) {
    return false;
  }
  const int64_t rows = w.valid_rows(), cols = w.valid_cols();
  if (rows != tile_rows || cols != tile_cols) {
    for (int64_t i = 0; i < tile_rows * tile_cols; ++i) tile[i] = pad;
  }
  const T* from = gm.data + w.offset;
  if (cols == w.stride && cols == tile_cols) {
    memcpy(tile, from, static_cast<size_t>(rows * cols) * sizeof(T));
    return true;
  }
  for (int64_t r = 0; r < rows; ++r) {
    memcpy(tile + r * tile_cols, from + r * w.stride, static_cast<size_t>(cols) * sizeof(T));
  }
  return true;
}

template <class T>
inline bool write_tile(Task& task, const Gm<T>& gm, const Window& w, const T* tile,
                       int64_t tile_rows, int64_t tile_cols, int where) {
  if (!window_inside(task, gm, w, where) || !window_fits<T>(task, w, tile_rows, tile_cols, where)) {
    return false;
  }
  T* to = gm.data + w.offset;
  const int64_t rows = w.valid_rows(), cols = w.valid_cols();
  for (int64_t r = 0; r < rows; ++r) {
    memcpy(to + r * w.stride, tile + r * tile_cols, static_cast<size_t>(cols) * sizeof(T));
  }
  return true;
}

// Blocks run in parallel, so an element is added with compare-and-exchange.
template <class T>
inline void atomic_add_one(T* to, T value) {
  using Bits = decltype([] {
    if constexpr (sizeof(T) == 1)
      return uint8_t();
    else if constexpr (sizeof(T) == 2)
      return uint16_t();
    else if constexpr (sizeof(T) == 4)
      return uint32_t();
    else
      return uint64_t();
  }());
  auto* cell = reinterpret_cast<Bits*>(to);
  Bits old = __atomic_load_n(cell, __ATOMIC_RELAXED);
  Bits sum;
  do {
    const T before = bits_to<T>(old);
    sum = bits_to<Bits>(store<T>(load(before) + load(value)));
  } while (!__atomic_compare_exchange_n(cell, &old, sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

template <class T>
inline bool add_tile(Task& task, const Gm<T>& gm, const Window& w, const T* tile, int64_t tile_rows,
                     int64_t tile_cols, int where) {
  if (!window_inside(task, gm, w, where) || !window_fits<T>(task, w, tile_rows, tile_cols, where)) {
    return false;
  }
  const int64_t rows = w.valid_rows(), cols = w.valid_cols();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      atomic_add_one(gm.data + w.offset + r * w.stride + c, tile[r * tile_cols + c]);
    }
  }
  return true;
}

}  // namespace sn
