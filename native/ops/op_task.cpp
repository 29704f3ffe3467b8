#include "op_task.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <sstream>

#include "../engine/memory.h"
#include "kernel_inputs.h"
#include "named_inputs.h"
#include "sources.h"
#include "tensors.h"

namespace softnpu::ops {

namespace {

std::string shape_text(at::IntArrayRef sizes) {
  std::ostringstream text;
  text << sizes;
  return text.str();
}

bool nullable(Kind kind) {
  switch (kind) {
    case Kind::OptTensor:
    case Kind::OptOutput:
    case Kind::OptTensorList:
    case Kind::OptScalar:
    case Kind::OptIntArray:
    case Kind::String:
      return true;
    // op-plugin passes a null list for an empty one.
    case Kind::TensorList:
    case Kind::OutputList:
      return true;
    case Kind::DType:
    case Kind::Int:
    case Kind::Real:
    case Kind::Bool:
      return true;
    default:
      return false;
  }
}

}  // namespace

const c10::OperatorHandle& resolve(const OpSpec& spec) {
  if (const void* known = spec.resolved.load(std::memory_order_acquire)) {
    return *static_cast<const c10::OperatorHandle*>(known);
  }
  // Lives as long as the process; two threads that race keep one copy each.
  const auto* found = new c10::OperatorHandle(
      c10::Dispatcher::singleton().findSchemaOrThrow(spec.aten, spec.overload));
  spec.resolved.store(found, std::memory_order_release);
  return *found;
}

OpTask::~OpTask() {
  for (const aclTensor* handle : dynamic_) {
    release(handle);
  }
}

std::string OpTask::detail() const {
  std::ostringstream text;
  text << spec_.name << "(";
  for (int i = 0; i < spec_.params_count; ++i) {
    text << (i > 0 ? ", " : "") << spec_.params[i].name << "=";
    if (!values_[i].isTensor()) {
      text << values_[i];
    } else if (const at::Tensor& tensor = values_[i].toTensor(); tensor.defined()) {
      text << tensor.scalar_type() << tensor.sizes() << "@" << tensor.unsafeGetTensorImpl()->data();
    }
  }
  text << ")";
  return text.str();
}

Error OpTask::check_memory(const DeviceMemory& memory) const {
  const auto check = [&](int param, const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.numel() == 0) {
      return Error::ok();
    }
    const size_t bytes =
        at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
    return memory.check(tensor.const_data_ptr(), bytes,
                        std::string(spec_.name) + ", '" + spec_.params[param].name + "'");
  };
  for (int i = 0; i < spec_.params_count; ++i) {
    Error error;
    if (values_[i].isTensor()) {
      error = check(i, values_[i].toTensor());
    } else if (values_[i].isTensorList()) {
      for (const at::Tensor& tensor : values_[i].toTensorVector()) {
        error = error.failed() ? error : check(i, tensor);
      }
    }
    if (error.failed()) {
      return error;
    }
  }
  return Error::ok();
}

void OpTask::check_not_null(const Arg* args) const {
  for (int i = 0; i < spec_.params_count; ++i) {
    if (args[i].pointer == nullptr && !nullable(spec_.params[i].kind)) {
      throw BadParam{kNullPointer, std::string("'") + spec_.params[i].name + "' is null"};
    }
  }
}

void OpTask::keep_output(int param, const at::Tensor& tensor) {
  if (tensor.defined()) {
    outputs_.push_back({param, tensor, tensor.sizes().vec()});
  }
}

c10::IValue OpTask::value_of(int param, const Arg& arg) {
  const Param& spec = spec_.params[param];
  c10::IValue value = param_value(spec, arg);
  if (spec.kind == Kind::Output || spec.kind == Kind::OptOutput) {
    if (value.isTensor()) {
      keep_output(param, value.toTensor());
    }
  } else if (spec.kind == Kind::OutputList) {
    for (const at::Tensor& item : value.toTensorVector()) {
      keep_output(param, item);
    }
  } else if (spec.kind == Kind::DynamicOutput) {
    const auto* handle = static_cast<const aclTensor*>(arg.pointer);
    retain(handle);
    dynamic_.resize(spec_.params_count, nullptr);
    dynamic_[param] = handle;
  }
  return value;
}

void OpTask::record(const Arg* args) {
  check_not_null(args);
  values_.reserve(spec_.params_count);
  for (int i = 0; i < spec_.params_count; ++i) {
    values_.push_back(value_of(i, args[i]));
  }
  inputs_.reserve(spec_.sources_count);
  for (int i = 0; i < spec_.sources_count; ++i) {
    const Source& source = spec_.sources[i];
    if (is_late(source)) {
      late_.push_back({inputs_.size(), &source});
      inputs_.push_back(source.as == As::Generator ? c10::IValue(new_generator()) : c10::IValue());
    } else {
      inputs_.push_back(source_value(source, spec_, values_));
    }
  }
  if (spec_.aten != nullptr) {
    resolve(spec_);
  } else if (spec_.prepare != nullptr) {
    prepared_ = spec_.prepare(NamedInputs(spec_, values_));
  }
}

