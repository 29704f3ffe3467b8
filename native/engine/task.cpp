#include "task.h"

#include <exception>

namespace softnpu {

const char* task_kind_name(TaskKind kind) {
  switch (kind) {
    case TaskKind::Operator:
      return "OPERATOR";
    case TaskKind::Kernel:
      return "KERNEL";
    case TaskKind::Copy:
      return "MEMCPY_ASYNC";
    case TaskKind::Fill:
      return "MEMSET_ASYNC";
    case TaskKind::EventRecord:
      return "EVENT_RECORD";
    case TaskKind::EventWait:
      return "EVENT_WAIT";
    case TaskKind::EventReset:
      return "EVENT_RESET";
    case TaskKind::ValueWrite:
      return "MEM_WRITE_VALUE";
    case TaskKind::ValueWait:
      return "MEM_WAIT_VALUE";
    case TaskKind::HostFunc:
      return "HOST_FUNC";
    case TaskKind::Graph:
      return "MODEL_EXECUTE";
    case TaskKind::Condition:
      return "CONDITION";
    case TaskKind::Marker:
      return "MARKER";
  }
  return "UNKNOWN";
}

Step run_task(Task& task, RunContext& context) {
  try {
    return task.run(context);
  } catch (const std::exception& exception) {
    context.error = {Code::OperatorFailed, task.name() + " failed: " + exception.what()};
    return Step::Failed;
  }
}

}  // namespace softnpu
