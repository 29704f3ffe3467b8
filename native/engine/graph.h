// A captured graph ("model RI"): tasks recorded instead of run, replayed later in their order.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "error.h"
#include "stream.h"
#include "task.h"

namespace softnpu {

class Context;
class Event;

enum class CaptureMode { Global = 0, ThreadLocal = 1, Relaxed = 2 };

class Graph : public std::enable_shared_from_this<Graph> {
 public:
  struct Node {
    TaskPtr task;
    int lane;                // which of the captured streams
    int depends = -1;        // EventWait: the node that records
    int group = -1;          // task group
  };

  static Graph* from_handle(void* handle);  // live graphs only, else nullptr

  // The graph exists from here on and is the one that end() returns.
  static Error begin(Stream& stream, CaptureMode mode);
  static Error begin_into(Stream& stream, Graph& graph, CaptureMode mode);
  // On failure the graph is destroyed and *out is null.
  static Error end(Stream& stream, Graph** out);
  static Error info(Stream& stream, CaptureStatus* status, Graph** graph);
  // Swaps the calling thread's mode.
  static void exchange_thread_mode(CaptureMode* mode);

  // Calls that the capture mode may forbid (synchronous copy and memset, pageable async copies).
  static Error check_unsafe_call(Context& context, const char* call);

  Error replay(Stream& stream);                 // aclmdlRIExecuteAsync
  Error execute(int timeout_ms);                // aclmdlRIExecute
  Error destroy();
  Error dump_json(const std::string& path, bool verbose) const;
  Error on_destroy(void (*callback)(void*), void* data, bool add);

  static Error task_group_begin(Stream& stream);
  static Error task_group_end(Stream& stream, void** handle);
  static Error task_update_begin(Stream& stream, void* handle);
  static Error task_update_end(Stream& stream);

  uint32_t id() const { return id_; }
  CaptureStatus status() const { return status_.load(std::memory_order_acquire); }
  Error set_name(const std::string& name);
  std::string name() const;
  std::vector<Stream*> streams() const;
  size_t node_count() const;

 private:
  friend class Stream;
  friend class Event;
  friend class GraphRun;
  // (internals live in graph.cpp and capture.cpp)
 public:
  struct Capture;
  Graph(Context& context, uint32_t id);
  ~Graph();

 private:
  Error record(Stream& stream, TaskPtr task, int depends, int* index);
  Error invalidate(Error reason);  // returns the reason

  Context& context_;
  const uint32_t id_;
  std::atomic<CaptureStatus> status_{CaptureStatus::None};
  std::atomic<int> running_{0};             // replays queued or under way
  mutable std::mutex mutex_;                // guards all below
  std::string name_;
  std::vector<Node> nodes_;
  std::vector<std::string> lanes_;          // description of each captured stream
  std::vector<uint32_t> lane_ids_;
  std::unique_ptr<Capture> capture_;        // while capturing
  std::vector<std::pair<void (*)(void*), void*>> on_destroy_;
};

}  // namespace softnpu
