// Writes of slices, as KV caches use them.
#include <ATen/ops/index_put.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

// For each row i of dimension 0, `updates[i]` replaces as many entries of `axis` as it has, from
// `indices[i]` on; with indices of shape [n, 2], row and position are given.
void scatter_update(const at::Tensor& self, const at::Tensor& indices, const at::Tensor& updates,
                    int64_t axis) {
  const int64_t along = axis < 0 ? axis + self.dim() : axis;
  TORCH_CHECK(along > 0 && along < self.dim(), "'axis' is ", axis, ", needs 1 to ", self.dim() - 1,
              " or its negative counterpart");
  const at::Tensor where = indices.to(at::kLong).contiguous();
  const auto* position = where.const_data_ptr<int64_t>();
  const int64_t columns = where.dim() == 2 ? where.size(1) : 1;
  const int64_t length = updates.size(along);
  for (int64_t i = 0; i < where.size(0); ++i) {
    const int64_t row = columns == 2 ? position[2 * i] : i;
    const int64_t start = position[columns * i + columns - 1];
    self.select(0, row).narrow(along - 1, start, length).copy_(updates.select(0, i));
  }
}

// `updates[k...]` replaces the slice of `self` that the last dimension of `indices[k...]` names.
void scatter_nd_update(const at::Tensor& self, const at::Tensor& indices,
                       const at::Tensor& updates) {
  const int64_t depth = indices.size(-1);
  c10::List<std::optional<at::Tensor>> where;
  for (int64_t d = 0; d < depth; ++d) {
    where.push_back(indices.select(-1, d).to(at::kLong));
  }
  at::index_put_(const_cast<at::Tensor&>(self), where, updates);
}

}  // namespace softnpu::ops::kernels
