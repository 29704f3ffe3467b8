// The two phases of every aclnn call. The executor that the first one hands out is the task.
#include <cstring>
#include <exception>

#include "../engine/stream.h"
#include "op_task.h"
#include "recent_error.h"
#include "spec.h"
#include "tensors.h"

namespace softnpu::ops {

namespace {

int record_task(const OpSpec& spec, const Arg* args, aclOpExecutor** executor) {
  const std::string where = std::string(spec.name) + ": ";
  auto task = std::make_unique<OpTask>(spec);
  try {
    task->record(args);
  } catch (const BadParam& bad) {
    return refuse(bad.code, where + bad.text);
  } catch (const c10::Error& error) {
    return refuse(kParamInvalid, where + error.what_without_backtrace());
  } catch (const std::exception& error) {
    return refuse(kInnerError, where + error.what());
  }
  *executor = reinterpret_cast<aclOpExecutor*>(task.release());
  return 0;
}

}  // namespace

int record(const OpSpec& spec, const Arg* args, uint64_t* workspace_size,
           aclOpExecutor** executor) noexcept {
  const std::string where = std::string(spec.name) + ": ";
  if (workspace_size == nullptr || executor == nullptr) {
    return refuse(kNullPointer, where + "workspaceSize or executor is null");
  }
  *workspace_size = 0;
  *executor = nullptr;
  if (spec.stub != nullptr) {
    return refuse(kParamInvalid, where + "softnpu does not implement this operator: " + spec.stub +
                                     " (`softnpu ops` lists what there is)");
  }
  return record_task(spec, args, executor);
}

int launch(const OpSpec& spec, aclOpExecutor* executor, void* stream) noexcept {
  std::unique_ptr<OpTask> task(reinterpret_cast<OpTask*>(executor));
  const std::string where = std::string(spec.name) + ": ";
  if (task == nullptr) {
    return refuse(kNullPointer, where + "executor is null; did GetWorkspaceSize fail?");
  }
  if (&task->spec() != &spec) {
    const std::string made_by = task->name();
    return refuse(kParamInvalid,
                  where + "the executor was made by " + made_by + "GetWorkspaceSize");
  }
  Stream* target = Stream::from_handle(stream);
  if (target == nullptr) {
    return refuse(kParamInvalid, where + "not a live stream of this process");
  }
  spec.launches.fetch_add(1, std::memory_order_relaxed);
  const Error error = target->submit(std::move(task));
  if (!error.failed()) return 0;
  softnpu_set_launch_error(error);
  return kRuntimeError;
}

}  // namespace softnpu::ops

// How often a function of the table was launched in this process, for tests and traces; an unknown
// name was launched never.
SOFTNPU_EXPORT uint64_t softnpu_operator_launches(const char* name) {
  using namespace softnpu::ops;
  for (int i = 0; i < all_specs_count; ++i) {
    if (std::strcmp(all_specs[i]->name, name) == 0) {
      return all_specs[i]->launches.load(std::memory_order_relaxed);
    }
  }
  return 0;
}

// An executor that was never launched, as from a query of the largest workspace.
SOFTNPU_EXPORT int aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  delete reinterpret_cast<softnpu::ops::OpTask*>(executor);
  return 0;
}
