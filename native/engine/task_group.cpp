// Task groups: tasks of a captured graph that a later call replaces, e.g. an attention operator whose
// sequence lengths are host integers. The replacement runs in the order of the updating stream, so a
// replay that is past the task does not see it.
#include "context.h"
#include "device.h"
#include "graph.h"

namespace softnpu {

class UpdateTask : public Task {
 public:
  UpdateTask(std::shared_ptr<Graph> graph, size_t first, std::vector<TaskPtr> tasks)
      : graph_(std::move(graph)), first_(first), tasks_(std::move(tasks)) {}
  Step run(RunContext&) override {
    for (size_t i = 0; i < tasks_.size(); ++i) graph_->nodes_[first_ + i].task.swap(tasks_[i]);
    graph_->checked_generation_ = 0;
    return Step::Done;
  }
  TaskKind kind() const override { return TaskKind::Marker; }
  std::string name() const override { return "the update of a task group of " + graph_->describe(); }

 private:
  const std::shared_ptr<Graph> graph_;
  const size_t first_;
  std::vector<TaskPtr> tasks_;
};

Error Graph::group_begin(Stream& stream) {
  Graph* graph = stream.capturing();
  if (!graph) {
    return {Code::NotCaptured, stream.describe() + " does not capture: a task group can't begin."};
  }
  std::lock_guard lock(graph->mutex_);
  if (graph->status() == CaptureStatus::Invalidated) {
    return {Code::CaptureInvalidated, "The capture was invalidated before: " +
                                          graph->capture_->reason.message()};
  }
  if (graph->capture_->group_stream) {
    return graph->invalidate({Code::TaskGroupStatus, "A task group is open already on " +
                                                         graph->capture_->group_stream->describe() + "."});
  }
  graph->capture_->group_stream = &stream;
  graph->capture_->group_first = graph->nodes_.size();
  return Error::ok();
}

Error Graph::group_end(Stream& stream, void** handle) {
  *handle = nullptr;
  Graph* graph = stream.capturing();
  if (!graph) {
    return {Code::NotCaptured, stream.describe() + " does not capture: a task group can't end."};
  }
  std::lock_guard lock(graph->mutex_);
  if (graph->status() == CaptureStatus::Invalidated) {
    return {Code::CaptureInvalidated, "The capture was invalidated before: " +
                                          graph->capture_->reason.message()};
  }
  if (graph->capture_->group_stream != &stream) {
    return graph->invalidate({Code::TaskGroupStatus, "No task group is open on " + stream.describe() + "."});
  }
  auto group = std::make_shared<TaskGroup>();
  group->graph = graph->weak_from_this();
  group->first = graph->capture_->group_first;
  group->count = graph->nodes_.size() - group->first;
  graph->capture_->group_stream = nullptr;
  *handle = group.get();
  graph->groups_.push_back(std::move(group));
  return Error::ok();
}

Error Graph::update_begin(Stream& stream, void* handle) {
  if (stream.capturing()) {
    return {Code::TaskGroupStatus, "A task group can't be updated on " + stream.describe() +
                                       " while that stream captures."};
  }
  if (stream.updating_) {
    return {Code::TaskGroupStatus, stream.describe() + " updates a task group already. End that first."};
  }
  std::shared_ptr<TaskGroup> group;
  {
    std::lock_guard lock(stream.context().mutex_);
    for (const auto& graph : stream.context().graphs_) {
      std::lock_guard graph_lock(graph->mutex_);
      for (const auto& candidate : graph->groups_) {
        if (candidate.get() == handle) group = candidate;
      }
    }
  }
  if (!group) {
    return {Code::InvalidHandle, "The task group's handle is unknown, or its graph was destroyed."};
  }
  const std::shared_ptr<Graph> graph = group->graph.lock();
  if (!graph || !graph->captured()) {
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
  if (!graph) return {Code::InvalidHandle, "The task group's graph was destroyed."};
  bool same = tasks.size() == group->count;
  for (size_t i = 0; same && i < tasks.size(); ++i) {
    const Task& old = *graph->nodes_[group->first + i].task;
    same = old.kind() == tasks[i]->kind() && old.name() == tasks[i]->name();
  }
  if (!same) {
    return {Code::TaskGroupMismatch, "task group update error: " + graph->describe() + " captured " +
                                         std::to_string(group->count) + " task(s) in this group, the update "
                                         "submitted " + std::to_string(tasks.size()) +
                                         " or other ones. Issue the same calls in the same order."};
  }
  return stream.submit(std::make_unique<UpdateTask>(graph, group->first, std::move(tasks)));
}

}  // namespace softnpu
