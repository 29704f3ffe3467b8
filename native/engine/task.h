// One unit of device work: an entry of a stream's queue or a node of a graph.
#pragma once

#include <memory>
#include <string>

#include "error.h"

namespace softnpu {

class Device;
class Stream;

enum class Step { Done, Blocked, Failed };

enum class TaskKind {
  Operator, Kernel, Copy, Fill, EventRecord, EventWait, EventReset, ValueWrite, ValueWait,
  HostFunc, Graph, Condition, Marker,
};
const char* task_kind_name(TaskKind kind);

// What a task sees while it runs. `error` is read after Step::Failed.
struct RunContext {
  Device& device;
  Stream& stream;
  Error error;
};

// run() is called by one executor at a time. A graph keeps its tasks and runs them once per replay,
// so run() must leave the task ready to run again. A task that returns Blocked is asked again later.
class Task {
 public:
  virtual ~Task() = default;
  virtual Step run(RunContext& context) = 0;
  virtual TaskKind kind() const = 0;
  // The operator, kernel or call, as a user knows it: "aclnnAdd", "aclrtMemcpyAsync".
  virtual std::string name() const = 0;
  // For debug_dump and hang reports: sizes, addresses, what it waits for.
  virtual std::string detail() const { return {}; }
};
using TaskPtr = std::unique_ptr<Task>;

}  // namespace softnpu
