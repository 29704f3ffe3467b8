// Replaying a graph: a task of a stream, or of a graph that has this one as a conditional body.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph.h"
#include "task.h"

namespace softnpu {

// Runs the recorded tasks in an order their dependencies allow. Without a seed that is the capture
// order, task after task; only when one blocks (it waits for something outside the graph) do the
// other captured streams go on without it.
class GraphRun : public Task {
 public:
  explicit GraphRun(std::shared_ptr<Graph> graph);
  ~GraphRun() override;
  Step run(RunContext& context) override;
  TaskKind kind() const override { return TaskKind::Graph; }
  std::string name() const override { return "the replay of " + graph_->describe(); }
  std::string waits_for() const override { return waits_for_; }
  void drop() override { release(); }

 private:
  struct Lane {
    std::vector<size_t> pending;
    size_t at = 0;
    bool blocked = false;
  };
  void release();
  bool check_memory_of_nodes(RunContext& context);
  Error at_node(size_t index, const Error& error) const;
  void note_wait(size_t index);
  Step run_in_order(RunContext& context);
  void start_lanes(size_t first);
  Lane* pick(const RunContext& context);
  Step run_by_lane(RunContext& context);

  const std::shared_ptr<Graph> graph_;
  bool started_ = false;
  bool released_ = false;
  size_t next_ = 0;          // in the graph's program, while in order
  std::vector<Lane> lanes_;  // empty while in order
  std::vector<bool> done_;   // per node, once by lane
  size_t done_count_ = 0;
  std::string waits_for_;
};

}  // namespace softnpu
