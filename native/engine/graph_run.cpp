// Replaying a graph: one task of a stream that runs the recorded tasks in an order their
// dependencies allow. Without a seed that is the capture order, task after task; only when one
// blocks (it waits for something outside the graph) do the other captured streams go on without it.
#include "context.h"
#include "device.h"
#include "graph.h"
#include "log.h"

namespace softnpu {

class GraphRun : public Task {
 public:
  explicit GraphRun(std::shared_ptr<Graph> graph) : graph_(std::move(graph)) { ++graph_->running_; }
  ~GraphRun() override { --graph_->running_; }
  TaskKind kind() const override { return TaskKind::Graph; }
  std::string name() const override { return "the replay of " + graph_->describe(); }
  std::string waits_for() const override { return waits_for_; }
  void drop() override { release(); }

  Step run(RunContext& context) override {
    if (!started_) {
      if (graph_->current_run_) {
        waits_for_ = "another replay of " + graph_->describe();
        return Step::Blocked;
      }
      if (!check_memory_of_nodes(context)) return Step::Failed;
      graph_->current_run_ = this;
      started_ = true;
    }
    const bool by_lane = !lanes_.empty() || (context.rng && graph_->lane_ids_.size() > 1);
    const Step step = by_lane ? run_by_lane(context) : run_in_order(context);
    if (step != Step::Blocked) release();
    return step;
  }

 private:
  void release() {
    if (graph_->current_run_ == this) graph_->current_run_ = nullptr;
  }

  // Memory freed since the last check may have been a node's: a replay would touch what is gone.
  bool check_memory_of_nodes(RunContext& context) {
    const DeviceMemory& memory = context.device.memory();
    const uint64_t generation = memory.generation();
    if (graph_->checked_generation_ == generation) return true;
    for (size_t i = 0; i < graph_->nodes_.size(); ++i) {
      Error error = graph_->nodes_[i].task->check_memory(memory);
      if (!error.failed()) continue;
      context.error = at_node(i, Error{error.code(), error.message() +
          " A graph keeps the addresses it was captured with: keep the tensors alive, or capture again."});
      return false;
    }
    graph_->checked_generation_ = generation;
    return true;
  }

  Error at_node(size_t index, const Error& error) const {
    return {error.code(), error.message() + " [node " + std::to_string(index) + " of " +
                              graph_->describe() + ", captured on stream " +
                              std::to_string(graph_->lane_ids_[static_cast<size_t>(
                                  graph_->nodes_[index].lane)]) + "]"};
  }

  Step run_in_order(RunContext& context) {
    const size_t begin = next_;
    for (; next_ < graph_->program_.size(); ++next_) {
      const size_t index = graph_->program_[next_];
      Task& task = *graph_->nodes_[index].task;
      const Step step = task.run(context);
      if (step == Step::Done) continue;
      if (step == Step::Failed) {
        context.error = at_node(index, context.error);
        return step;
      }
      waits_for_ = task.waits_for() + " (" + task.name() + ", node " + std::to_string(index) + " of " +
                   graph_->describe() + ")";
      context.progressed = next_ > begin;
      if (graph_->lane_ids_.size() == 1) return step;
      start_lanes(index);
      return run_by_lane(context);
    }
    return Step::Done;
  }

  // From here on each captured stream has a place of its own; everything before `first` has run.
  void start_lanes(size_t first) {
    done_.assign(graph_->nodes_.size(), false);
    lanes_.assign(graph_->lane_ids_.size(), {});
    for (size_t i = 0; i < graph_->nodes_.size(); ++i) {
      if (i < first) done_[i] = true;
      else lanes_[static_cast<size_t>(graph_->nodes_[i].lane)].pending.push_back(i);
    }
  }

  Step run_by_lane(RunContext& context) {
    if (lanes_.empty()) start_lanes(0);
    for (Lane& lane : lanes_) lane.blocked = false;
    for (;;) {
      std::vector<Lane*> ready;
      bool pending = false;
      for (Lane& lane : lanes_) {
        if (lane.at == lane.pending.size()) continue;
        pending = true;
        const int depends = graph_->nodes_[lane.pending[lane.at]].depends;
        if (!lane.blocked && (depends < 0 || done_[static_cast<size_t>(depends)])) ready.push_back(&lane);
      }
      if (!pending) return Step::Done;
      if (ready.empty()) return Step::Blocked;
      Lane& lane = *ready[context.rng && ready.size() > 1 ? (*context.rng)() % ready.size() : 0];
      const size_t index = lane.pending[lane.at];
      Task& task = *graph_->nodes_[index].task;
      const Step step = task.run(context);
      if (step == Step::Failed) {
        context.error = at_node(index, context.error);
        return step;
      }
      if (step == Step::Blocked) {
        lane.blocked = true;
        waits_for_ = task.waits_for() + " (" + task.name() + ", node " + std::to_string(index) + ")";
        continue;
      }
      done_[index] = true;
      ++lane.at;
      context.progressed = true;
      for (Lane& other : lanes_) other.blocked = false;
    }
  }

  struct Lane {
    std::vector<size_t> pending;
    size_t at = 0;
    bool blocked = false;
  };
  const std::shared_ptr<Graph> graph_;
  bool started_ = false;
  size_t next_ = 0;          // in the graph's program, while in order
  std::vector<Lane> lanes_;  // empty while in order
  std::vector<bool> done_;
  std::string waits_for_;
};

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
