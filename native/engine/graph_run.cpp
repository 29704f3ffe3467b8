#include "graph_run.h"

#include "context.h"
#include "device.h"
#include "draw.h"
#include "log.h"

namespace softnpu {

GraphRun::GraphRun(std::shared_ptr<Graph> graph) : graph_(std::move(graph)) { ++graph_->running_; }

GraphRun::~GraphRun() { release(); }

// Before the task counts as completed, so that whoever waited for it may destroy the graph.
void GraphRun::release() {
  if (released_) return;
  released_ = true;
  if (started_) graph_->current_run_ = nullptr;
  --graph_->running_;
}

Step GraphRun::run(RunContext& context) {
  if (!started_) {
    if (graph_->current_run_) {
      waits_for_ = "another replay of " + graph_->describe();
      return Step::Blocked;
    }
    if (!check_memory_of_nodes(context)) {
      release();
      return Step::Failed;
    }
    graph_->current_run_ = this;
    graph_->assign_condition_defaults();
    started_ = true;
    if (context.seed) start_lanes(0);
  }
  const Step step = lanes_.empty() ? run_in_order(context) : run_by_lane(context);
  if (step != Step::Blocked) release();
  return step;
}

// Memory freed since the last check may have been a node's: a replay would touch what is gone.
bool GraphRun::check_memory_of_nodes(RunContext& context) {
  const DeviceMemory& memory = context.device.memory();
  const uint64_t generation = memory.generation();
  if (graph_->checked_generation_ == generation) return true;
  for (size_t i = 0; i < graph_->nodes_.size(); ++i) {
    const Error error = graph_->nodes_[i].task->check_memory(memory);
    if (!error.failed()) continue;
    const std::string advice =
        " A graph keeps the addresses it was captured with: keep the tensors alive, or capture "
        "again.";
    context.error = at_node(i, Error{error.code(), error.message() + advice});
    return false;
  }
  graph_->checked_generation_ = generation;
  return true;
}

Error GraphRun::at_node(size_t index, const Error& error) const {
  const uint32_t stream = graph_->lane_ids_[static_cast<size_t>(graph_->nodes_[index].lane)];
  return {error.code(), error.message() + " [node " + std::to_string(index) + " of " +
                            graph_->describe() + ", captured on stream " + std::to_string(stream) +
                            "]"};
}

void GraphRun::note_wait(size_t index) {
  const Task& task = *graph_->nodes_[index].task;
  waits_for_ = task.waits_for() + " (" + task.name() + ", node " + std::to_string(index) + " of " +
               graph_->describe() + ")";
}

Step GraphRun::run_in_order(RunContext& context) {
  const size_t begin = next_;
  for (; next_ < graph_->program_.size(); ++next_) {
    const size_t index = graph_->program_[next_];
    const Step step = run_task(*graph_->nodes_[index].task, context);
    if (step == Step::Done) continue;
    if (step == Step::Failed) {
      context.error = at_node(index, context.error);
      return step;
    }
    note_wait(index);
    context.progressed = context.progressed || next_ > begin;
    if (graph_->lane_ids_.size() == 1) return step;
    start_lanes(index);
    return run_by_lane(context);
  }
  return Step::Done;
}

// From here on each captured stream has a place of its own; everything before `first` has run.
void GraphRun::start_lanes(size_t first) {
  done_.assign(graph_->nodes_.size(), false);
  done_count_ = first;
  lanes_.assign(graph_->lane_ids_.size(), {});
  for (size_t i = 0; i < graph_->nodes_.size(); ++i) {
    if (i < first) {
      done_[i] = true;
    } else {
      lanes_[static_cast<size_t>(graph_->nodes_[i].lane)].pending.push_back(i);
    }
  }
}

// A lane whose next node may run: under a seed any of them, else the first.
GraphRun::Lane* GraphRun::pick(const RunContext& context) {
  Lane* best = nullptr;
  uint64_t lowest = ~0ull;
  for (Lane& lane : lanes_) {
    if (lane.blocked || lane.at == lane.pending.size()) continue;
    const int depends = graph_->nodes_[lane.pending[lane.at]].depends;
    if (depends >= 0 && !done_[static_cast<size_t>(depends)]) continue;
    if (!context.seed) return &lane;
    const uint64_t drawn =
        draw(*context.seed, done_count_, static_cast<uint64_t>(&lane - lanes_.data()));
    if (best && drawn >= lowest) continue;
    best = &lane;
    lowest = drawn;
  }
  return best;
}

Step GraphRun::run_by_lane(RunContext& context) {
  for (Lane& lane : lanes_) lane.blocked = false;
  while (Lane* lane = pick(context)) {
    const size_t index = lane->pending[lane->at];
    Task& task = *graph_->nodes_[index].task;
    const Step step = run_task(task, context);
    if (step == Step::Failed) {
      context.error = at_node(index, context.error);
      return step;
    }
    if (step == Step::Blocked) {
      note_wait(index);
      if (context.yields) return step;  // a conditional body does
      lane->blocked = true;
      continue;
    }
    done_[index] = true;
    ++done_count_;
    ++lane->at;
    context.progressed = true;
    for (Lane& other : lanes_) other.blocked = false;
    // Under a seed another stream may come between any two nodes.
    context.yields = context.seed && !task.is_mark() && done_count_ < done_.size();
    if (context.yields) return Step::Blocked;
  }
  return done_count_ == done_.size() ? Step::Done : Step::Blocked;
}

Error Graph::replay(Stream& stream) {
  if (!captured()) {
    return {Code::ModelCaptured, describe() + " is still being captured. End the capture first."};
  }
  if (const auto other = Graph::of(stream)) {
    return other->refuse_wait(stream, ("replay " + describe() + " on").c_str());
  }
  if (&stream.device() != &context_.device()) {
    return {Code::WrongContext, describe() + " was captured on device " +
                                    std::to_string(context_.device().index()) +
                                    " and can't be replayed on " + stream.describe() + "."};
  }
  if (log_enabled(LogLevel::Info)) {
    log_line(LogLevel::Info, "graph",
             "capture model execute, model_id=" + std::to_string(id_) +
                 ", stream_id=" + std::to_string(stream.id()));
  }
  return stream.submit(std::make_unique<GraphRun>(shared_from_this()));
}

Error Graph::execute(int timeout_ms) {
  Stream& stream = context_.default_stream();
  if (Error error = replay(stream); error.failed()) return error;
  return stream.synchronize(timeout_ms);
}

}  // namespace softnpu
