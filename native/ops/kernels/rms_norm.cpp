// RMS normalisation over the trailing dimensions of gamma: y = x * rstd * gamma with
// rstd = 1 / sqrt(mean(x^2) + epsilon), all in fp32, rounded once at the end.
#include <ATen/ops/rsqrt.h>

#include "kernels.gen.h"

namespace softnpu::ops::kernels {

namespace {

std::vector<int64_t> trailing(const at::Tensor& gamma) {
  std::vector<int64_t> dims;
  for (int64_t d = -gamma.dim(); d < 0; ++d) {
    dims.push_back(d);
  }
  return dims;
}

at::Tensor inverse_rms(const at::Tensor& x, const at::Tensor& gamma, double epsilon) {
  return at::rsqrt((x * x).mean(trailing(gamma), true) + epsilon);
}

// Returns the fp32 result; `scale` is gamma, or 1 + gamma in Gemma's form.
at::Tensor normalise(const at::Tensor& x, const at::Tensor& scale, double epsilon,
                     const at::Tensor& rstd) {
  const at::Tensor inverse = inverse_rms(x, scale, epsilon);
  if (rstd.defined() && rstd.numel() > 0) {
    rstd.copy_(inverse.view_as(rstd));
  }
  return x * inverse * scale;
}

}  // namespace

void rms_norm(const at::Tensor& x, const at::Tensor& gamma, double epsilon, const at::Tensor& y,
              const at::Tensor& rstd) {
  y.copy_(normalise(x.to(at::kFloat), gamma.to(at::kFloat), epsilon, rstd));
}

void gemma_rms_norm(const at::Tensor& x, const at::Tensor& gamma, double epsilon,
                    const at::Tensor& y, const at::Tensor& rstd) {
  y.copy_(normalise(x.to(at::kFloat), gamma.to(at::kFloat) + 1, epsilon, rstd));
}

void add_rms_norm(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& gamma,
                  double epsilon, const at::Tensor& y, const at::Tensor& rstd,
                  const at::Tensor& x) {
  const at::Tensor sum = x1.to(at::kFloat) + x2.to(at::kFloat);
  x.copy_(sum);
  y.copy_(normalise(sum, gamma.to(at::kFloat), epsilon, rstd));
}

void add_rms_norm_cast(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& gamma,
                       double epsilon, const at::Tensor& y1, const at::Tensor& y2,
                       const at::Tensor& rstd, const at::Tensor& x) {
  add_rms_norm(x1, x2, gamma, epsilon, y2, rstd, x);
  y1.copy_(y2);
}

// The sum replaces x2, the normalised value x1.
void inplace_add_rms_norm(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& gamma,
                          double epsilon, const at::Tensor& rstd) {
  const at::Tensor sum = x1.to(at::kFloat) + x2.to(at::kFloat);
  x2.copy_(sum);
  x1.copy_(normalise(sum, gamma.to(at::kFloat), epsilon, rstd));
}

void rms_norm_grad(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd,
                   const at::Tensor& gamma, const at::Tensor& dx, const at::Tensor& dgamma) {
  const at::Tensor grad = dy.to(at::kFloat);
  const at::Tensor normal = x.to(at::kFloat) * rstd;
  const at::Tensor scaled = grad * gamma.to(at::kFloat);
  dx.copy_(rstd * (scaled - normal * (scaled * normal).mean(trailing(gamma), true)));
  std::vector<int64_t> leading;
  for (int64_t d = 0; d < x.dim() - gamma.dim(); ++d) {
    leading.push_back(d);
  }
  dgamma.copy_(leading.empty() ? grad * normal : (grad * normal).sum(leading));
}

}  // namespace softnpu::ops::kernels
