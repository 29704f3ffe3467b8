#include "kernels.gen.h"

namespace softnpu::ops::kernels {

// A permutation and a reshape in one, in either order.
void confusion_transpose(const at::Tensor& self, at::IntArrayRef perm, at::IntArrayRef shape,
                         bool transpose_first, const at::Tensor& out) {
  out.copy_(transpose_first ? self.permute(perm).reshape(shape)
                            : self.reshape(shape).permute(perm));
}

}  // namespace softnpu::ops::kernels
