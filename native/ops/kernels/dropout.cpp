// Dropout with the device's mask: one bit per element, set where the element is kept, padded to a
// multiple of 128 bits.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "kernels.gen.h"
#include "sources.h"

namespace softnpu::ops::kernels {

namespace {

constexpr int64_t kByte = 8;

at::Tensor weights_of_bits() {
  return (at::arange(kByte, at::kInt) * 0 + 1).bitwise_left_shift(at::arange(kByte, at::kInt));
}

void generate(int64_t elements, double p, uint64_t seed, uint64_t offset, const at::Tensor& mask) {
  TORCH_CHECK(mask.numel() * kByte >= elements, "'mask' has ", mask.numel(), " bytes for ",
              elements, " elements");
  auto generator = at::detail::createCPUGenerator(mixed_seed(seed, offset));
  at::Tensor bits = at::zeros({mask.numel() * kByte}, at::kInt);
  bits.narrow(0, 0, elements).bernoulli_(1.0 - p, generator);
  mask.copy_((bits.view({-1, kByte}) * weights_of_bits()).sum(1).view_as(mask));
}

void apply(const at::Tensor& self, const at::Tensor& mask, double p, const at::Tensor& out) {
  const at::Tensor bits = mask.view({-1, 1}).to(at::kInt).bitwise_and(weights_of_bits()).ne(0);
  const at::Tensor keep = bits.view({-1}).narrow(0, 0, self.numel()).view(self.sizes());
  const double scale = p < 1.0 ? 1.0 / (1.0 - p) : 0.0;
  out.copy_(self.to(at::kFloat) * keep * scale);
}

int64_t count(at::IntArrayRef shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) {
    elements *= size;
  }
  return elements;
}

}  // namespace

void dropout_gen_mask(at::IntArrayRef shape, double p, int64_t seed, int64_t offset,
                      const at::Tensor& mask) {
  generate(count(shape), p, seed, offset, mask);
}

void dropout_gen_mask(at::IntArrayRef shape, double p, int64_t seed, int64_t offset,
                      std::optional<at::ScalarType> /*dtype*/, const at::Tensor& mask) {
  generate(count(shape), p, seed, offset, mask);
}

void dropout_gen_mask(at::IntArrayRef shape, double p, const at::Tensor& seed,
                      const at::Tensor& offset, int64_t offset_intragraph,
                      std::optional<at::ScalarType> /*dtype*/, const at::Tensor& mask) {
  generate(count(shape), p, seed.item<int64_t>(), offset.item<int64_t>() + offset_intragraph, mask);
}

void dropout_do_mask(const at::Tensor& self, const at::Tensor& mask, double p,
                     const at::Tensor& out) {
  apply(self, mask, p, out);
}

void dropout_v3(const at::Tensor& self, const at::Tensor& noise_shape, double p, int64_t seed,
                int64_t offset, const at::Tensor& out, const at::Tensor& mask) {
  TORCH_CHECK(!noise_shape.defined(), "a noise shape is not implemented");
  generate(self.numel(), p, seed, offset, mask);
  apply(self, mask, p, out);
}

}  // namespace softnpu::ops::kernels
