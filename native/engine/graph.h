// A captured graph ("model RI"): tasks recorded instead of run, replayed later in their order.
// Capturing is in capture.cpp, task groups in task_group.cpp, replaying in graph_run.cpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "error.h"
#include "stream.h"
#include "task.h"

namespace softnpu {

class Context;
class Event;

enum class CaptureMode { Global = 0, ThreadLocal = 1, Relaxed = 2 };

struct GraphNode {
  TaskPtr task;
  int lane;          // index into the captured streams
  int depends = -1;  // for a wait: the node that records
};

// Consecutive tasks of one stream, captured between group begin and end, that can be replaced.
struct TaskGroup {
  ~TaskGroup();
  static std::shared_ptr<TaskGroup> find(void* handle);  // live groups only, else nullptr

  std::weak_ptr<Graph> graph;
  size_t first = 0;
  size_t count = 0;
};

enum class ConditionKind { If = 0, While = 1, Switch = 2 };

struct Condition {
  Graph& graph;
  uint64_t initial;
  bool assign_default;
  uint64_t* cell;  // device memory
  static Condition* from_handle(void* handle);
};

class Graph : public std::enable_shared_from_this<Graph> {
 public:
  Graph(Context& context, uint32_t id);
  ~Graph();
  static Graph* from_handle(void* handle);  // live graphs only, else nullptr
  // The graph that captures this stream, or nullptr.
  static std::shared_ptr<Graph> of(const Stream& stream);

  // Capture. The graph exists from begin() on and is the one that end() returns; when end() fails
  // the graph is gone.
  static Error begin(Stream& stream, CaptureMode mode);
  static Error end(Stream& stream, Graph** out);
  // Swaps the calling thread's mode with *mode.
  static void exchange_thread_mode(CaptureMode* mode);
  // What a capture of `context` may forbid this thread: synchronous copies and memsets.
  static Error check_unsafe_call(Context& context, const char* call);
  // Asynchronous copies with pageable host memory, on this stream.
  static Error check_pageable(Stream& stream, const char* call);
  static Error refuse_context_wait(Context& context);
  Error refuse_wait(Stream& stream, const char* call);
  Error record(Stream& stream, TaskPtr task);
  Error record_event(Stream& stream, Event& event);
  // *recorded stays false where the wait has nothing to do with a capture.
  static Error wait_event(Stream& stream, Event& event, bool* recorded);
  // The stream is about to be destroyed.
  void abandon(Stream& stream);

  // Conditional nodes: a cell in device memory that a captured task may write decides, when the
  // node is reached, whether and which body graph runs. With `assign_default` every replay of this
  // graph first sets the cell to `initial`.
  Error create_condition(uint64_t initial, bool assign_default, Condition** out);
  // Adds the node to the capture of `stream`; `bodies` are new graphs of this graph's, to be
  // captured with begin_into() before this capture ends.
  static Error add_conditional(Stream& stream, Condition& condition, ConditionKind kind,
                               size_t count, Graph** bodies);
  static Error begin_into(Stream& stream, Graph& body, CaptureMode mode);

  // Task groups. The handle is valid as long as the graph.
  static Error group_begin(Stream& stream);
  static Error group_end(Stream& stream, void** handle);
  static Error update_begin(Stream& stream, void* handle);
  static Error update_end(Stream& stream);

  Error replay(Stream& stream);
  Error execute(int timeout_ms);
  Error destroy();
  // Chrome-trace events, one per node; `verbose` adds each task's details.
  Error dump_json(const std::string& path, bool verbose) const;
  Error add_destroy_callback(void (*callback)(void*), void* data);
  Error remove_destroy_callback(void (*callback)(void*));

  uint32_t id() const { return id_; }
  CaptureStatus status() const { return status_.load(std::memory_order_acquire); }
  bool captured() const { return ready_.load(std::memory_order_acquire); }
  void set_name(const std::string& name);
  std::string name() const;
  std::vector<Stream*> streams() const;
  size_t node_count() const;
  std::string describe() const;  // "graph 3"

 private:
  friend class GraphRun;
  friend class ConditionalTask;
  friend class UpdateTask;
  struct Capture {
    Stream* origin = nullptr;
    CaptureMode mode = CaptureMode::Global;
    std::thread::id thread;
    Error reason;  // why it was invalidated
    Stream* group_stream = nullptr;
    size_t group_first = 0;
  };

  static Error start(Stream& stream, const std::shared_ptr<Graph>& graph, CaptureMode mode);
  static uint32_t next_id();
  Error check_bodies() const;  // mutex_ held
  void release_conditions();
  void assign_condition_defaults();
  void cancel();
  Error invalidate(const Error& reason);  // mutex_ held; returns the reason
  Error check_open(const Stream& stream, const std::string& what);   // mutex_ held
  Error check_group(const Stream& stream, const std::string& what);  // mutex_ held
  int add_node(Stream& stream, TaskPtr task, int depends);           // mutex_ held
  Error join_lane(Stream& stream);                                   // mutex_ held
  void mark_lane(Stream& stream);                                    // mutex_ held
  Error check_joined() const;                                        // mutex_ held
  Error finish_capture(Stream& stream);                              // mutex_ held
  void release_lanes();                                              // mutex_ held
  void compile();                                                    // mutex_ held
  Error check_end(Stream& stream);                                   // mutex_ held
  Error join(Stream& stream, Event& event);                          // mutex_ held
  Error wait_outside(Stream& stream, Event& event, bool* recorded);
  static std::shared_ptr<Graph> open_capture(Context& context, uint32_t id);
  void forget();

  Context& context_;
  const uint32_t id_;
  std::atomic<CaptureStatus> status_{CaptureStatus::None};
  std::atomic<bool> ready_{false};  // captured completely
  std::atomic<int> running_{0};     // replays queued or under way
  mutable std::mutex mutex_;        // guards all below, until ready_ the nodes too
  std::string name_;
  std::unique_ptr<Capture> capture_;  // while capturing
  std::vector<Stream*> lanes_;        // the captured streams, in the order in which they joined
  std::vector<uint32_t> lane_ids_;    // their ids, which outlive them
  std::vector<uint32_t> leased_;      // streams of the device that replays of the lanes need
  std::vector<std::pair<void (*)(void*), void*>> on_destroy_;
  std::vector<std::shared_ptr<TaskGroup>> groups_;
  std::vector<std::unique_ptr<Condition>> conditions_;
  std::vector<std::shared_ptr<Graph>> bodies_;
  bool is_body_ = false;  // owned by the graph that has it as a conditional body

  // Once ready_, changed by the executor alone, and then under mutex_: it may read without.
  std::vector<GraphNode> nodes_;
  std::vector<size_t> program_;      // nodes with work, in capture order
  uint64_t checked_generation_ = 0;  // of the device memory, at the last check of all nodes
  std::atomic<const void*> current_run_{nullptr};  // the replay under way
};

}  // namespace softnpu
