#include "named_inputs.h"

#include <cstring>

namespace softnpu::ops {

int NamedInputs::find(const ParamName& param) const {
  for (int i = 0; i < spec_.params_count; ++i) {
    const char* name = spec_.params[i].name;
    if (std::strcmp(name, param.first) == 0 ||
        (param.second != nullptr && std::strcmp(name, param.second) == 0)) {
      return i;
    }
  }
  return -1;
}

const c10::IValue* NamedInputs::value(const ParamName& param) const {
  const int index = find(param);
  return index < 0 || values_[index].isNone() ? nullptr : &values_[index];
}

const char* NamedInputs::name(const ParamName& param) const {
  const int index = find(param);
  return index < 0 ? param.first : spec_.params[index].name;
}

at::Tensor NamedInputs::tensor(const ParamName& param) const {
  const c10::IValue* found = value(param);
  return found == nullptr ? at::Tensor() : found->toTensor();
}

std::vector<at::Tensor> NamedInputs::tensors(const ParamName& param) const {
  const c10::IValue* found = value(param);
  if (found == nullptr) {
    return {};
  }
  return found->isTensor() ? std::vector<at::Tensor>{found->toTensor()} : found->toTensorVector();
}

std::vector<int64_t> NamedInputs::ints(const ParamName& param) const {
  const c10::IValue* found = value(param);
  return found == nullptr ? std::vector<int64_t>() : found->toIntVector();
}

int64_t NamedInputs::integer(const ParamName& param) const {
  const c10::IValue* found = value(param);
  return found == nullptr ? 0 : found->toInt();
}

double NamedInputs::real(const ParamName& param) const {
  const c10::IValue* found = value(param);
  return found == nullptr ? 0.0 : found->toDouble();
}

bool NamedInputs::boolean(const ParamName& param) const {
  const c10::IValue* found = value(param);
  return found != nullptr && found->toBool();
}

std::string NamedInputs::text(const ParamName& param) const {
  const c10::IValue* found = value(param);
  return found == nullptr ? "" : found->toStringRef();
}

}  // namespace softnpu::ops
