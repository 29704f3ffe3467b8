// One unit of device work: an entry of a stream's queue or a node of a graph.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "error.h"

namespace softnpu {

class Device;
class DeviceMemory;
class Stream;

enum class Step { Done, Blocked, Failed };

enum class TaskKind {
  Operator,
  Kernel,
  Copy,
  Fill,
  EventRecord,
  EventWait,
  EventReset,
  ValueWrite,
  ValueWait,
  HostFunc,
  Graph,
  Condition,
  Marker,
};
const char* task_kind_name(TaskKind kind);

// What a task sees while it runs. `error` is read after Step::Failed.
struct RunContext {
  Device& device;
  Stream& stream;
  std::optional<uint64_t> seed;  // set: where an order is free, it is drawn from here (draw.h)
  bool progressed = false;       // set by a task that blocks after having done some of its work
  bool yields = false;           // set by one that "blocks" only to let other streams go first
  Error error;
};

// run() is called by one executor at a time. A graph keeps its tasks and runs them once per replay,
// so run() must leave the task ready to run again. A task that returns Blocked is asked again
// later.
class Task {
 public:
  virtual ~Task() = default;
  virtual Step run(RunContext& context) = 0;
  virtual TaskKind kind() const = 0;
  // The operator, kernel or call, as a user knows it: "aclnnAdd", "aclrtMemcpyAsync".
  virtual std::string name() const = 0;
  // For debug_dump and hang reports: sizes, addresses, what it waits for.
  virtual std::string detail() const { return {}; }
  // What a blocked task waits for, for hang reports.
  virtual std::string waits_for() const { return {}; }
  // Fails when memory that the task touches is gone. Asked before a replay if memory was freed
  // since.
  virtual Error check_memory(const DeviceMemory&) const { return Error::ok(); }
  // True for a task that only stands for an order between other tasks of a graph.
  virtual bool is_mark() const { return false; }
  // The task will never run: its stream was destroyed or its context failed. Called with the
  // device's lock held.
  virtual void drop() {}

  // The device memory's generation when the task's memory was last known to be live.
  uint64_t memory_generation = 0;
};
using TaskPtr = std::unique_ptr<Task>;

// task.run(), where an exception is a failure of the task.
Step run_task(Task& task, RunContext& context);

}  // namespace softnpu
