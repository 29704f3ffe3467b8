#include "event.h"

#include "context.h"
#include "device.h"
#include "event_pool.h"
#include "graph.h"
#include "stream.h"

namespace softnpu {
namespace {

class RecordTask : public Task {
 public:
  RecordTask(std::shared_ptr<EventState> state, uint64_t ticket, const Context& context)
      : state_(std::move(state)), ticket_(ticket), context_(context) {}
  Step run(RunContext& context) override {
    state_->time_ns.store(Device::now_ns());
    complete();
    uint64_t waiting = state_->waiting_devices.load() & ~(uint64_t{1} << context.device.index());
    for (int index = 0; waiting; ++index, waiting >>= 1) {
      if (waiting & 1) Device::get(index)->poke();
    }
    return Step::Done;
  }
  TaskKind kind() const override { return TaskKind::EventRecord; }
  std::string name() const override { return "the record of " + state_->name; }
  // Whoever waits in another context must not wait for ever, nor go on as if the work had been
  // done.
  void drop() override {
    if (context_.broken()) state_->lost.store(ticket_);
    complete();
  }

 private:
  void complete() {
    state_->raised.store(true);
    if (ticket_ > state_->completed.load()) state_->completed.store(ticket_);
  }
  std::shared_ptr<EventState> state_;
  const uint64_t ticket_;   // 0: recorded by a graph, which only raises the flag
  const Context& context_;  // of the stream that records
};

Error lost_error(const EventState& state) {
  return {Code::OperatorFailed,
          "What " + state.name +
              " was to mark never ran: its context had failed before. See the "
              "error of that context."};
}

Step wait_for(const EventState& state, bool complete, bool lost, RunContext& context) {
  if (!complete) return Step::Blocked;
  if (!lost) return Step::Done;
  context.error = lost_error(state);
  return Step::Failed;
}

class WaitTask : public Task {
 public:
  WaitTask(std::shared_ptr<EventState> state, uint64_t ticket)
      : state_(std::move(state)), ticket_(ticket) {}
  Step run(RunContext& context) override {
    const bool complete = state_->completed.load() >= ticket_;
    return wait_for(*state_, complete, state_->lost.load() >= ticket_, context);
  }
  TaskKind kind() const override { return TaskKind::EventWait; }
  std::string name() const override { return "the wait for " + state_->name; }
  std::string waits_for() const override { return "a record of " + state_->name; }

 private:
  std::shared_ptr<EventState> state_;
  const uint64_t ticket_;
};

class FlagTask : public Task {  // waits for an external event's flag, or lowers it
 public:
  FlagTask(std::shared_ptr<EventState> state, bool lower)
      : state_(std::move(state)), lower_(lower) {}
  Step run(RunContext& context) override {
    if (lower_) {
      state_->raised.store(false);
      return Step::Done;
    }
    return wait_for(*state_, state_->raised.load(), state_->lost.load() > 0, context);
  }
  TaskKind kind() const override { return lower_ ? TaskKind::EventReset : TaskKind::EventWait; }
  std::string name() const override {
    return (lower_ ? "the reset of external " : "the wait for external ") + state_->name;
  }
  std::string waits_for() const override { return "a record of external " + state_->name; }

 private:
  std::shared_ptr<EventState> state_;
  const bool lower_;
};

}  // namespace

HandlePool<Event>& event_pool() {
  static auto* pool = new HandlePool<Event>(size_t{1} << 20);
  return *pool;
}

uint32_t Event::next_id() {
  static std::atomic<uint32_t> next{0};
  return next.fetch_add(1);
}

Event::Event(Context& context, uint32_t flags)
    : context_(context), id_(next_id()), flags_(flags), state_(std::make_shared<EventState>()) {
  state_->name = "event " + std::to_string(id_);
}

Event* Event::from_handle(void* handle) { return event_pool().find(handle); }

void Event::set_captured(uint32_t graph_id, int node) {
  capture_node_ = node;
  capture_id_.store(graph_id, std::memory_order_release);
}

Error Event::record(Stream& stream) {
  Context& context = stream.context();
  if (const auto graph = Graph::of(stream)) {
    if (external()) return stream.submit(std::make_unique<RecordTask>(state_, 0, context));
    return graph->record_event(stream, *this);
  }
  set_captured(0, -1);
  const uint64_t ticket = state_->recorded.fetch_add(1) + 1;
  return stream.submit(std::make_unique<RecordTask>(state_, ticket, context));
}

Error Event::wait(Stream& stream) {
  state_->waiting_devices.fetch_or(uint64_t{1} << stream.device().index());
  if (external()) return stream.submit(std::make_unique<FlagTask>(state_, false));
  if (stream.capturing() || capture_id()) {
    bool recorded = false;
    Error error = Graph::wait_event(stream, *this, &recorded);
    if (error.failed() || recorded) return error;
  }
  const uint64_t ticket = state_->recorded.load();
  const bool complete = state_->completed.load() >= ticket && state_->lost.load() < ticket;
  if (!ticket || complete) return stream.context().first_error();
  return stream.submit(std::make_unique<WaitTask>(state_, ticket));
}

Error Event::reset(Stream& stream) {
  return stream.submit(std::make_unique<FlagTask>(state_, true));
}

Error Event::check_not_captured(const char* call) const {
  if (!capture_id()) return Error::ok();
  return {Code::EventCaptured, describe() + " was last recorded inside the capture of graph " +
                                   std::to_string(capture_id()) + ": it can't be " + call +
                                   " until it is recorded outside a capture."};
}

Error Event::query(bool* out) const {
  if (Error error = check_not_captured("queried"); error.failed()) return error;
  const uint64_t target = state_->recorded.load();
  const auto done = [this, target] { return state_->completed.load() >= target; };
  Error error = context_.device().poll(context_, done, out, describe());
  return error.failed() || !*out ? error : check_not_lost(target);
}

Error Event::synchronize(int timeout_ms) const {
  if (Error error = check_not_captured("synchronised"); error.failed()) return error;
  const uint64_t target = state_->recorded.load();
  const auto done = [this, target] { return state_->completed.load() >= target; };
  Error error = context_.device().run_until(context_, done, timeout_ms, describe());
  return error.failed() ? error : check_not_lost(target);
}

Error Event::check_not_lost(uint64_t record) const {
  return record && state_->lost.load() >= record ? lost_error(*state_) : Error::ok();
}

Error Event::elapsed_since(const Event& start, float* ms) const {
  for (const Event* event : {&start, this}) {
    if (Error error = event->check_not_captured("timed"); error.failed()) return error;
    if (!event->state_->recorded.load() || !event->complete()) {
      return {Code::EventTimestamp, event->describe() +
                                        " has no time: it was not recorded, or its "
                                        "record has not run. Synchronise it first."};
    }
  }
  *ms = static_cast<float>(state_->time_ns.load() - start.state_->time_ns.load()) / 1e6f;
  return Error::ok();
}

Error Event::timestamp_us(uint64_t* out) const {
  if (Error error = check_not_captured("timed"); error.failed()) return error;
  if (!state_->recorded.load() || !complete()) {
    return {Code::EventTimestamp, describe() +
                                      " has no time: it was not recorded, or its record "
                                      "has not run. Synchronise it first."};
  }
  *out = static_cast<uint64_t>(state_->time_ns.load()) / 1000;
  return Error::ok();
}

}  // namespace softnpu
