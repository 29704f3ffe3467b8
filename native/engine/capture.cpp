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

Error Graph::begin(Stream& stream, CaptureMode mode) {
  return start(stream, std::make_shared<Graph>(stream.context(), next_id()), mode);
}

Error Graph::start(Stream& stream, const std::shared_ptr<Graph>& graph, CaptureMode mode) {
  Context& context = stream.context();
  if (context.broken()) return context.first_error();
  if (stream.is_default()) {
    return {Code::CaptureImplicit,
            "The default stream can't be captured. Capture on another stream."};
  }
  {
    std::scoped_lock lock(context.mutex_, graph->mutex_);
    if (const Graph* other = stream.capturing()) {
      return {Code::StreamCaptured, stream.describe() + " captures " + other->describe() +
                                        " already. End that capture first."};
    }
    if (Error error = graph->join_lane(stream); error.failed()) return error;
    graph->capture_ = std::make_unique<Capture>();
    graph->capture_->origin = &stream;
    graph->capture_->mode = mode;
    graph->capture_->thread = std::this_thread::get_id();
    graph->status_.store(CaptureStatus::Active);
    if (!graph->is_body_) context.graphs_.push_back(graph);
    ++context.captures_under_way_;
  }
  log_line(LogLevel::Info, "graph",
           "capture model begin, model_id=" + std::to_string(graph->id()) +
               ", stream_id=" + std::to_string(stream.id()));
  return Error::ok();
}

Error Graph::join_lane(Stream& stream) {
  uint32_t id = 0;
  if (Error error = context_.lease_stream(false, &id); error.failed()) return error;
  leased_.push_back(id);
  stream.lane_ = static_cast<int>(lanes_.size());
  lanes_.push_back(&stream);
  lane_ids_.push_back(stream.id());
  mark_lane(stream);
  return Error::ok();
}

void Graph::mark_lane(Stream& stream) {
  const uintptr_t mark = status() == CaptureStatus::Invalidated ? Stream::kInvalidated : 0;
  stream.capture_.store(reinterpret_cast<uintptr_t>(this) | mark, std::memory_order_release);
}

Error Graph::invalidate(const Error& reason) {
  if (status() != CaptureStatus::Active) return reason;
  capture_->reason = reason;
  status_.store(CaptureStatus::Invalidated, std::memory_order_release);
  for (Stream* lane : lanes_) {
    if (lane) mark_lane(*lane);
  }
  log_line(LogLevel::Error, "graph",
           "capture of " + describe() + " invalidated: " + reason.message());
  return reason;
}

// Fails unless this graph captures `stream` and nothing has spoilt it.
Error Graph::check_open(const Stream& stream, const std::string& what) {
  if (!capture_ || stream.capturing() != this) {
    return {Code::NotCaptured, what + " on " + stream.describe() + ": the capture of " +
                                   describe() + " ended while it was submitted."};
  }
  if (status() != CaptureStatus::Invalidated) return Error::ok();
  return {Code::CaptureInvalidated, what + " on " + stream.describe() + ": the capture of " +
                                        describe() +
                                        " was invalidated before: " + capture_->reason.message()};
}

Error Graph::check_group(const Stream& stream, const std::string& what) {
  const Stream* owner = capture_->group_stream;
  if (!owner || owner == &stream) return Error::ok();
  return invalidate({Code::TaskGroupInterrupted, what + " was submitted to " + stream.describe() +
                                                     " while a task group is open on " +
                                                     owner->describe() + "."});
}

int Graph::add_node(Stream& stream, TaskPtr task, int depends) {
  nodes_.push_back({std::move(task), stream.lane_, depends});
  return static_cast<int>(nodes_.size()) - 1;
}

Error Graph::record(Stream& stream, TaskPtr task) {
  std::lock_guard lock(mutex_);
  // The name is made for a message alone: recording is on the path of every captured call.
  if (!capture_ || capture_->group_stream || status() != CaptureStatus::Active ||
      stream.capturing() != this) {
    if (Error error = check_open(stream, task->name()); error.failed()) return error;
    if (Error error = check_group(stream, task->name()); error.failed()) return error;
  }
  add_node(stream, std::move(task), -1);
  return Error::ok();
}

Error Graph::record_event(Stream& stream, Event& event) {
  auto mark = std::make_unique<EventMark>(TaskKind::EventRecord, event.id());
  std::lock_guard lock(mutex_);
  if (Error error = check_open(stream, mark->name()); error.failed()) return error;
  if (Error error = check_group(stream, mark->name()); error.failed()) return error;
  event.set_captured(id_, add_node(stream, std::move(mark), -1));
  return Error::ok();
}

// The graph with this id, if it is still being captured.
std::shared_ptr<Graph> Graph::open_capture(Context& context, uint32_t id) {
  if (!id) return nullptr;
  std::lock_guard lock(context.mutex_);
  for (const auto& graph : context.graphs_) {
    if (graph->id() == id) return graph->status() == CaptureStatus::None ? nullptr : graph;
  }
  return nullptr;
}

Error Graph::wait_event(Stream& stream, Event& event, bool* recorded) {
  const std::shared_ptr<Graph> own = of(stream);
  const std::shared_ptr<Graph> other = open_capture(event.context(), event.capture_id());
  if (!own && !other) return Error::ok();
  if (!other) return own->wait_outside(stream, event, recorded);
  if (own && own != other) {
    const Error conflict{Code::CaptureConflict, stream.describe() + " captures " + own->describe() +
                                                    " and waits for " + event.describe() + " of " +
                                                    other->describe() +
                                                    ": two captures can't be merged."};
    std::scoped_lock lock(own->mutex_, other->mutex_);
    (void)other->invalidate(conflict);
    return own->invalidate(conflict);
  }
  *recorded = true;
  std::lock_guard lock(other->mutex_);
  return other->join(stream, event);
}

