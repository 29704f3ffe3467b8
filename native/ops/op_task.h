// One recorded operator: the device task that computes it, once or at every replay of a graph.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

#include "../engine/task.h"
#include "spec.h"

namespace softnpu::ops {

// An output as it was passed, to notice an operator that would have changed its shape.
struct OutputShape {
  int param;
  at::Tensor tensor;
  std::vector<int64_t> sizes;
};

// What is made anew at each run: a value in device memory, a dense copy, dense memory for an
// output.
struct LateValue {
  size_t position;  // in the stack
  const Source* source;
};

class OpTask final : public Task {
 public:
  explicit OpTask(const OpSpec& spec) : spec_(spec) {}
  ~OpTask() override;

  // Converts the arguments; throws BadParam or c10::Error. Called once, before the task is
  // submitted.
  void record(const Arg* args);

  Step run(RunContext& context) override;
  TaskKind kind() const override { return TaskKind::Operator; }
  std::string name() const override { return spec_.name; }
  std::string detail() const override;
  Error check_memory(const DeviceMemory& memory) const override;
  const OpSpec& spec() const { return spec_; }

 private:
  void check_not_null(const Arg* args) const;
  void keep_output(int param, const at::Tensor& tensor);
  c10::IValue value_of(int param, const Arg& arg);
  void call_aten();
  void call_kernel();
  bool is_late(const Source& source) const;
  c10::IValue late_value(const LateValue& late);
  void store_strided_outputs();
  void copy_results();
  void copy_result(int param, const at::Tensor& result);
  void check_outputs() const;

  const OpSpec& spec_;
  std::vector<c10::IValue> values_;  // the parameters by position, where something needs them
  torch::jit::Stack inputs_;         // the ATen call's arguments, as recorded
  torch::jit::Stack stack_;          // those of the running call, then its results
  std::vector<OutputShape> outputs_;
  std::vector<LateValue> late_;
  std::vector<std::pair<int, at::Tensor>> dense_outputs_;  // of the running call, by parameter
  PreparedRun prepared_;
  std::vector<const aclTensor*> dynamic_;  // retained, by parameter; nullptr elsewhere
};

// The dispatcher's entry for a row's ATen operator.
const c10::OperatorHandle& resolve(const OpSpec& spec);

}  // namespace softnpu::ops
