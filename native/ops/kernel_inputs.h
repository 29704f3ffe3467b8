// A hand-written operator's view of its arguments; the generator writes the calls, so a kernel is a
// plain typed function (kernels.gen.h has the declarations).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

#include "spec.h"
#include "tensors.h"

namespace softnpu::ops {

// An output whose size is known only after the run: the memory holds the largest possible result.
struct DynamicOutput {
  const at::Tensor& memory;
  const aclTensor* handle;
  // Copies the result to the start of the memory and tells its size to aclGetViewShape.
  void set(const at::Tensor& result) const;
};

class KernelInputs {
 public:
  KernelInputs(const std::vector<c10::IValue>& values, const std::vector<const aclTensor*>& dynamic)
      : values_(values), dynamic_(dynamic) {}

  // An absent optional tensor is undefined.
  at::Tensor tensor(int i) const {
    return values_[i].isNone() ? at::Tensor() : values_[i].toTensor();
  }
  DynamicOutput dynamic(int i) const { return {values_[i].toTensor(), dynamic_[i]}; }
  std::vector<at::Tensor> tensors(int i) const { return values_[i].toTensorVector(); }
  at::Scalar scalar(int i) const { return values_[i].toScalar(); }
  std::optional<at::Scalar> opt_scalar(int i) const {
    return values_[i].isNone() ? std::nullopt : std::optional(values_[i].toScalar());
  }
  std::vector<int64_t> ints(int i) const { return values_[i].toIntVector(); }
  std::optional<std::vector<int64_t>> opt_ints(int i) const {
    return values_[i].isNone() ? std::nullopt : std::optional(values_[i].toIntVector());
  }
  std::vector<bool> bools(int i) const {
    const auto list = values_[i].toBoolList();
    return {list.begin(), list.end()};
  }
  std::optional<at::ScalarType> dtype(int i) const {
    return values_[i].isNone() ? std::nullopt : std::optional(values_[i].toScalarType());
  }
  int64_t integer(int i) const { return values_[i].toInt(); }
  double real(int i) const { return values_[i].toDouble(); }
  bool boolean(int i) const { return values_[i].toBool(); }
  std::string text(int i) const { return values_[i].isNone() ? "" : values_[i].toStringRef(); }

 private:
  const std::vector<c10::IValue>& values_;
  const std::vector<const aclTensor*>& dynamic_;
};

}  // namespace softnpu::ops