bool OpTask::is_late(const Source& source) const {
  switch (source.as) {
    case As::Item:
    case As::Generator:
      return true;
    // Some CPU kernels write an output as if it were dense, whatever its strides.
    case As::Out:
    case As::Contiguous: {
      const c10::IValue& value = values_[source.param];
      return value.isTensor() && !value.toTensor().is_contiguous();
    }
    default:
      return false;
  }
}

c10::IValue OpTask::late_value(const LateValue& late) {
  const int param = late.source->param;
  switch (late.source->as) {
    case As::Item:
      return values_[param].toTensor().item();
    case As::Contiguous:
      return values_[param].toTensor().contiguous();
    case As::Out: {
      const at::Tensor& output = values_[param].toTensor();
      dense_outputs_.emplace_back(param, at::empty(output.sizes(), output.options()));
      return dense_outputs_.back().second;
    }
    default:
      seed_generator(inputs_[late.position], *late.source, values_);
      return inputs_[late.position];
  }
}

void OpTask::store_strided_outputs() {
  for (const auto& [param, dense] : dense_outputs_) {
    values_[param].toTensor().copy_(dense);
  }
  dense_outputs_.clear();
}

void OpTask::copy_result(int param, const at::Tensor& result) {
  if (!result.defined()) {
    return;
  }
  if (spec_.params[param].kind == Kind::DynamicOutput) {
    DynamicOutput{values_[param].toTensor(), dynamic_[param]}.set(result);
    return;
  }
  if (values_[param].isNone()) {
    return;  // the caller did not ask for this output
  }
  const at::Tensor& output = values_[param].toTensor();
  if (output.numel() == 0 && result.numel() == 0) {
    return;
  }
  TORCH_CHECK(output.sizes() == result.sizes(), "output '", spec_.params[param].name,
              "' has shape ", shape_text(output.sizes()), ", the operator computes ",
              shape_text(result.sizes()));
  output.copy_(result);
}

void OpTask::copy_results() {
  for (int i = 0; i < spec_.copies_count; ++i) {
    const int param = spec_.copies[i];
    if (param < 0) {
      continue;
    }
    if (!stack_[i].isTensorList()) {
      copy_result(param, stack_[i].toTensor());
      continue;
    }
    const auto results = stack_[i].toTensorVector();
    const auto targets = values_[param].toTensorVector();
    TORCH_CHECK(results.size() == targets.size(), "output '", spec_.params[param].name, "' lists ",
                targets.size(), " tensors, the operator computes ", results.size());
    for (size_t k = 0; k < results.size(); ++k) {
      TORCH_CHECK(results[k].sizes() == targets[k].sizes(), "output '", spec_.params[param].name,
                  "' has shape ", shape_text(targets[k].sizes()), " at ", k,
                  ", the operator computes ", shape_text(results[k].sizes()));
      targets[k].copy_(results[k]);
    }
  }
}

void OpTask::check_outputs() const {
  for (const OutputShape& output : outputs_) {
    TORCH_CHECK(output.tensor.sizes() == at::IntArrayRef(output.sizes), "output '",
                spec_.params[output.param].name, "' has shape ", shape_text(output.sizes),
                ", the operator computes ", shape_text(output.tensor.sizes()));
  }
}

void OpTask::call_aten() {
  stack_.assign(inputs_.begin(), inputs_.end());
  dense_outputs_.clear();
  for (const LateValue& late : late_) {
    stack_[late.position] = late_value(late);
  }
  // All of it is plain CPU memory, so the key set need not be computed from the arguments.
  resolve(spec_).redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
  copy_results();
  store_strided_outputs();
  check_outputs();
  stack_.clear();
}

void OpTask::call_kernel() {
  if (prepared_) {
    prepared_();
  } else {
    spec_.kernel(KernelInputs(values_, dynamic_));
  }
  check_outputs();
}

Step OpTask::run(RunContext& context) {
  std::string why;
  try {
    if (spec_.aten != nullptr) {
      call_aten();
    } else {
      call_kernel();
    }
    return Step::Done;
  } catch (const c10::Error& error) {
    why = error.what_without_backtrace();
  } catch (const std::exception& error) {
    why = error.what();
  }
  context.error = Error(Code::OperatorFailed, std::string(spec_.name) + ": " + why);
  return Step::Failed;
}

void DynamicOutput::set(const at::Tensor& result) const {
  TORCH_CHECK(result.numel() <= memory.numel(), "the result has ", result.numel(),
              " elements, the output's memory holds ", memory.numel());
  if (result.numel() > 0) {
    const auto dense = result.to(memory.scalar_type()).contiguous();
    memory.as_strided({result.numel()}, {1}).copy_(dense.view({-1}));
  }
  auto* target = const_cast<aclTensor*>(handle);
  target->sizes = result.sizes().vec();
}

}  // namespace softnpu::ops
