#include "attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cmath>

#include "rows.h"

namespace softnpu::ops::attention {

namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
// Up to this many query rows share a key row that is read once; more are worth a matrix product.
constexpr int64_t kFewRows = 16;
constexpr int64_t kProductRows = 256;                // query rows per matrix product
constexpr int64_t kMaxScores = int64_t{1} << 23;     // per matrix product
constexpr int64_t kParallelWork = int64_t{1} << 20;  // multiplications worth another thread

struct Range {
  int64_t first, last;
};

// One key-value head of one sequence. Its query rows are numbered position first: row r is position
// r / group of head kv_head * group + r % group, so that rows which see the same keys are
// neighbours.
class HeadTask {
 public:
  HeadTask(const Problem& problem, const Sequence& sequence, int64_t kv_head)
      : p_(problem),
        s_(sequence),
        kv_head_(kv_head),
        group_(problem.heads / problem.kv_heads),
        width_(problem.dim + problem.rope_dim),
        f_(row_functions(problem.dtype)) {}

  int64_t rows() const { return group_ * s_.query_count; }
  int64_t work() const { return rows() * s_.key_count * (width_ + p_.value_dim); }
  void run_by_rows() const;
  void run_by_products() const;

 private:
  int64_t head(int64_t row) const { return kv_head_ * group_ + row % group_; }
  int64_t position(int64_t row) const { return row / group_; }
  Range visible(int64_t position) const;
  Range visible_rows(int64_t first, int64_t last) const;
  void load_query(int64_t row, float* to) const;
  void load_key(int64_t j, float* to) const;
  void hide_and_bias(int64_t row, Range columns, float* scores) const;
  // Turns scores into exponentials; returns their sum, the sink included.
  float exponentials(int64_t row, float* scores, int64_t count) const;
  void finish(int64_t row, const float* weighted, float sum) const;
  void product_block(int64_t first, int64_t last, const at::Tensor& keys,
                     const at::Tensor& values) const;

