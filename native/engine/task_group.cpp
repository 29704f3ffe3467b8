// Task groups: tasks of a captured graph that a later call replaces, e.g. an attention operator
// whose sequence lengths are host integers. The replacement runs in the order of the updating
// stream, so a replay that is past the task does not see it.
#include <unordered_map>

#include "context.h"
#include "device.h"
#include "graph.h"

namespace softnpu {
namespace {

std::mutex g_groups_mutex;  // guards the map
std::unordered_map<const void*, std::weak_ptr<TaskGroup>>& live_groups() {
  static auto* groups = new std::unordered_map<const void*, std::weak_ptr<TaskGroup>>;
  return *groups;
}

}  // namespace

TaskGroup::~TaskGroup() {
  std::lock_guard lock(g_groups_mutex);
  live_groups().erase(this);
}

std::shared_ptr<TaskGroup> TaskGroup::find(void* handle) {
  std::lock_guard lock(g_groups_mutex);
  const auto it = live_groups().find(handle);
  return it == live_groups().end() ? nullptr : it->second.lock();
}

class UpdateTask : public Task {
 public:
  UpdateTask(std::shared_ptr<Graph> graph, size_t first, std::vector<TaskPtr> tasks)
      : graph_(std::move(graph)), first_(first), tasks_(std::move(tasks)) {}
  Step run(RunContext&) override {
    std::lock_guard lock(graph_->mutex_);
    for (size_t i = 0; i < tasks_.size(); ++i) graph_->nodes_[first_ + i].task.swap(tasks_[i]);
    graph_->checked_generation_ = 0;
    return Step::Done;
  }
  TaskKind kind() const override { return TaskKind::Marker; }
  std::string name() const override {
    return "the update of a task group of " + graph_->describe();
  }

 private:
  const std::shared_ptr<Graph> graph_;
  const size_t first_;
  std::vector<TaskPtr> tasks_;
};

Error Graph::group_begin(Stream& stream) {
  const auto graph = of(stream);
  if (!graph) {
    return {Code::NotCaptured, stream.describe() + " does not capture: a task group can't begin."};
  }
  std::lock_guard lock(graph->mutex_);
  if (Error error = graph->check_open(stream, "A task group"); error.failed()) return error;
  if (graph->capture_->group_stream) {
    return graph->invalidate(
        {Code::TaskGroupStatus,
         "A task group is open already on " + graph->capture_->group_stream->describe() + "."});
  }
  graph->capture_->group_stream = &stream;
  graph->capture_->group_first = graph->nodes_.size();
  return Error::ok();
}

Error Graph::group_end(Stream& stream, void** handle) {
  *handle = nullptr;
  const auto graph = of(stream);
  if (!graph) {
    return {Code::NotCaptured, stream.describe() + " does not capture: a task group can't end."};
  }
  std::lock_guard lock(graph->mutex_);
  if (Error error = graph->check_open(stream, "A task group"); error.failed()) return error;
  if (graph->capture_->group_stream != &stream) {
    return graph->invalidate(
        {Code::TaskGroupStatus, "No task group is open on " + stream.describe() + "."});
  }
  auto group = std::make_shared<TaskGroup>();
  group->graph = graph->weak_from_this();
  group->first = graph->capture_->group_first;
  group->count = graph->nodes_.size() - group->first;
  graph->capture_->group_stream = nullptr;
  *handle = group.get();
  {
    std::lock_guard groups_lock(g_groups_mutex);
    live_groups()[group.get()] = group;
  }
  graph->groups_.push_back(std::move(group));
  return Error::ok();
}

Error Graph::update_begin(Stream& stream, void* handle) {
  if (stream.capturing()) {
    return {Code::TaskGroupStatus, "A task group can't be updated on " + stream.describe() +
                                       " while that stream captures."};
  }
  if (stream.updating_) {
    return {Code::TaskGroupStatus,
            stream.describe() + " updates a task group already. End that first."};
  }
  std::shared_ptr<TaskGroup> group = TaskGroup::find(handle);
  const std::shared_ptr<Graph> graph = group ? group->graph.lock() : nullptr;
  if (!graph || !from_handle(graph.get())) {
    return {Code::InvalidHandle, "The task group's handle is unknown, or its graph was destroyed."};
  }
  if (!graph->captured()) {
    return {Code::TaskGroupStatus, "The task group's graph is still being captured."};
  }
  stream.updating_ = std::move(group);
  return Error::ok();
}

Error Graph::update_end(Stream& stream) {
  const std::shared_ptr<TaskGroup> group = std::move(stream.updating_);
  stream.updating_.reset();
  std::vector<TaskPtr> tasks;
  tasks.swap(stream.updates_);
  if (!group) {
    return {Code::TaskGroupStatus, stream.describe() + " updates no task group: nothing to end."};
  }
  const std::shared_ptr<Graph> graph = group->graph.lock();
  if (!graph || !from_handle(graph.get())) {
    return {Code::InvalidHandle, "The task group's graph was destroyed."};
  }
  std::unique_lock lock(graph->mutex_);
  bool same = tasks.size() == group->count;
  for (size_t i = 0; same && i < tasks.size(); ++i) {
    const Task& old = *graph->nodes_[group->first + i].task;
    same = old.kind() == tasks[i]->kind() && old.name() == tasks[i]->name();
  }
  if (!same) {
    return {Code::TaskGroupMismatch, "task group update error: " + graph->describe() +
                                         " captured " + std::to_string(group->count) +
                                         " task(s) in this group, the update "
                                         "submitted " +
                                         std::to_string(tasks.size()) +
                                         " or other ones. Issue the same calls in the same order."};
  }
  lock.unlock();
  return stream.submit(std::make_unique<UpdateTask>(graph, group->first, std::move(tasks)));
}

}  // namespace softnpu
