// softmax(scale * query . key + mask) . value over sequences of unequal length: what the fused
// inference operators compute, whatever the layout of their tensors. Everything is accumulated in
// fp32 and rounded once, on the way to the output (the device rounds the probabilities as well).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace softnpu::ops::attention {

// Rows of contiguous 16-bit values. Strides are in elements; one that a layout lacks is 0.
struct HeadRows {
  uint16_t* data = nullptr;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
  uint16_t* at(int64_t b, int64_t h, int64_t i) const {
    return data + b * batch + h * head + i * row;
  }
};

struct Sequence {
  int64_t batch = 0;  // index into the batch dimension, the mask and the block table
  int64_t query_first = 0, query_count = 0;
  int64_t key_first = 0, key_count = 0;
};

// Keys or values. In a paged cache, `rows.batch` is the stride between blocks.
struct CacheRows {
  HeadRows rows;
  const int32_t* blocks = nullptr;  // block ids per sequence; nullptr: not paged
  int64_t blocks_per_sequence = 0;
  int64_t block_size = 0;
  const uint16_t* at(const Sequence& sequence, int64_t h, int64_t j) const {
    if (blocks == nullptr) {
      return rows.at(sequence.batch, h, sequence.key_first + j);
    }
    const int64_t block = blocks[sequence.batch * blocks_per_sequence + j / block_size];
    return rows.at(block, h, j % block_size);
  }
};

// Which keys a query may see: a band around its own position, counted from the first or the last
// token of the sequence, and a mask whose true entries hide a key.
struct Visibility {
  static constexpr int64_t kAll = std::numeric_limits<int32_t>::max();
  int64_t before = kAll;
  int64_t after = kAll;
  bool from_end = false;
  const uint8_t* mask = nullptr;
  int64_t mask_batch = 0;
  int64_t mask_row = 0;
};

struct Problem {
  at::ScalarType dtype = at::kHalf;
  int64_t heads = 0, kv_heads = 0;
  int64_t dim = 0, rope_dim = 0, value_dim = 0;
  float scale = 1;
  HeadRows query, query_rope, out;
  CacheRows key, key_rope, value;
  Visibility visible;
  bool packed = false;             // a mask counts from a sequence's first token, not the tensor's
  HeadRows bias;                   // added to the scores; rows of the whole key length
  const uint16_t* sink = nullptr;  // per head, a score that takes part in the sum only
  float* lse = nullptr;            // log of the sum of exponentials, of a row without keys +inf
  int64_t lse_batch = 0, lse_head = 0, lse_row = 0;
  int64_t block_count = 0;  // of a paged cache
  std::vector<Sequence> sequences;
};

// Writes the rows of `out` (and `lse`) that belong to a sequence; a row that sees no key is zero.
void compute(const Problem& problem);

}  // namespace softnpu::ops::attention
