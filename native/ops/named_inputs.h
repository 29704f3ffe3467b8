// The arguments of a call by parameter name, for a kernel that several versions of a function
// share: each version adds parameters, and a newer interface may give an old one another name.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "spec.h"

namespace softnpu::ops {

// A parameter, under the names that it has in different functions.
struct ParamName {
  ParamName(const char* name) : first(name) {}  // NOLINT: a plain name is the usual case
  ParamName(const char* name, const char* other) : first(name), second(other) {}
  const char* first;
  const char* second = nullptr;
};

// An absent parameter, and one that this function does not have, reads as undefined, empty or zero.
class NamedInputs {
 public:
  NamedInputs(const OpSpec& spec, const std::vector<c10::IValue>& values)
      : spec_(spec), values_(values) {}

  bool has(const ParamName& param) const { return find(param) >= 0; }  // this function, in any call
  // The name in this function, for messages.
  const char* name(const ParamName& param) const;
  at::Tensor tensor(const ParamName& param) const;
  std::vector<at::Tensor> tensors(
      const ParamName& param) const;  // a single tensor is a list of one
  std::vector<int64_t> ints(const ParamName& param) const;
  int64_t integer(const ParamName& param) const;
  double real(const ParamName& param) const;
  bool boolean(const ParamName& param) const;
  std::string text(const ParamName& param) const;

 private:
  int find(const ParamName& param) const;  // -1: there is none
  const c10::IValue* value(const ParamName& param) const;

  const OpSpec& spec_;
  const std::vector<c10::IValue>& values_;
};

}  // namespace softnpu::ops
