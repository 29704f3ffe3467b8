// Rotary position embedding: x * cos + rotate(x) * sin, in fp32, rounded once.
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

namespace {

enum class Rotation { Half, Interleave };

// (-second, first) of each pair; a pair is i and i + D/2, or 2i and 2i + 1.
at::Tensor rotated(const at::Tensor& x, Rotation rotation) {
  const int64_t size = x.size(-1);
  TORCH_CHECK(size % 2 == 0, "the last dimension has the odd size ", size);
  if (rotation == Rotation::Half) {
    return at::cat({-x.narrow(-1, size / 2, size / 2), x.narrow(-1, 0, size / 2)}, -1);
  }
  const at::Tensor pairs = x.unflatten(-1, {size / 2, 2});
  return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
}

at::Tensor embedded(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                    Rotation rotation) {
  const at::Tensor wide = x.to(at::kFloat);
  return wide * cos.to(at::kFloat) + rotated(wide, rotation) * sin.to(at::kFloat);
}

}  // namespace

void apply_rotary_pos_emb(const at::Tensor& query, const at::Tensor& key, const at::Tensor& cos,
                          const at::Tensor& sin, int64_t /*layout*/, const std::string& mode) {
  TORCH_CHECK(mode == "half" || mode == "interleave", "rotary mode '", mode,
              "' is not implemented; use 'half' or 'interleave'");
  const Rotation rotation = mode == "half" ? Rotation::Half : Rotation::Interleave;
  query.copy_(embedded(query, cos, sin, rotation));
  key.copy_(embedded(key, cos, sin, rotation));
}

void apply_rotary_pos_emb(const at::Tensor& query, const at::Tensor& key, const at::Tensor& cos,
                          const at::Tensor& sin, int64_t layout) {
  apply_rotary_pos_emb(query, key, cos, sin, layout, "half");
}

void rotary_position_embedding(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                               int64_t mode, const at::Tensor& rotate, const at::Tensor& out) {
  TORCH_CHECK(mode == 0 || mode == 1, "rotary mode ", mode,
              " is not implemented; use 0 (half) or 1 (interleave)");
  TORCH_CHECK(!rotate.defined(), "a rotation matrix is not implemented");
  out.copy_(embedded(x, cos, sin, mode == 0 ? Rotation::Half : Rotation::Interleave));
}

void rotary_position_embedding(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                               int64_t mode, const at::Tensor& out) {
  rotary_position_embedding(x, cos, sin, mode, at::Tensor(), out);
}

// The rotation is antisymmetric: its transpose is its negative.
void rotary_position_embedding_grad(const at::Tensor& dy, const at::Tensor& cos,
                                    const at::Tensor& sin, const at::Tensor& x, int64_t mode,
                                    const at::Tensor& dx, const at::Tensor& dcos,
                                    const at::Tensor& dsin) {
  TORCH_CHECK(mode == 0 || mode == 1, "rotary mode ", mode,
              " is not implemented; use 0 (half) or 1 (interleave)");
  const Rotation rotation = mode == 0 ? Rotation::Half : Rotation::Interleave;
  const at::Tensor grad = dy.to(at::kFloat);
  dx.copy_(grad * cos.to(at::kFloat) - rotated(grad * sin.to(at::kFloat), rotation));
  if (x.defined() && dcos.defined() && dsin.defined()) {
    const at::Tensor wide = x.to(at::kFloat);
    dcos.copy_((grad * wide).sum_to_size(cos.sizes()));
    dsin.copy_((grad * rotated(wide, rotation)).sum_to_size(sin.sizes()));
  }
}

}  // namespace softnpu::ops::kernels
