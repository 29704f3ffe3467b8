// Distinct elements. The results' sizes are known only now, so they go to memory of the largest
// size.
#include <ATen/ops/_unique2.h>
#include <ATen/ops/unique_consecutive.h>
#include <ATen/ops/unique_dim.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

namespace {

// op-plugin's stand-in for an absent dimension.
constexpr int64_t kNoDim = 1000;

void store_inverse(const at::Tensor& inverse, const at::Tensor& result) {
  if (inverse.defined() && inverse.numel() == result.numel()) {
    inverse.copy_(result.view_as(inverse));
  }
}

void store_counts(const DynamicOutput& counts, const at::Tensor& result) {
  if (counts.memory.numel() >= result.numel()) {
    counts.set(result);
  }
}

}  // namespace

void unique(const at::Tensor& self, bool sorted, bool return_inverse, const DynamicOutput& out,
            const at::Tensor& inverse) {
  const auto [values, places, counts] = at::_unique2(self, sorted, return_inverse, false);
  out.set(values);
  store_inverse(inverse, places);
}

void unique2(const at::Tensor& self, bool sorted, bool return_inverse, bool return_counts,
             const DynamicOutput& out, const at::Tensor& inverse, const DynamicOutput& counts) {
  const auto [values, places, number] =
      at::_unique2(self, sorted, return_inverse || return_counts, return_counts);
  out.set(values);
  store_inverse(inverse, places);
  store_counts(counts, number);
}

void unique_consecutive(const at::Tensor& self, bool return_inverse, bool return_counts,
                        int64_t dim, const DynamicOutput& out, const at::Tensor& inverse,
                        const DynamicOutput& counts) {
  const auto along = dim == kNoDim ? std::nullopt : std::optional(dim);
  const auto [values, places, number] =
      at::unique_consecutive(self, return_inverse, return_counts, along);
  out.set(values);
  store_inverse(inverse, places);
  store_counts(counts, number);
}

void unique_dim(const at::Tensor& self, bool sorted, bool return_inverse, int64_t dim,
                const DynamicOutput& out, const at::Tensor& inverse, const DynamicOutput& counts) {
  const auto [values, places, number] = at::unique_dim(self, dim, sorted, return_inverse, true);
  out.set(values);
  store_inverse(inverse, places);
  store_counts(counts, number);
}

}  // namespace softnpu::ops::kernels
