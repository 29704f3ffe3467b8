// Conditional nodes of a graph: a body graph that runs or not, as a cell in device memory says.
#include <atomic>
#include <set>

#include "context.h"
#include "device.h"
#include "graph.h"
#include "graph_run.h"

namespace softnpu {
namespace {

std::mutex g_mutex;  // guards the set
std::set<const void*>& live_conditions() {
  static auto* conditions = new std::set<const void*>;
  return *conditions;
}

const char* kind_name(ConditionKind kind) {
  switch (kind) {
    case ConditionKind::If:
      return "IF";
    case ConditionKind::While:
      return "WHILE";
    case ConditionKind::Switch:
      return "SWITCH";
  }
  return "?";
}

}  // namespace

class ConditionalTask : public Task {
 public:
  ConditionalTask(const Condition& condition, ConditionKind kind,
                  std::vector<std::shared_ptr<Graph>> bodies)
      : condition_(condition), kind_(kind), bodies_(std::move(bodies)) {}

  Step run(RunContext& context) override {
    for (;;) {
      if (!body_) {
        Graph* chosen = choose();
        if (!chosen) return Step::Done;
        body_ = std::make_unique<GraphRun>(chosen->shared_from_this());
      }
      const Step step = body_->run(context);
      if (step == Step::Blocked) return step;
      body_.reset();
      if (step == Step::Failed || kind_ != ConditionKind::While) return step;
    }
  }
  TaskKind kind() const override { return TaskKind::Condition; }
  std::string name() const override { return std::string("CONDITION_") + kind_name(kind_); }
  std::string detail() const override {
    std::string text = "bodies:";
    for (const auto& body : bodies_) text += " " + body->describe();
    return text;
  }
  std::string waits_for() const override { return body_ ? body_->waits_for() : ""; }
  void drop() override { body_.reset(); }

 private:
  Graph* choose() const {
    const uint64_t value = std::atomic_ref<uint64_t>(*condition_.cell).load();
    if (kind_ == ConditionKind::Switch)
      return value < bodies_.size() ? bodies_[value].get() : nullptr;
    if (value) return bodies_[0].get();
    // An IF with two bodies has an else.
    return kind_ == ConditionKind::If && bodies_.size() == 2 ? bodies_[1].get() : nullptr;
  }

  const Condition& condition_;  // owned by the graph that owns this task
  const ConditionKind kind_;
  const std::vector<std::shared_ptr<Graph>> bodies_;
  std::unique_ptr<GraphRun> body_;
};

Condition* Condition::from_handle(void* handle) {
  std::lock_guard lock(g_mutex);
  return live_conditions().count(handle) ? static_cast<Condition*>(handle) : nullptr;
}

Error Graph::create_condition(uint64_t initial, bool assign_default, Condition** out) {
  void* cell = nullptr;
  if (Error error = context_.device().memory().allocate(sizeof(uint64_t), &cell); error.failed()) {
    return error;
  }
  std::lock_guard lock(mutex_);
  *static_cast<uint64_t*>(cell) = initial;
  conditions_.push_back(std::make_unique<Condition>(
      Condition{*this, initial, assign_default, static_cast<uint64_t*>(cell)}));
  *out = conditions_.back().get();
  std::lock_guard live_lock(g_mutex);
  live_conditions().insert(*out);
  return Error::ok();
}

void Graph::release_conditions() {
  std::lock_guard lock(g_mutex);
  for (const auto& condition : conditions_) {
    live_conditions().erase(condition.get());
    // A device that was reset has freed it already.
    (void)context_.device().memory().release(condition->cell);
  }
}

void Graph::assign_condition_defaults() {
  for (const auto& condition : conditions_) {
    if (condition->assign_default) *condition->cell = condition->initial;
  }
}

Error Graph::add_conditional(Stream& stream, Condition& condition, ConditionKind kind, size_t count,
                             Graph** bodies) {
  const auto graph = of(stream);
  if (!graph) {
    return {Code::NotCaptured,
            stream.describe() + " does not capture: a conditional node can't be added."};
  }
  if (&condition.graph != graph.get()) {
    return {Code::InvalidParam, "The condition belongs to " + condition.graph.describe() +
                                    ", not to " + graph->describe() + ", which " +
                                    stream.describe() + " captures."};
  }
  const size_t most = kind == ConditionKind::If ? 2 : kind == ConditionKind::While ? 1 : SIZE_MAX;
  if (count < 1 || count > most) {
    return {Code::InvalidParam, std::string("A conditional node of kind ") + kind_name(kind) +
                                    " can't have " + std::to_string(count) + " bodies."};
  }
  std::vector<std::shared_ptr<Graph>> created;
  for (size_t i = 0; i < count; ++i) {
    created.push_back(std::make_shared<Graph>(graph->context_, next_id()));
    created.back()->is_body_ = true;
  }
  if (Error error =
          graph->record(stream, std::make_unique<ConditionalTask>(condition, kind, created));
      error.failed()) {
    return error;
  }
  {
    std::lock_guard lock(graph->context_.mutex_);
    auto& graphs = graph->context_.graphs_;
    graphs.insert(graphs.end(), created.begin(), created.end());
  }
  std::lock_guard lock(graph->mutex_);
  for (size_t i = 0; i < count; ++i) bodies[i] = created[i].get();
  graph->bodies_.insert(graph->bodies_.end(), created.begin(), created.end());
  return Error::ok();
}

Error Graph::begin_into(Stream& stream, Graph& body, CaptureMode mode) {
  if (!body.is_body_ || body.captured() || body.status() != CaptureStatus::None) {
    return {Code::InvalidParam, body.describe() +
                                    " is not the body of a conditional node that is still to be "
                                    "captured."};
  }
  if (&stream.context() != &body.context_) {
    return {Code::WrongContext, stream.describe() + " is of another context than " +
                                    body.describe() + " and can't capture it."};
  }
  return start(stream, body.shared_from_this(), mode);
}

Error Graph::check_bodies() const {
  for (const auto& body : bodies_) {
    if (body->status() != CaptureStatus::None) {
      return {Code::BodyCapturing, body->describe() + ", a conditional body of " + describe() +
                                       ", is still being captured. End that capture first."};
    }
    if (!body->captured()) {
      return {Code::BodyCapturing,
              body->describe() + ", a conditional body of " + describe() + ", was never captured."};
    }
  }
  return Error::ok();
}

}  // namespace softnpu
