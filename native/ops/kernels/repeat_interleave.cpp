// PyTorch checks the counts only where it computes the output's size from them; torch_npu passes
// the size, and a negative count would then be written out of bounds.
#include <ATen/ops/min.h>
#include <ATen/ops/repeat_interleave.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {
namespace {

void check_counts(const at::Tensor& repeats) {
  const int64_t lowest = repeats.numel() == 0 ? 0 : repeats.min().item<int64_t>();
  TORCH_CHECK(lowest >= 0, "'repeats' must not be negative, its smallest value is ", lowest);
}

}  // namespace

void repeat_interleave(const at::Tensor& self, const at::Tensor& repeats, int64_t output_size,
                       const at::Tensor& out) {
  check_counts(repeats);
  put(at::repeat_interleave(self, repeats, std::nullopt, output_size), out);
}

void repeat_interleave_dim(const at::Tensor& self, const at::Tensor& repeats, int64_t dim,
                           int64_t output_size, const at::Tensor& out) {
  check_counts(repeats);
  put(at::repeat_interleave(self, repeats, dim, output_size), out);
}

void repeat_indices(const at::Tensor& repeats, int64_t output_size, const at::Tensor& out) {
  check_counts(repeats);
  put(at::repeat_interleave(repeats, std::optional<int64_t>(output_size)), out);
}

}  // namespace softnpu::ops::kernels
