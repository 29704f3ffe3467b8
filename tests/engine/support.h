// What the engine's tests share: tasks made of functions, streams, and a gate that holds a stream.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "context.h"
#include "device.h"
#include "event.h"
#include "graph.h"
#include "operations.h"
#include "stream.h"
#include "task.h"

namespace test {

using namespace softnpu;

class FnTask : public Task {
 public:
  FnTask(std::function<Step(RunContext&)> fn, std::string name, TaskKind kind)
      : fn_(std::move(fn)), name_(std::move(name)), kind_(kind) {}
  Step run(RunContext& context) override { return fn_(context); }
  TaskKind kind() const override { return kind_; }
  std::string name() const override { return name_; }
  std::string waits_for() const override { return "the gate of " + name_; }

 private:
  const std::function<Step(RunContext&)> fn_;
  const std::string name_;
  const TaskKind kind_;
};

inline TaskPtr task(std::function<void()> fn, std::string name = "op",
                    TaskKind kind = TaskKind::Operator) {
  auto body = [fn = std::move(fn)](RunContext&) {
    fn();
    return Step::Done;
  };
  return std::make_unique<FnTask>(std::move(body), std::move(name), kind);
}

inline void run_on(Stream& stream, std::function<void()> fn, std::string name = "op") {
  CHECK_OK(stream.submit(task(std::move(fn), std::move(name))));
}

// Submits a task that fails on the device.
inline void fail_on(Stream& stream, const std::string& message) {
  auto body = [message](RunContext& context) {
    context.error = {Code::OperatorFailed, message};
    return Step::Failed;
  };
  CHECK_OK(stream.submit(std::make_unique<FnTask>(body, "aclnnBroken", TaskKind::Operator)));
}

// A task that holds its stream until the gate is opened.
class Gate {
 public:
  void hold(Stream& stream) {
    auto body = [open = open_](RunContext&) { return open->load() ? Step::Done : Step::Blocked; };
    CHECK_OK(stream.submit(std::make_unique<FnTask>(body, "gate", TaskKind::Operator)));
  }
  void open() { open_->store(true); }

 private:
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

inline Context& use_device(int index = 0) {
  CHECK_OK(Device::select(index));
  return *Context::current();
}

inline Stream& new_stream(Context& context) {
  Stream* stream = nullptr;
  CHECK_OK(context.create_stream(0, &stream));
  return *stream;
}

inline Event& new_event(Context& context, uint32_t flags = kEventSync) {
  Event* event = nullptr;
  CHECK_OK(context.create_event(flags, &event));
  return *event;
}

inline void* new_memory(Device& device, size_t bytes) {
  void* address = nullptr;
  CHECK_OK(device.memory().allocate(bytes, &address));
  return address;
}

inline Graph& end_capture(Stream& stream) {
  Graph* graph = nullptr;
  CHECK_OK(Graph::end(stream, &graph));
  CHECK(graph != nullptr);
  return *graph;
}

// The order in which tasks ran; each appends its letter.
class Trace {
 public:
  void mark(Stream& stream, char letter) {
    run_on(stream, [this, letter] { text_ += letter; });
  }
  const std::string& text() const { return text_; }
  void clear() { text_.clear(); }
  bool before(char first, char second) const { return text_.find(first) < text_.find(second); }

 private:
  std::string text_;  // touched by the executor alone, or after a synchronise
};

}  // namespace test
