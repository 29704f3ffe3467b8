#include "stream.h"

#include "context.h"
#include "device.h"
#include "graph.h"
#include "operations.h"
#include "stream_pool.h"

namespace softnpu {

HandlePool<Stream>& stream_pool() {
  static auto* pool = new HandlePool<Stream>(size_t{1} << 16);
  return *pool;
}

Stream::Stream(Context& context, uint32_t id, uint32_t flags, bool is_default)
    : context_(context), id_(id), flags_(flags), is_default_(is_default) {}
Stream::~Stream() { forget_subscription(*this); }

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

Error Stream::submit(TaskPtr task) {
  if (const auto graph = Graph::of(*this)) return graph->record(*this, std::move(task));
  if (updating_) return add_update(std::move(task));
  return device().enqueue(*this, std::move(task));
}

Error Stream::add_update(TaskPtr task) {
  switch (task->kind()) {
    case TaskKind::Operator:
    case TaskKind::Kernel:
    case TaskKind::Copy:
    case TaskKind::Fill:
      updates_.push_back(std::move(task));
      return Error::ok();
    default:
      return {Code::UpdateUnsupported,
              task->name() + " on " + describe() +
                  " can't be part of the update of a task group, only operators, kernels and "
                  "copies can. Call it after the end of the update."};
  }
}

Error Stream::query(bool* idle) {
  if (const auto graph = Graph::of(*this)) return graph->refuse_wait(*this, "query");
  return device().poll(context_, [this] { return !active_; }, idle, describe());
}

Error Stream::synchronize(int timeout_ms) {
  if (const auto graph = Graph::of(*this)) return graph->refuse_wait(*this, "synchronize");
  return device().drain(context_, this, timeout_ms, describe());
}

}  // namespace softnpu
