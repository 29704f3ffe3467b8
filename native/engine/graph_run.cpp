#include "graph_run.h"

#include "context.h"
#include "device.h"
#include "log.h"

namespace softnpu {

GraphRun::GraphRun(std::shared_ptr<Graph> graph) : graph_(std::move(graph)) { ++graph_->running_; }

GraphRun::~GraphRun() {
  release();
  --graph_->running_;
}

void GraphRun::release() {
  if (graph_->current_run_ == this) graph_->current_run_ = nullptr;
}

Step GraphRun::run(RunContext& context) {
  if (!started_) {
    if (graph_->current_run_) {
      waits_for_ = "another replay of " + graph_->describe();
      return Step::Blocked;
    }
    if (!check_memory_of_nodes(context)) return Step::Failed;
    graph_->current_run_ = this;
    graph_->assign_condition_defaults();
    started_ = true;
  }
  const bool by_lane = !lanes_.empty() || (context.rng && graph_->lane_ids_.size() > 1);
  const Step step = by_lane ? run_by_lane(context) : run_in_order(context);
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
        " A graph keeps the addresses it was captured with: keep the tensors alive, or capture again.";
    context.error = at_node(i, Error{error.code(), error.message() + advice});
    return false;
  }
  graph_->checked_generation_ = generation;
  return true;
}

Error GraphRun::at_node(size_t index, const Error& error) const {
  const uint32_t stream = graph_->lane_ids_[static_cast<size_t>(graph_->nodes_[index].lane)];
  return {error.code(), error.message() + " [node " + std::to_string(index) + " of " +
                            graph_->describe() + ", captured on stream " + std::to_string(stream) + "]"};
}

void GraphRun::note_wait(size_t index) {
  waiting_ = graph_->nodes_[index].task.get();
  waits_for_ = waiting_->waits_for() + " (" + waiting_->name() + ", node " + std::to_string(index) +
               " of " + graph_->describe() + ")";
}

Step GraphRun::run_in_order(RunContext& context) {
  const size_t begin = next_;
  for (; next_ < graph_->program_.size(); ++next_) {
    const size_t index = graph_->program_[next_];
    const Step step = graph_->nodes_[index].task->run(context);
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
  lanes_.assign(graph_->lane_ids_.size(), {});
  for (size_t i = 0; i < graph_->nodes_.size(); ++i) {
    if (i < first) {
      done_[i] = true;
    } else {
      lanes_[static_cast<size_t>(graph_->nodes_[i].lane)].pending.push_back(i);
    }
  }
}

std::vector<GraphRun::Lane*> GraphRun::ready_lanes(bool* pending) {
  std::vector<Lane*> ready;
  for (Lane& lane : lanes_) {
    if (lane.at == lane.pending.size()) continue;
    *pending = true;
    const int depends = graph_->nodes_[lane.pending[lane.at]].depends;
    const bool met = depends < 0 || done_[static_cast<size_t>(depends)];
    if (met && !lane.blocked) ready.push_back(&lane);
  }
  return ready;
}

Step GraphRun::run_by_lane(RunContext& context) {
  if (lanes_.empty()) start_lanes(0);
  for (Lane& lane : lanes_) lane.blocked = false;
  for (;;) {
    bool pending = false;
    const std::vector<Lane*> ready = ready_lanes(&pending);
    if (!pending) return Step::Done;
    if (ready.empty()) return Step::Blocked;
    Lane& lane = *ready[context.rng && ready.size() > 1 ? (*context.rng)() % ready.size() : 0];
    const size_t index = lane.pending[lane.at];
    const Step step = graph_->nodes_[index].task->run(context);
    if (step == Step::Failed) {
      context.error = at_node(index, context.error);
      return step;
    }
    if (step == Step::Blocked) {
      lane.blocked = true;
      note_wait(index);
      continue;
    }
    done_[index] = true;
    ++lane.at;
    context.progressed = true;
    for (Lane& other : lanes_) other.blocked = false;
  }
}

Error Graph::replay(Stream& stream) {
  if (!captured()) {
    return {Code::ModelCaptured, describe() + " is still being captured. End the capture first."};
  }
  if (Graph* other = stream.capturing()) {
    return other->refuse_wait(stream, ("replay " + describe() + " on").c_str());
  }
  if (&stream.device() != &context_.device()) {
    return {Code::WrongContext, describe() + " was captured on device " +
                                    std::to_string(context_.device().index()) +
                                    " and can't be replayed on " + stream.describe() + "."};
  }
  if (log_enabled(LogLevel::Info)) {
    log_line(LogLevel::Info, "graph", "capture model execute, model_id=" + std::to_string(id_) +
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