  const Problem& p_;
  const Sequence& s_;
  const int64_t kv_head_, group_, width_;
  const RowFunctions& f_;
};

Range HeadTask::visible(int64_t position) const {
  const int64_t own = position + (p_.visible.from_end ? s_.key_count - s_.query_count : 0);
  const int64_t first = p_.visible.before == Visibility::kAll ? 0 : own - p_.visible.before;
  const int64_t last =
      p_.visible.after == Visibility::kAll ? s_.key_count : own + p_.visible.after + 1;
  return {std::clamp<int64_t>(first, 0, s_.key_count), std::clamp<int64_t>(last, 0, s_.key_count)};
}

Range HeadTask::visible_rows(int64_t first, int64_t last) const {
  return {visible(position(first)).first, visible(position(last - 1)).last};
}

void HeadTask::load_query(int64_t row, float* to) const {
  const int64_t i = s_.query_first + position(row);
  f_.load(p_.query.at(s_.batch, head(row), i), to, p_.dim);
  if (p_.rope_dim > 0) {
    f_.load(p_.query_rope.at(s_.batch, head(row), i), to + p_.dim, p_.rope_dim);
  }
  for (int64_t d = 0; d < width_; ++d) {
    to[d] *= p_.scale;
  }
}

void HeadTask::load_key(int64_t j, float* to) const {
  f_.load(p_.key.at(s_, kv_head_, j), to, p_.dim);
  if (p_.rope_dim > 0) {
    f_.load(p_.key_rope.at(s_, kv_head_, j), to + p_.dim, p_.rope_dim);
  }
}

// `scores` holds the columns of the range; mask and bias are indexed like the tensors they belong
// to.
void HeadTask::hide_and_bias(int64_t row, Range columns, float* scores) const {
  const int64_t i = position(row) + (p_.packed ? 0 : s_.query_first);
  const int64_t key_first = p_.packed ? 0 : s_.key_first;
  if (p_.bias.data != nullptr) {
    std::vector<float> bias(columns.last - columns.first);
    f_.load(p_.bias.at(s_.batch, head(row), i) + key_first + columns.first, bias.data(),
            columns.last - columns.first);
    f_.add_scaled(1.0f, bias.data(), scores, columns.last - columns.first);
  }
  const Range seen = visible(position(row));
  const int64_t end = std::max(seen.first, seen.last);
  std::fill(scores, scores + std::clamp(seen.first, columns.first, columns.last) - columns.first,
            kHidden);
  std::fill(scores + std::clamp(end, columns.first, columns.last) - columns.first,
            scores + columns.last - columns.first, kHidden);
  if (p_.visible.mask != nullptr) {
    const uint8_t* mask =
        p_.visible.mask + s_.batch * p_.visible.mask_batch + i * p_.visible.mask_row + key_first;
    for (int64_t j = columns.first; j < columns.last; ++j) {
      if (mask[j] != 0) {
        scores[j - columns.first] = kHidden;
      }
    }
  }
}

float HeadTask::exponentials(int64_t row, float* scores, int64_t count) const {
  float sink = kHidden;
  if (p_.sink != nullptr) {
    f_.load(p_.sink + head(row), &sink, 1);
  }
  float largest = kHidden;
  bool blind = true;  // a NaN is not hidden: it must reach the output
  for (int64_t j = 0; j < count; ++j) {
    largest = std::max(largest, scores[j]);
    blind = blind && scores[j] == kHidden;
  }
  largest = std::max(largest, sink);
  float sum = blind ? 0 : f_.exponentials(scores, largest, count);
  if (p_.sink != nullptr && !blind) {
    sum += std::exp(sink - largest);
  }
  if (p_.lse != nullptr) {
    p_.lse[s_.batch * p_.lse_batch + head(row) * p_.lse_head +
           (s_.query_first + position(row)) * p_.lse_row] =
        blind ? std::numeric_limits<float>::infinity() : largest + std::log(sum);
  }
  return sum;
}

void HeadTask::finish(int64_t row, const float* weighted, float sum) const {
  uint16_t* out = p_.out.at(s_.batch, head(row), s_.query_first + position(row));
  if (sum != 0) {
    f_.store(weighted, 1.0f / sum, out, p_.value_dim);
  } else {
    std::fill(out, out + p_.value_dim, uint16_t{0});
  }
}

void HeadTask::run_by_rows() const {
  const Range columns = visible_rows(0, rows());
  const int64_t count = std::max<int64_t>(0, columns.last - columns.first);
  std::vector<float> query(rows() * width_), key(width_), value(p_.value_dim);
  std::vector<float> scores(rows() * count), weighted(rows() * p_.value_dim, 0.0f), sums(rows());
  for (int64_t r = 0; r < rows(); ++r) {
    load_query(r, &query[r * width_]);
  }
  for (int64_t j = 0; j < count; ++j) {
    load_key(columns.first + j, key.data());
    for (int64_t r = 0; r < rows(); ++r) {
      scores[r * count + j] = f_.dot(&query[r * width_], key.data(), width_);
    }
  }
  for (int64_t r = 0; r < rows(); ++r) {
    if (count > 0) {
      hide_and_bias(r, columns, &scores[r * count]);
    }
    sums[r] = exponentials(r, scores.data() + r * count, count);
  }
  for (int64_t j = 0; j < count; ++j) {
    f_.load(p_.value.at(s_, kv_head_, columns.first + j), value.data(), p_.value_dim);
    for (int64_t r = 0; r < rows(); ++r) {
      if (sums[r] != 0 && scores[r * count + j] != 0) {
        f_.add_scaled(scores[r * count + j], value.data(), &weighted[r * p_.value_dim],
                      p_.value_dim);
      }
    }
  }
  for (int64_t r = 0; r < rows(); ++r) {
    finish(r, &weighted[r * p_.value_dim], sums[r]);
  }
}

void HeadTask::product_block(int64_t first, int64_t last, const at::Tensor& keys,
                             const at::Tensor& values) const {
  Range columns = visible_rows(first, last);
  columns.last = std::max(columns.first, columns.last);
  const int64_t count = columns.last - columns.first;
  const at::Tensor query = at::empty({last - first, width_}, keys.options());
  for (int64_t r = first; r < last; ++r) {
    load_query(r, query.data_ptr<float>() + (r - first) * width_);
  }
  const at::Tensor scores = at::mm(query, keys.slice(0, columns.first, columns.last).t());
  std::vector<float> sums(last - first);
  at::parallel_for(0, last - first, 8, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = scores.data_ptr<float>() + r * count;
      if (count > 0) {
        hide_and_bias(first + r, columns, row);
      }
      sums[r] = exponentials(first + r, row, count);
      if (sums[r] == 0) {
        std::fill(row, row + count, 0.0f);  // -inf times a value would be NaN
      }
    }
  });
  const at::Tensor weighted = at::mm(scores, values.slice(0, columns.first, columns.last));
  for (int64_t r = first; r < last; ++r) {
    finish(r, weighted.data_ptr<float>() + (r - first) * p_.value_dim, sums[r - first]);
  }
}

