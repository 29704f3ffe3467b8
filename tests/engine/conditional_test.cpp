#include <unistd.h>

#include "support.h"

using namespace test;

namespace {

// A graph of before(a), a conditional node with `count` bodies that write 0, 1, …, and after(z). A
// While body runs `in_body` too.
struct Conditional {
  Graph* graph;
  Condition* condition;
};

Conditional capture(Stream& stream, Stream& body_stream, Trace& trace, ConditionKind kind,
                    size_t count, const std::function<void()>& in_body = {}) {
  Conditional out = {nullptr, nullptr};
  CHECK_OK(Graph::begin(stream, CaptureMode::Relaxed));
  CHECK_OK(stream.capturing()->create_condition(0, false, &out.condition));
  trace.mark(stream, 'a');
  std::vector<Graph*> bodies(count);
  CHECK_OK(Graph::add_conditional(stream, *out.condition, kind, count, bodies.data()));
  for (size_t i = 0; i < count; ++i) {
    CHECK_OK(Graph::begin_into(body_stream, *bodies[i], CaptureMode::Relaxed));
    trace.mark(body_stream, static_cast<char>('0' + i));
    if (in_body) in_body();
    CHECK(&end_capture(body_stream) == bodies[i]);
    CHECK_CODE(bodies[i]->destroy(), InvalidParam);
  }
  trace.mark(stream, 'z');
  out.graph = &end_capture(stream);
  return out;
}

std::string run(const Conditional& conditional, Stream& stream, Trace& trace, uint64_t value) {
  trace.clear();
  *conditional.condition->cell = value;
  CHECK_OK(conditional.graph->replay(stream));
  CHECK_OK(stream.synchronize());
  return trace.text();
}

void check_if_else_switch() {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& body = new_stream(context);
  Trace trace;
  const Conditional only_if = capture(stream, body, trace, ConditionKind::If, 1);
  CHECK_EQ(run(only_if, stream, trace, 0), "az");
  CHECK_EQ(run(only_if, stream, trace, 7), "a0z");
  const Conditional with_else = capture(stream, body, trace, ConditionKind::If, 2);
  CHECK_EQ(run(with_else, stream, trace, 0), "a1z");
  CHECK_EQ(run(with_else, stream, trace, 1), "a0z");
  const Conditional choice = capture(stream, body, trace, ConditionKind::Switch, 3);
  CHECK_EQ(run(choice, stream, trace, 2), "a2z");
  CHECK_EQ(run(choice, stream, trace, 3), "az");
}

void check_while() {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& body = new_stream(context);
  Trace trace;
  Condition* condition = nullptr;
  const Conditional loop = capture(stream, body, trace, ConditionKind::While, 1,
                                   [&] { run_on(body, [&] { --*condition->cell; }); });
  condition = loop.condition;
  CHECK_EQ(run(loop, stream, trace, 3), "a000z");
  CHECK_EQ(run(loop, stream, trace, 0), "az");
}

}  // namespace

TEST(conditional_if_else_switch, "") { check_if_else_switch(); }
TEST(conditional_if_else_switch_under_a_seed, "SOFTNPU_SEED=4") { check_if_else_switch(); }
TEST(conditional_while, "") { check_while(); }
TEST(conditional_while_under_a_seed, "SOFTNPU_SEED=4") { check_while(); }

TEST(conditional_default_is_assigned_at_each_replay, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& body_stream = new_stream(context);
  Condition* condition = nullptr;
  Graph* body = nullptr;
  int ran = 0;
  CHECK_OK(Graph::begin(stream, CaptureMode::Relaxed));
  CHECK_OK(stream.capturing()->create_condition(1, true, &condition));
  CHECK_OK(Graph::add_conditional(stream, *condition, ConditionKind::If, 1, &body));
  CHECK_OK(Graph::begin_into(body_stream, *body, CaptureMode::Relaxed));
  run_on(body_stream, [&] { ++ran; });
  (void)end_capture(body_stream);
  run_on(stream, [&] { *condition->cell = 0; });
  Graph& graph = end_capture(stream);
  for (int i = 0; i < 3; ++i) CHECK_OK(graph.replay(stream));
  CHECK_OK(stream.synchronize());
  CHECK_EQ(ran, 3);
}

