#include "graph.h"

#include <algorithm>
#include <set>

#include "context.h"
#include "stream_pool.h"

namespace softnpu {
namespace {

std::mutex g_mutex;  // guards the set
std::set<const void*>& live_graphs() {
  static auto* graphs = new std::set<const void*>;
  return *graphs;
}

}  // namespace

Graph::Graph(Context& context, uint32_t id) : context_(context), id_(id) {
  std::lock_guard lock(g_mutex);
  live_graphs().insert(this);
}

Graph::~Graph() {
  release_conditions();
  for (const uint32_t id : leased_) context_.end_lease(id);
  std::lock_guard lock(g_mutex);
  live_graphs().erase(this);
}

Graph* Graph::from_handle(void* handle) {
  std::lock_guard lock(g_mutex);
  return live_graphs().count(handle) ? static_cast<Graph*>(handle) : nullptr;
}

std::shared_ptr<Graph> Graph::of(const Stream& stream) {
  const Graph* graph = stream.capturing();
  if (!graph) return nullptr;
  Context& context = stream.context();
  std::lock_guard lock(context.mutex_);
  // The newest graph is the likeliest.
  const auto found = std::find_if(context.graphs_.rbegin(), context.graphs_.rend(),
                                  [graph](const auto& live) { return live.get() == graph; });
  return found == context.graphs_.rend() ? nullptr : *found;
}

std::string Graph::describe() const { return "graph " + std::to_string(id_); }

void Graph::compile() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].task->is_mark()) program_.push_back(i);
  }
  ready_.store(true, std::memory_order_release);
}

void Graph::forget() {
  const std::shared_ptr<Graph> keep = shared_from_this();
  {
    std::lock_guard lock(g_mutex);
    live_graphs().erase(this);
  }
  for (const auto& body : bodies_) {
    body->cancel();
    body->forget();
  }
  std::lock_guard lock(context_.mutex_);
  std::erase_if(context_.graphs_, [this](const auto& graph) { return graph.get() == this; });
}

Error Graph::destroy() {
  {
    std::lock_guard lock(mutex_);
    if (capture_) {
      return {Code::ModelCaptured, describe() + " is still being captured. End the capture first."};
    }
  }
  if (is_body_) {
    return {Code::InvalidParam,
            describe() + " is the body of a conditional node; it ends with its graph."};
  }
  if (running_.load()) {
    return {Code::ModelRunning, describe() + " is being replayed. Synchronise its stream first."};
  }
  std::vector<std::pair<void (*)(void*), void*>> callbacks;
  {
    std::lock_guard lock(mutex_);
    callbacks.swap(on_destroy_);
  }
  for (const auto& [callback, data] : callbacks) callback(data);
  forget();
  return Error::ok();
}

Error Graph::add_destroy_callback(void (*callback)(void*), void* data) {
  std::lock_guard lock(mutex_);
  on_destroy_.emplace_back(callback, data);
  return Error::ok();
}

Error Graph::remove_destroy_callback(void (*callback)(void*)) {
  std::lock_guard lock(mutex_);
  const size_t removed =
      std::erase_if(on_destroy_, [callback](const auto& e) { return e.first == callback; });
  if (removed) return Error::ok();
  return {Code::InvalidParam, "This callback is not registered with " + describe() + "."};
}

void Graph::set_name(const std::string& name) {
  std::lock_guard lock(mutex_);
  name_ = name;
}

std::string Graph::name() const {
  std::lock_guard lock(mutex_);
  return name_;
}

std::vector<Stream*> Graph::streams() const {
  std::lock_guard lock(mutex_);
  return lanes_;
}

size_t Graph::node_count() const {
  std::lock_guard lock(mutex_);
  return nodes_.size();
}

}  // namespace softnpu