void HeadTask::run_by_products() const {
  const at::Tensor keys = at::empty({s_.key_count, width_}, at::kFloat);
  const at::Tensor values = at::empty({s_.key_count, p_.value_dim}, at::kFloat);
  for (int64_t j = 0; j < s_.key_count; ++j) {
    load_key(j, keys.data_ptr<float>() + j * width_);
    f_.load(p_.value.at(s_, kv_head_, j), values.data_ptr<float>() + j * p_.value_dim,
            p_.value_dim);
  }
  const int64_t affordable = kMaxScores / std::max<int64_t>(1, s_.key_count);
  const int64_t step = std::max<int64_t>(1, std::min(kProductRows, affordable) / group_) * group_;
  for (int64_t first = 0; first < rows(); first += step) {
    product_block(first, std::min(rows(), first + step), keys, values);
  }
}

// The device would read whatever lies there.
void check_blocks(const Problem& problem, const Sequence& sequence) {
  const CacheRows& key = problem.key;
  const int64_t used = (sequence.key_count + key.block_size - 1) / key.block_size;
  for (int64_t i = 0; i < used; ++i) {
    const int64_t block = key.blocks[sequence.batch * key.blocks_per_sequence + i];
    TORCH_CHECK(block >= 0 && block < problem.block_count, "'block_table'[", sequence.batch, "][",
                i, "] is ", block, ", but the cache has ", problem.block_count,
                " blocks and sequence ", sequence.batch, " reads ", used, " of them (",
                sequence.key_count, " tokens)");
  }
}

}  // namespace

void compute(const Problem& problem) {
  std::vector<HeadTask> small, large;
  int64_t work = 0;
  for (const Sequence& sequence : problem.sequences) {
    if (problem.key.blocks != nullptr) {
      check_blocks(problem, sequence);
    }
    for (int64_t h = 0; h < problem.kv_heads && sequence.query_count > 0; ++h) {
      const HeadTask task(problem, sequence, h);
      const bool few = task.rows() <= kFewRows || sequence.key_count == 0;
      (few ? small : large).push_back(task);
      work += few ? task.work() : 0;
    }
  }
  if (!small.empty()) {
    const int64_t each = std::max<int64_t>(1, work / static_cast<int64_t>(small.size()));
    const int64_t grain = std::max<int64_t>(1, kParallelWork / each);
    at::parallel_for(0, static_cast<int64_t>(small.size()), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        small[i].run_by_rows();
      }
    });
  }
  for (const HeadTask& task : large) {
    task.run_by_products();
  }
}

}  // namespace softnpu::ops::attention
