// A stream: tasks run in order, asynchronously to the host.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "error.h"
#include "task.h"

namespace softnpu {

class Context;
class Device;
class Graph;
struct TaskGroup;

enum class CaptureStatus { None = 0, Active = 1, Invalidated = 2 };

class Stream {
 public:
  Stream(Context& context, uint32_t id, uint32_t flags, bool is_default);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // The live stream behind a handle (a Stream*), or nullptr. A null handle is the default stream of
  // the calling thread's current context.
  static Stream* from_handle(void* handle);

  // Gives a task to the device, or records it where the stream captures.
  Error submit(TaskPtr task);

  // True when nothing is queued or running. Fails on a capturing stream and after a device error.
  Error query(bool* idle);
  // Waits until all that was submitted before has run; a negative time-out waits for ever.
  Error synchronize(int timeout_ms = -1);

  // Lock-free: asked by the allocator and by every operator. *graph is null exactly for None; it
  // must not be looked into unless Graph::of() says that it is still there.
  CaptureStatus capture_info(Graph** graph) const {
    const uintptr_t word = capture_.load(std::memory_order_acquire);
    *graph = reinterpret_cast<Graph*>(word & ~kInvalidated);
    if (!word) return CaptureStatus::None;
    return word & kInvalidated ? CaptureStatus::Invalidated : CaptureStatus::Active;
  }
  CaptureStatus capture_status() const {
    Graph* graph = nullptr;
    return capture_info(&graph);
  }
  Graph* capturing() const {
    Graph* graph = nullptr;
    (void)capture_info(&graph);
    return graph;
  }

  Context& context() const { return context_; }
  Device& device() const;
  uint32_t id() const { return id_; }
  uint32_t flags() const { return flags_; }
  bool is_default() const { return is_default_; }
  std::string describe() const;  // "stream 3 of device 0"

 private:
  friend class Device;
  friend class Graph;
  friend class Context;

  Context& context_;
  const uint32_t id_;
  const uint32_t flags_;
  const bool is_default_;
  // The graph that captures this stream, and in the lowest bit whether its capture is invalidated:
  // one word, so that both are read at once. Written under that graph's mutex.
  static constexpr uintptr_t kInvalidated = 1;
  std::atomic<uintptr_t> capture_{0};
  int lane_ = -1;  // this stream's lane in capture_; guarded by that graph's mutex

  Error add_update(TaskPtr task);

  // While a task group is being updated here, submitted tasks are collected instead of queued.
  // Touched by the updating calls only.
  std::shared_ptr<TaskGroup> updating_;
  std::vector<TaskPtr> updates_;

  // Guarded by Device::mutex_.
  std::deque<TaskPtr> queue_;
  uint64_t submitted_ = 0;       // tasks ever queued
  uint64_t completed_ = 0;       // tasks ever run or dropped
  bool active_ = false;          // in the device's list of streams with work
  bool running_ = false;         // its head task is being run
  bool freeing_ = false;         // a task that has run is being freed
  uint64_t blocked_at_ = ~0ull;  // the device's progress when its head last blocked
};

}  // namespace softnpu
