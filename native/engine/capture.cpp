// Recording streams into a graph: begin, fork and join by events, end, and what is illegal
// meanwhile. The rules are those of the runtime's capture documentation.
#include <algorithm>

#include "context.h"
#include "device.h"
#include "event.h"
#include "graph.h"
#include "log.h"

namespace softnpu {
namespace {

thread_local CaptureMode t_mode = CaptureMode::Global;

// Stands for an event call inside a graph; the order it asks for is kept by GraphNode::depends.
class EventMark : public Task {
 public:
  EventMark(TaskKind kind, uint32_t event) : kind_(kind), event_(event) {}
  Step run(RunContext&) override { return Step::Done; }
  TaskKind kind() const override { return kind_; }
  bool is_mark() const override { return true; }
  std::string name() const override {
    return std::string(task_kind_name(kind_)) + "_" + std::to_string(event_);
  }

 private:
  const TaskKind kind_;
  const uint32_t event_;
};

std::string in_capture(const Graph& graph) { return " while it captures " + graph.describe(); }

}  // namespace

void Graph::exchange_thread_mode(CaptureMode* mode) { std::swap(*mode, t_mode); }

uint32_t Graph::next_id() {
  static std::atomic<uint32_t> next{0};
  return next.fetch_add(1) + 1;
}

Error Graph::check_begin(Stream& stream) {
  if (stream.context().broken()) return stream.context().first_error();
  if (stream.is_default()) {
    return {Code::CaptureImplicit, "The default stream can't be captured. Capture on another stream."};
  }
  if (Graph* other = stream.capturing()) {
    return {Code::StreamCaptured, stream.describe() + " captures " + other->describe() +
                                      " already. End that capture first."};
  }
  return Error::ok();
}

Error Graph::start(Stream& stream, const std::shared_ptr<Graph>& graph, CaptureMode mode) {
  if (Error error = check_begin(stream); error.failed()) return error;
  {
    std::lock_guard lock(graph->mutex_);
    graph->capture_ = std::make_unique<Capture>();
    graph->capture_->origin = &stream;
    graph->capture_->mode = mode;
    graph->capture_->thread = std::this_thread::get_id();
    graph->status_.store(CaptureStatus::Active);
    graph->join_lane(stream);
  }
  ++stream.context().captures_under_way_;
  log_line(LogLevel::Info, "graph", "capture model begin, model_id=" + std::to_string(graph->id()) +
                                        ", stream_id=" + std::to_string(stream.id()));
  return Error::ok();
}

Error Graph::begin(Stream& stream, CaptureMode mode) {
  Context& context = stream.context();
  if (Error error = check_begin(stream); error.failed()) return error;
  auto graph = std::make_shared<Graph>(context, next_id());
  {
    std::lock_guard lock(context.mutex_);
    context.graphs_.push_back(graph);
  }
  return start(stream, graph, mode);
}

void Graph::join_lane(Stream& stream) {
  stream.lane_ = static_cast<int>(lanes_.size());
  lanes_.push_back(&stream);
  lane_ids_.push_back(stream.id());
  stream.capture_.store(this, std::memory_order_release);
}

Error Graph::invalidate(const Error& reason) {
  if (status() == CaptureStatus::Active) {
    capture_->reason = reason;
    status_.store(CaptureStatus::Invalidated, std::memory_order_release);
    log_line(LogLevel::Error, "graph", "capture of " + describe() + " invalidated: " + reason.message());
  }
  return reason;
}

int Graph::add_node(Stream& stream, TaskPtr task, int depends) {
  nodes_.push_back({std::move(task), stream.lane_, depends});
  return static_cast<int>(nodes_.size()) - 1;
}

Error Graph::record(Stream& stream, TaskPtr task) {
  std::lock_guard lock(mutex_);
  if (status() == CaptureStatus::Invalidated) {
    return {Code::CaptureInvalidated, task->name() + " on " + stream.describe() + ": the capture of " +
                                          describe() + " was invalidated before: " +
                                          capture_->reason.message()};
  }
  if (capture_->group_stream && capture_->group_stream != &stream) {
    return invalidate({Code::TaskGroupInterrupted,
                       task->name() + " was submitted to " + stream.describe() +
                           " while a task group is open on " + capture_->group_stream->describe() + "."});
  }
  add_node(stream, std::move(task), -1);
  return Error::ok();
}

Error Graph::record_event(Stream& stream, Event& event) {
  auto mark = std::make_unique<EventMark>(TaskKind::EventRecord, event.id());
  if (Error error = record(stream, std::move(mark)); error.failed()) return error;
  std::lock_guard lock(mutex_);
  event.set_captured(id_, static_cast<int>(nodes_.size()) - 1);
  return Error::ok();
}

Error Graph::wait_event(Stream& stream, Event& event, bool* recorded) {
  Graph* own = stream.capturing();
  std::shared_ptr<Graph> other;
  {
    std::lock_guard lock(stream.context().mutex_);
    for (const auto& graph : stream.context().graphs_) {
      if (graph->id() == event.capture_id() && graph->capture_) other = graph;
    }
  }
  if (!own && !other) return Error::ok();
  if (!other) {  // recorded outside any capture that is still open, or never
    if (!event.capture_id() && event.never_recorded()) {
      *recorded = true;
      return Error::ok();
    }
    std::lock_guard lock(own->mutex_);
    return own->invalidate({Code::CaptureDependency,
                            stream.describe() + " waits for " + event.describe() + in_capture(*own) +
                                ", but that event was not recorded in this capture. Record it there, or "
                                "use an external event."});
  }
  if (own && own != other.get()) {
    const Error conflict{Code::CaptureConflict, stream.describe() + " captures " + own->describe() +
                                                    " and waits for " + event.describe() + " of " +
                                                    other->describe() +
                                                    ": two captures can't be merged."};
    std::scoped_lock lock(own->mutex_, other->mutex_);
    (void)other->invalidate(conflict);
    return own->invalidate(conflict);
  }
  std::lock_guard lock(other->mutex_);
  if (stream.is_default()) {
    return other->invalidate({Code::CaptureImplicit,
                              "The default stream waits for " + event.describe() +
                                  " of a capture; it can't join one. Use another stream."});
  }
  if (other->status() == CaptureStatus::Invalidated) {
    return {Code::CaptureInvalidated, "The capture of " + other->describe() + " was invalidated before: " +
                                          other->capture_->reason.message()};
  }
  if (!own) other->join_lane(stream);
  other->add_node(stream, std::make_unique<EventMark>(TaskKind::EventWait, event.id()),
                  event.capture_node());
  *recorded = true;
  return Error::ok();
}

void Graph::abandon(Stream& stream) {
  std::lock_guard lock(mutex_);
  (void)invalidate({Code::CaptureInvalidated, stream.describe() + " was destroyed" + in_capture(*this) + "."});
  std::replace(lanes_.begin(), lanes_.end(), &stream, static_cast<Stream*>(nullptr));
  stream.capture_.store(nullptr);
}

Error Graph::refuse_wait(Stream& stream, const char* call) {
  // Refused and not recorded; the capture stays valid, as torch_npu's tests of a refused .item() show.
  return {Code::StreamCaptured,
          "Not allowed to " + std::string(call) + " " + stream.describe() + in_capture(*this) +
              ": nothing runs during a capture. Typical causes are .item(), print, .cpu() or a "
              "data-dependent shape; move it out of the captured part."};
}

Error Graph::refuse_context_wait(Context& context) {
  std::lock_guard lock(context.mutex_);
  for (const auto& graph : context.graphs_) {
    std::lock_guard graph_lock(graph->mutex_);
    if (!graph->capture_) continue;
    return {Code::StreamCaptured, "Not allowed to synchronize the device while a capture of " +
                                      graph->describe() + " is under way. End the capture first."};
  }
  return Error::ok();
}

Error Graph::check_unsafe_call(Context& context, const char* call) {
  if (!context.any_capture()) return Error::ok();
  std::lock_guard lock(context.mutex_);
  for (const auto& graph : context.graphs_) {
    std::lock_guard graph_lock(graph->mutex_);
    if (!graph->capture_) continue;
    const CaptureMode mode = graph->capture_->mode;
    const bool own = graph->capture_->thread == std::this_thread::get_id();
    const bool relaxed = t_mode == CaptureMode::Relaxed || mode == CaptureMode::Relaxed;
    const bool other_thread = !own && (mode == CaptureMode::ThreadLocal || t_mode == CaptureMode::ThreadLocal);
    if (relaxed || other_thread) continue;
    return {Code::CaptureMode,
            std::string(call) + " is refused while " + graph->describe() + " is captured in " +
                (mode == CaptureMode::Global ? "global" : "thread-local") +
                " mode: the current capture mode does not support this operation. Use an asynchronous "
                "call, another capture_error_mode, or do it before the capture."};
  }
  return Error::ok();
}

Error Graph::check_pageable(Stream& stream, const char* call) {
  Graph* graph = stream.capturing();
  if (!graph) {
    return stream.context().any_capture() ? check_unsafe_call(stream.context(), call) : Error::ok();
  }
  return {Code::CapturePageable, std::string(call) + " on " + stream.describe() + in_capture(*graph) +
                                     ": the host memory is not pinned, and its content would be read at "
                                     "replay. Use pinned memory (pin_memory=True)."};
}

Error Graph::check_joined() const {
  std::vector<int> last(lanes_.size(), -1);
  std::vector<bool> awaited(nodes_.size(), false);
  for (const GraphNode& node : nodes_) {
    if (node.depends >= 0) awaited[static_cast<size_t>(node.depends)] = true;
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    // A record that nobody waits for does no work. torch_npu's pinned-memory allocator may add one to
    // a forked stream when it frees a block, depending on how far its queue thread has got.
    const bool idle = nodes_[i].task->kind() == TaskKind::EventRecord && nodes_[i].task->is_mark() &&
                      !awaited[i];
    if (!idle) last[static_cast<size_t>(nodes_[i].lane)] = static_cast<int>(i);
  }
  std::vector<bool> joined(lanes_.size(), false);
  joined[0] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (const GraphNode& node : nodes_) {
      if (node.depends < 0 || !joined[static_cast<size_t>(node.lane)]) continue;
      const auto from = static_cast<size_t>(nodes_[static_cast<size_t>(node.depends)].lane);
      if (joined[from] || last[from] != node.depends) continue;
      joined[from] = changed = true;
    }
  }
  for (size_t lane = 1; lane < joined.size(); ++lane) {
    if (joined[lane]) continue;
    return {Code::CaptureUnjoined,
            "stream " + std::to_string(lane_ids_[lane]) + " was forked into the capture of " + describe() +
                " and not joined back: its last task is " +
                (last[lane] < 0 ? "none" : nodes_[static_cast<size_t>(last[lane])].task->name()) +
                ". Record an event there as its last task and let stream " +
                std::to_string(lane_ids_[0]) + " wait for it."};
  }
  return Error::ok();
}