TEST(conditional_body_that_waits_lets_others_go_on, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& body = new_stream(context);
  Stream& other = new_stream(context);
  Event& external = new_event(context, kEventExternal);
  Trace trace;
  const Conditional waits = capture(stream, body, trace, ConditionKind::If, 1, [&] {
    CHECK_OK(external.wait(body));
    CHECK_OK(external.reset(body));
  });
  *waits.condition->cell = 1;
  for (int i = 0; i < 3; ++i) {
    trace.clear();
    CHECK_OK(waits.graph->replay(stream));
    CHECK_CODE(stream.synchronize(10), SyncTimeout);
    trace.mark(other, 'x');
    CHECK_OK(external.record(other));
    CHECK_OK(stream.synchronize());
    CHECK_EQ(trace.text(), "a0xz");
  }
}

TEST(conditional_body_that_hangs_is_named, "SOFTNPU_HANG_SECONDS=0.3") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& body = new_stream(context);
  Event& external = new_event(context, kEventExternal);
  Trace trace;
  const Conditional waits =
      capture(stream, body, trace, ConditionKind::If, 1, [&] { CHECK_OK(external.wait(body)); });
  *waits.condition->cell = 1;
  CHECK_OK(waits.graph->replay(stream));
  const Error error = stream.synchronize();
  CHECK_CODE(error, Hang);
  CHECK_HAS(error.message(), external.describe());
  CHECK_OK(waits.graph->destroy());
}

TEST(conditional_body_that_fails_names_both_graphs, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& body = new_stream(context);
  Trace trace;
  const Conditional fails =
      capture(stream, body, trace, ConditionKind::If, 1, [&] { fail_on(body, "bad body"); });
  *fails.condition->cell = 1;
  CHECK_OK(fails.graph->replay(stream));
  const Error error = stream.synchronize();
  CHECK_CODE(error, OperatorFailed);
  CHECK_HAS(error.message(), "bad body");
  CHECK_HAS(error.message(), fails.graph->describe() + ",");
  CHECK_OK(fails.graph->destroy());
}

TEST(conditional_body_left_out_or_open_fails_the_end, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& body_stream = new_stream(context);
  for (const bool open : {false, true}) {
    Condition* condition = nullptr;
    Graph* body = nullptr;
    Graph* out = nullptr;
    CHECK_OK(Graph::begin(stream, CaptureMode::Relaxed));
    CHECK_OK(stream.capturing()->create_condition(0, false, &condition));
    CHECK_OK(Graph::add_conditional(stream, *condition, ConditionKind::If, 1, &body));
    if (open) CHECK_OK(Graph::begin_into(body_stream, *body, CaptureMode::Relaxed));
    CHECK_CODE(Graph::end(stream, &out), BodyCapturing);
    // The body went with its graph, and its stream captures no more.
    CHECK(Graph::from_handle(body) == nullptr);
    CHECK(Condition::from_handle(condition) == nullptr);
    CHECK(body_stream.capture_status() == CaptureStatus::None);
    CHECK_CODE(Graph::end(body_stream, &out), NotCaptured);
    CHECK_OK(context.synchronize());
  }
}

TEST(conditional_arguments_are_checked, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& other = new_stream(context);
  Condition* condition = nullptr;
  Graph* bodies[3] = {};
  CHECK_OK(Graph::begin(stream, CaptureMode::Relaxed));
  CHECK_OK(stream.capturing()->create_condition(0, false, &condition));
  CHECK_CODE(Graph::add_conditional(stream, *condition, ConditionKind::If, 3, bodies),
             InvalidParam);
  CHECK_CODE(Graph::add_conditional(stream, *condition, ConditionKind::While, 0, bodies),
             InvalidParam);
  CHECK_CODE(Graph::add_conditional(other, *condition, ConditionKind::If, 1, bodies), NotCaptured);
  CHECK_CODE(Graph::begin_into(other, *stream.capturing(), CaptureMode::Relaxed), InvalidParam);
  CHECK_OK(Graph::begin(other, CaptureMode::Relaxed));
  CHECK_CODE(Graph::add_conditional(other, *condition, ConditionKind::If, 1, bodies), InvalidParam);
  (void)end_capture(other);
  CHECK_OK(end_capture(stream).destroy());
  CHECK(Condition::from_handle(condition) == nullptr);
}
