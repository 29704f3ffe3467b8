#include "sources.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/List.h>

#include <algorithm>

#include "tensors.h"

namespace softnpu::ops {

namespace {

template <typename T>
const T& as(const Arg& arg) {
  return *static_cast<const T*>(arg.pointer);
}

c10::IValue tensor_list(const Param& spec, const Arg& arg) {
  c10::List<at::Tensor> list;
  if (arg.pointer == nullptr) {
    return list;
  }
  const auto& items = as<aclTensorList>(arg).items;
  list.reserve(items.size());
  for (const aclTensor* item : items) {
    list.push_back(item == nullptr ? at::Tensor() : view_of(*item, spec.name));
  }
  return list;
}

c10::IValue scalar_list(const Param& spec, const Arg& arg) {
  c10::List<at::Scalar> list;
  for (const aclScalar* item : as<aclScalarList>(arg).items) {
    if (item == nullptr) {
      throw BadParam{kNullPointer, std::string("'") + spec.name + "' holds a null scalar"};
    }
    list.push_back(scalar_of(*item, spec.name));
  }
  return list;
}

c10::IValue dtype_value(const Param& spec, int64_t acl_dtype) {
  constexpr int64_t kUndefined = -1;
  if (acl_dtype == kUndefined) {
    return {};
  }
  const auto type = scalar_type(static_cast<int32_t>(acl_dtype));
  if (!type) {
    throw BadParam{kParamInvalid, std::string("'") + spec.name + "' is aclDataType " +
                                      std::to_string(acl_dtype) +
                                      ", which softnpu's operators do not compute with"};
  }
  return static_cast<int64_t>(*type);
}

c10::IValue array_value(const Param& spec, const Arg& arg) {
  if (spec.kind == Kind::FloatArray) {
    const auto& values = as<aclFloatArray>(arg).values;
    return c10::IValue(std::vector<double>(values.begin(), values.end()));
  }
  if (spec.kind == Kind::BoolArray) {
    c10::List<bool> list;
    for (const uint8_t value : as<aclBoolArray>(arg).values) {
      list.push_back(value != 0);
    }
    return list;
  }
  return c10::IValue(as<aclIntArray>(arg).values);
}

// op-plugin marks an index that selects everything by a tensor of size [0] with the dtype of the
// indexed tensor. All real indices have one common shape, so beside a non-empty index it can only
// be the mark; alone it is one when its dtype can't index.
bool selects_all(const at::Tensor& index, bool any_filled) {
  if (!index.defined()) {
    return true;
  }
  if (index.dim() != 1 || index.numel() != 0) {
    return false;
  }
  const auto type = index.scalar_type();
  const bool can_index =
      type == at::kLong || type == at::kInt || type == at::kBool || type == at::kByte;
  return any_filled || !can_index;
}

c10::IValue opt_tensor_list(const c10::IValue& tensors) {
  c10::List<std::optional<at::Tensor>> list;
  const auto items = tensors.toTensorVector();
  const bool any_filled = std::any_of(items.begin(), items.end(), [](const at::Tensor& item) {
    return item.defined() && item.numel() > 0;
  });
  for (const at::Tensor& item : items) {
    list.push_back(selects_all(item, any_filled) ? std::nullopt : std::optional(item));
  }
  return list;
}

c10::IValue constant(const Source& source) {
  switch (source.as) {
    case As::ConstInt:
      return source.integer;
    case As::ConstBool:
      return source.integer != 0;
    case As::ConstReal:
      return source.real;
    case As::ConstIntList:
      return c10::IValue(std::vector<int64_t>(source.list, source.list + source.integer));
    case As::ConstString:
      return std::string(source.text);
    default:
      return {};
  }
}

c10::IValue pick(const Source& source, const OpSpec& spec, int64_t choice) {
  if (choice < 0 || choice >= source.integer) {
    throw BadParam{kParamInvalid, std::string("'") + spec.params[source.param].name + "' is " +
                                      std::to_string(choice) + ", known are 0 to " +
                                      std::to_string(source.integer - 1)};
  }
  const char* text = source.texts[choice];
  return text == nullptr ? c10::IValue() : c10::IValue(std::string(text));
}

c10::IValue real_value(const c10::IValue& value) {
  return value.isNone() ? value : c10::IValue(value.toScalar().toDouble());
}

}  // namespace

namespace {

bool only_float32(const std::vector<c10::IValue>& values) {
  return std::all_of(values.begin(), values.end(), [](const c10::IValue& value) {
    return !value.isTensor() || !value.toTensor().defined() ||
           value.toTensor().scalar_type() == at::kFloat;
  });
}

}  // namespace

c10::IValue param_value(const Param& spec, const Arg& arg) {
  switch (spec.kind) {
    case Kind::Int:
      return arg.integer;
    case Kind::Bool:
      return arg.integer != 0;
    case Kind::Real:
      return arg.real;
    case Kind::DType:
      return dtype_value(spec, arg.integer);
    case Kind::TensorList:
    case Kind::OptTensorList:
    case Kind::OutputList:
      return tensor_list(spec, arg);
    default:
      break;
  }
  if (arg.pointer == nullptr) {
    return {};
  }
  switch (spec.kind) {
    case Kind::Scalar:
    case Kind::OptScalar:
      return scalar_of(as<aclScalar>(arg), spec.name);
    case Kind::ScalarList:
      return scalar_list(spec, arg);
    case Kind::IntArray:
    case Kind::OptIntArray:
    case Kind::FloatArray:
    case Kind::BoolArray:
      return array_value(spec, arg);
    case Kind::String:
      return std::string(static_cast<const char*>(arg.pointer));
    default:
      return view_of(as<aclTensor>(arg), spec.name);
  }
}

c10::IValue source_value(const Source& source, const OpSpec& spec,
                         const std::vector<c10::IValue>& values) {
  if (source.param < 0) {
    return constant(source);
  }
  const c10::IValue& value = values[source.param];
  switch (source.as) {
    case As::Undefined:
      return value.isNone() ? c10::IValue(at::Tensor()) : value;
    case As::WrappedNumber:
      return value.isNone() ? value : wrapped_number(value.toScalar(), only_float32(values));
    case As::OptTensorList:
      return opt_tensor_list(value);
    case As::Real:
      return real_value(value);
    case As::Int:
      return value.isNone() ? value : c10::IValue(value.toScalar().toLong());
    case As::DTypeOf:
      return static_cast<int64_t>(value.toTensor().scalar_type());
    case As::Pick:
      return pick(source, spec, value.toInt());
    case As::First:
      return c10::List<at::Tensor>({value.toTensor()});
    case As::OptDType:
    case As::Value:
    case As::Out:
    case As::Contiguous:
      return value;
    default:
      throw BadParam{kInnerError, std::string(spec.name) + ": the generated table is inconsistent"};
  }
}

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014) over the pair.
uint64_t mixed_seed(uint64_t seed, uint64_t offset) {
  uint64_t mixed = seed + 0x9E3779B97F4A7C15ull * (offset + 1);
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
  return mixed ^ (mixed >> 31);
}

at::Generator new_generator() { return at::detail::createCPUGenerator(0); }

void seed_generator(const c10::IValue& generator, const Source& source,
                    const std::vector<c10::IValue>& values) {
  uint64_t offset = 0;
  uint64_t seed = 0;
  for (int64_t i = 0; i < source.integer; ++i) {
    const c10::IValue& value = values[source.list[i]];
    const auto part =
        static_cast<uint64_t>(value.isTensor() ? value.toTensor().item<int64_t>() : value.toInt());
    (i == 0 ? seed : offset) += part;
  }
  at::Generator target = generator.toGenerator();
  target.set_current_seed(mixed_seed(seed, offset));
}

}  // namespace softnpu::ops