// A wait on an event that was recorded outside any capture that is still open, or never.
Error Graph::wait_outside(Stream& stream, Event& event, bool* recorded) {
  if (!event.capture_id() && event.never_recorded()) {
    *recorded = true;
    return Error::ok();
  }
  std::lock_guard lock(mutex_);
  return invalidate(
      {Code::CaptureDependency,
       stream.describe() + " waits for " + event.describe() + in_capture(*this) +
           ", but that event was not recorded in this capture. Record it there, or use "
           "an external event."});
}

// A wait on an event of this capture, by a stream that takes part in it from now on if not before.
Error Graph::join(Stream& stream, Event& event) {
  auto mark = std::make_unique<EventMark>(TaskKind::EventWait, event.id());
  if (stream.is_default()) {
    return invalidate(
        {Code::CaptureImplicit, "The default stream waits for " + event.describe() +
                                    " of a capture; it can't join one. Use another stream."});
  }
  if (&stream.context() != &context_) {
    return invalidate(
        {Code::WrongContext, stream.describe() + " waits for " + event.describe() +
                                 " of a capture in another context; it can't join it."});
  }
  const bool joins = !stream.capturing();
  if (joins && status() == CaptureStatus::Active) {
    if (Error error = join_lane(stream); error.failed()) return invalidate(error);
  }
  if (Error error = check_open(stream, mark->name()); error.failed()) return error;
  if (Error error = check_group(stream, mark->name()); error.failed()) return error;
  add_node(stream, std::move(mark), event.capture_node());
  return Error::ok();
}

void Graph::abandon(Stream& stream) {
  {
    std::lock_guard lock(mutex_);
    if (!capture_) return;
    (void)invalidate(
        {Code::CaptureInvalidated, stream.describe() + " was destroyed" + in_capture(*this) + "."});
    if (capture_->origin != &stream) {
      std::replace(lanes_.begin(), lanes_.end(), &stream, static_cast<Stream*>(nullptr));
      stream.capture_.store(0);
      return;
    }
  }
  cancel();  // nobody can end it any more
  forget();
}

void Graph::cancel() {
  std::lock_guard lock(mutex_);
  if (!capture_) return;
  release_lanes();
  --context_.captures_under_way_;
}

Error Graph::refuse_wait(Stream& stream, const char* call) {
  // Refused and not recorded; the capture stays valid, as torch_npu's tests of a refused .item()
  // show.
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
    const bool other_thread =
        !own && (mode == CaptureMode::ThreadLocal || t_mode == CaptureMode::ThreadLocal);
    if (relaxed || other_thread) continue;
    return {
        Code::CaptureMode,
        std::string(call) + " is refused while " + graph->describe() + " is captured in " +
            (mode == CaptureMode::Global ? "global" : "thread-local") +
            " mode: the current capture mode does not support this operation. Use an asynchronous "
            "call, another capture_error_mode, or do it before the capture."};
  }
  return Error::ok();
}

Error Graph::check_pageable(Stream& stream, const char* call) {
  const auto graph = of(stream);
  if (!graph) return check_unsafe_call(stream.context(), call);
  return {Code::CapturePageable,
          std::string(call) + " on " + stream.describe() + in_capture(*graph) +
              ": the host memory is not pinned, and it would be used at every replay. Use pinned "
              "memory (pin_memory=True)."};
}

Error Graph::check_joined() const {
  std::vector<int> last(lanes_.size(), -1);
  std::vector<bool> awaited(nodes_.size(), false);
  for (const GraphNode& node : nodes_) {
    if (node.depends >= 0) awaited[static_cast<size_t>(node.depends)] = true;
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    // A record that nobody waits for does no work. torch_npu's pinned-memory allocator may add one
    // to a forked stream when it frees a block, depending on how far its queue thread has got.
    const bool idle =
        nodes_[i].task->kind() == TaskKind::EventRecord && nodes_[i].task->is_mark() && !awaited[i];
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
            "stream " + std::to_string(lane_ids_[lane]) + " was forked into the capture of " +
                describe() + " and not joined back: its last task is " +
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
    return {Code::CaptureWrongThread,
            "The capture of " + describe() +
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
                                        capture_->group_stream->describe() +
                                        " at the end of the capture."};
  } else if (error = check_bodies(); !error.failed()) {
    error = check_joined();
  }
  release_lanes();
  return error;
}

void Graph::release_lanes() {
  for (Stream* lane : lanes_) {
    if (!lane) continue;
    lane->lane_ = -1;
    lane->capture_.store(0, std::memory_order_release);
  }
  lanes_.clear();
  capture_.reset();
  status_.store(CaptureStatus::None, std::memory_order_release);
}

Error Graph::end(Stream& stream, Graph** out) {
  *out = nullptr;
  const std::shared_ptr<Graph> graph = of(stream);
  if (!graph) {
    return {Code::NotCaptured, stream.describe() + " does not capture; there is nothing to end."};
  }
  Error error;
  {
    std::lock_guard lock(graph->mutex_);
    if (!graph->capture_) {
      return {Code::NotCaptured, "Another thread ended the capture of " + graph->describe() + "."};
    }
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
  *out = graph.get();
  return Error::ok();
}

}  // namespace softnpu
