#include "lengths.h"

#include <c10/util/Exception.h>

namespace softnpu::ops::attention {

std::vector<int64_t> lengths_of_list(std::vector<int64_t> values, const char* name, int64_t batch,
                                     int64_t limit) {
  if (values.empty()) {
    return std::vector<int64_t>(batch, limit);
  }
  const auto size = static_cast<int64_t>(values.size());
  TORCH_CHECK(size == 1 || size >= batch, "'", name, "' has ", size,
              " entries, expected 1 or at least the batch size ", batch);
  values.resize(batch, values[0]);
  for (int64_t i = 0; i < batch; ++i) {
    TORCH_CHECK(values[i] >= 0 && values[i] <= limit, "'", name, "'[", i, "] is ", values[i],
                ", expected 0 to ", limit,
                ", the tensor's sequence length or what a row of block_table can hold");
  }
  return values;
}

std::vector<int64_t> lengths_of_sums(const std::vector<int64_t>& sums, const char* name) {
  std::vector<int64_t> lengths;
  int64_t last = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    TORCH_CHECK(sums[i] >= last, "'", name, "'[", i, "] is ", sums[i], ", expected at least ", last,
                ": with this layout the entries are running sums");
    lengths.push_back(sums[i] - last);
    last = sums[i];
  }
  return lengths;
}

}  // namespace softnpu::ops::attention
