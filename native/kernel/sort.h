// Sorting of (value, index) pairs, interleaved in memory as the vector unit has them. Largest value
// first; of equal values the one that came first. A NaN sorts as its neighbours find it.
#pragma once

#include <stdlib.h>

#include "task.h"

namespace sn {

template <class T>
struct Pair {
  T value, index;
};

// Merges two descending runs into `out`.
template <class T>
inline void merge_two(Pair<T>* out, const Pair<T>* a, int64_t na, const Pair<T>* b, int64_t nb) {
  int64_t i = 0, j = 0;
  while (i < na && j < nb) {
    const bool second = load(b[j].value) > load(a[i].value);
    *out++ = second ? b[j++] : a[i++];
  }
  while (i < na) *out++ = a[i++];
  while (j < nb) *out++ = b[j++];
}

// Sorts `n` pairs; `spare` has room for as many. Returns the one that holds the result.
template <class T>
inline Pair<T>* sort_pairs(Pair<T>* pairs, Pair<T>* spare, int64_t n) {
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t i = 0; i < n; i += 2 * width) {
      const int64_t middle = i + width < n ? i + width : n;
      const int64_t end = i + 2 * width < n ? i + 2 * width : n;
      merge_two(spare + i, pairs + i, middle - i, pairs + middle, end - middle);
    }
    Pair<T>* const sorted = spare;
    spare = pairs;
    pairs = sorted;
  }
  return pairs;
}

// The first `keep` pairs of `src` sorted into `dst`. `length` elements take part, rounded up to the
// 32 of a hardware block; those from `actual` on are set to -infinity in `src`, as on the device.
// Indices are values of T, so float16 holds them exactly only up to 2048.
template <class T>
inline bool sort(Task& task, T* dst, int64_t dst_room, T* src, int64_t src_room, int64_t length,
                 int64_t actual, int64_t keep, int where) {
  const int64_t count = (length + 31) / 32 * 32;
  if (SN_UNLIKELY(actual < 0 || actual > count || count > src_room)) {
    return task.fail(SN_FAULT_UB_RANGE, static_cast<uint64_t>(count), where,
                     "sort: %lld elements, in blocks of 32, of a source that has %lld",
                     static_cast<long long>(actual), static_cast<long long>(src_room));
  }
  if (keep < 0) keep = count;
  if (SN_UNLIKELY(keep > count || 2 * keep > dst_room)) {
    return task.fail(SN_FAULT_UB_RANGE, static_cast<uint64_t>(keep), where,
                     "sort: %lld pairs of %lld, into a destination of %lld elements",
                     static_cast<long long>(keep), static_cast<long long>(count),
                     static_cast<long long>(dst_room));
  }
  const T lowest = store<T>(-INFINITY);
  for (int64_t i = actual; i < count; ++i) src[i] = lowest;
  auto* pairs = static_cast<Pair<T>*>(malloc(2 * static_cast<size_t>(count) * sizeof(Pair<T>)));
  if (SN_UNLIKELY(pairs == nullptr)) {
    return task.fail(SN_FAULT_OTHER, 0, where, "sort: the host has no memory left");
  }
  for (int64_t i = 0; i < count; ++i) pairs[i] = {src[i], store<T>(static_cast<float>(i))};
  memcpy(dst, sort_pairs(pairs, pairs + count, count), static_cast<size_t>(keep) * sizeof(Pair<T>));
  free(pairs);
  return true;
}

// Merges up to four descending runs of pairs, each of `lengths[i]` pairs, into `dst`.
template <class T>
inline bool merge_runs(Task& task, T* dst, const T* const* runs, const int64_t* lengths, int ways,
                       int where) {
  int64_t total = 0;
  for (int i = 0; i < ways; ++i) total += lengths[i];
  auto* pairs = static_cast<Pair<T>*>(malloc(2 * static_cast<size_t>(total) * sizeof(Pair<T>)));
  if (SN_UNLIKELY(pairs == nullptr)) {
    return task.fail(SN_FAULT_OTHER, 0, where, "merge_sort: the host has no memory left");
  }
  Pair<T>*merged = pairs, *spare = pairs + total;
  int64_t done = 0;
  for (int i = 0; i < ways; ++i) {
    merge_two(spare, merged, done, reinterpret_cast<const Pair<T>*>(runs[i]), lengths[i]);
    done += lengths[i];
    Pair<T>* const other = merged;
    merged = spare;
    spare = other;
  }
  memcpy(dst, merged, static_cast<size_t>(total) * sizeof(Pair<T>));
  free(pairs);
  return true;
}

}  // namespace sn