Error Graph::check_end(Stream& stream) {
  if (capture_->origin != &stream) {
    return {Code::CaptureUnmatched, stream.describe() + " joined the capture of " + describe() +
                                        ", which began on " + capture_->origin->describe() +
                                        " and must end there."};
  }
  if (capture_->mode != CaptureMode::Relaxed && capture_->thread != std::this_thread::get_id()) {
    return {Code::CaptureWrongThread, "The capture of " + describe() +
                                          " must end in the thread that began it (or begin in relaxed mode)."};
  }
  return Error::ok();
}

Error Graph::finish_capture(Stream& stream) {
  Error error;
  if (status() == CaptureStatus::Invalidated) {
    error = {Code::CaptureInvalidated, "The capture of " + describe() + " on " + stream.describe() +
                                           " was invalidated: " + capture_->reason.message()};
  } else if (capture_->group_stream) {
    error = {Code::TaskGroupStatus, "A task group is still open on " +
                                        capture_->group_stream->describe() + " at the end of the capture."};
  } else if (error = check_bodies(); !error.failed()) {
    error = check_joined();
  }
  for (Stream* lane : lanes_) {
    if (!lane) continue;
    lane->capture_.store(nullptr, std::memory_order_release);
    lane->lane_ = -1;
  }
  lanes_.clear();
  capture_.reset();
  status_.store(CaptureStatus::None, std::memory_order_release);
  return error;
}

Error Graph::end(Stream& stream, Graph** out) {
  *out = nullptr;
  Graph* graph = stream.capturing();
  if (!graph) {
    return {Code::NotCaptured, stream.describe() + " does not capture; there is nothing to end."};
  }
  const std::shared_ptr<Graph> keep = graph->shared_from_this();
  Error error;
  {
    std::lock_guard lock(graph->mutex_);
    if (Error refused = graph->check_end(stream); refused.failed()) return refused;
    error = graph->finish_capture(stream);
    if (!error.failed()) graph->compile();
  }
  --graph->context_.captures_under_way_;
  log_line(LogLevel::Info, "graph",
           "capture model end, model_id=" + std::to_string(graph->id()) +
               ", tasks=" + std::to_string(graph->nodes_.size()) +
               (error.failed() ? ", failed: " + error.message() : std::string()));
  if (error.failed()) {
    graph->forget();
    return error;
  }
  *out = graph;
  return Error::ok();
}

}  // namespace softnpu
