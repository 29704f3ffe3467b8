#include "stream.h"

#include "context.h"
#include "device.h"
#include "graph.h"
#include "stream_pool.h"

namespace softnpu {

HandlePool<Stream>& stream_pool() {
  static auto* pool = new HandlePool<Stream>(size_t{1} << 16);
  return *pool;
}

Stream::Stream(Context& context, uint32_t id, uint32_t flags, bool is_default)
    : context_(context), id_(id), flags_(flags), is_default_(is_default) {}
Stream::~Stream() = default;

Stream* Stream::from_handle(void* handle) {
  if (handle) return stream_pool().find(handle);
  Context* context = Context::current();
  return context ? &context->default_stream() : nullptr;
}

Device& Stream::device() const { return context_.device(); }

std::string Stream::describe() const {
  return (is_default_ ? "the default stream (stream " : "stream ") + std::to_string(id_) +
         (is_default_ ? ")" : "") + " of device " + std::to_string(device().index());
}

CaptureStatus Stream::capture_status() const {
  const Graph* graph = capturing();
  return graph ? graph->status() : CaptureStatus::None;
}

Error Stream::submit(TaskPtr task) {
  if (Graph* graph = capturing()) return graph->record(*this, std::move(task));
  if (updating_) {
    updates_.push_back(std::move(task));
    return Error::ok();
  }
  if (context_.broken()) {
    task->drop();
    return context_.first_error();
  }
  return device().enqueue(*this, std::move(task));
}

Error Stream::query(bool* idle) {
  if (Graph* graph = capturing()) return graph->refuse_wait(*this, "query");
  Device& device = this->device();
  const auto done = [this] { return completed_ == submitted_ && !running_; };
  if (Error error = device.poll(context_, done, idle); error.failed()) return error;
  return context_.first_error();
}

Error Stream::synchronize(int timeout_ms) {
  if (Graph* graph = capturing()) return graph->refuse_wait(*this, "synchronize");
  uint64_t target = 0;
  {
    std::lock_guard lock(device().mutex_);
    target = submitted_;
  }
  const auto done = [this, target] { return completed_ >= target; };
  return device().run_until(context_, done, timeout_ms, describe());
}

}  // namespace softnpu
