// Scatters with op-plugin's numbers for the reduction; the functional forms start from a copy of
// `self`, which may be the output itself.
#include "kernels.gen.h"

namespace softnpu::ops::kernels {

namespace {

constexpr int64_t kNone = 0, kAdd = 1, kMultiply = 2;

const char* reduction_name(int64_t reduction) {
  TORCH_CHECK(reduction == kAdd || reduction == kMultiply, "'reduction' is ", reduction,
              ", known are 0 (none), 1 (add) and 2 (multiply)");
  return reduction == kAdd ? "add" : "multiply";
}

}  // namespace

void scatter(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
             int64_t reduction) {
  if (reduction == kNone) {
    self.scatter_(dim, index, src);
  } else {
    self.scatter_(dim, index, src, reduction_name(reduction));
  }
}

void scatter(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
             int64_t reduction, const at::Tensor& out) {
  out.copy_(self);
  scatter(out, dim, index, src, reduction);
}

void scatter_value(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                   const at::Scalar& value, int64_t reduction) {
  if (reduction == kNone) {
    self.scatter_(dim, index, value);
  } else {
    self.scatter_(dim, index, value, reduction_name(reduction));
  }
}

void scatter_value(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                   const at::Scalar& value, int64_t reduction, const at::Tensor& out) {
  out.copy_(self);
  scatter_value(out, dim, index, value, reduction);
}

void scatter_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                    const at::Tensor& src, int64_t reduction, bool include_self) {
  static constexpr const char* kNames[] = {"", "sum", "prod", "amax", "amin", "mean"};
  TORCH_CHECK(reduction >= 0 && reduction <= 5, "'reduction' is ", reduction, ", known are 0 to 5");
  if (reduction == kNone) {
    self.scatter_(dim, index, src);
  } else {
    self.scatter_reduce_(dim, index, src, kNames[reduction], include_self);
  }
}

void scatter_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                    const at::Tensor& src, int64_t reduction, bool include_self,
                    const at::Tensor& out) {
  out.copy_(self);
  scatter_reduce(out, dim, index, src, reduction, include_self);
}

}  // namespace softnpu::ops::kernels
