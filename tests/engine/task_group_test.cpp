#include <unistd.h>

#include "support.h"

using namespace test;

namespace {

struct Captured {
  Graph* graph;
  void* group;
};

// A graph of before(a), a group of one operator that writes `letter`, and after(z).
Captured capture_group(Stream& stream, Trace& trace, char letter) {
  Captured out = {nullptr, nullptr};
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  trace.mark(stream, 'a');
  CHECK_OK(Graph::group_begin(stream));
  trace.mark(stream, letter);
  CHECK_OK(Graph::group_end(stream, &out.group));
  trace.mark(stream, 'z');
  out.graph = &end_capture(stream);
  return out;
}

}  // namespace

TEST(task_group_update_replaces_the_task, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Trace trace;
  const Captured captured = capture_group(stream, trace, '1');
  CHECK_OK(captured.graph->replay(stream));
  CHECK_OK(Graph::update_begin(stream, captured.group));
  trace.mark(stream, '2');
  CHECK_OK(Graph::update_end(stream));
  CHECK_OK(captured.graph->replay(stream));
  CHECK_OK(stream.synchronize());
  CHECK_EQ(trace.text(), "a1za2z");
}

TEST(task_group_update_on_another_stream, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& updater = new_stream(context);
  Event& event = new_event(context);
  Trace trace;
  const Captured captured = capture_group(stream, trace, '1');
  for (char letter = '2'; letter < '5'; ++letter) {
    CHECK_OK(Graph::update_begin(updater, captured.group));
    trace.mark(updater, letter);
    CHECK_OK(Graph::update_end(updater));
    CHECK_OK(event.record(updater));
    CHECK_OK(event.wait(stream));
    CHECK_OK(captured.graph->replay(stream));
    CHECK_OK(stream.synchronize());
  }
  CHECK_EQ(trace.text(), "a2za3za4z");
}

// A replay past the task does not see the update; one that still stands before it does.
TEST(task_group_update_beside_a_replay, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& updater = new_stream(context);
  Event& before = new_event(context, kEventExternal);
  Event& after = new_event(context, kEventExternal);
  Trace trace;
  void* group = nullptr;
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  CHECK_OK(before.wait(stream));
  CHECK_OK(before.reset(stream));
  CHECK_OK(Graph::group_begin(stream));
  trace.mark(stream, '1');
  CHECK_OK(Graph::group_end(stream, &group));
  CHECK_OK(after.wait(stream));
  CHECK_OK(after.reset(stream));
  Graph& graph = end_capture(stream);
  const auto update = [&](char letter) {
    CHECK_OK(Graph::update_begin(updater, group));
    trace.mark(updater, letter);
    CHECK_OK(Graph::update_end(updater));
    CHECK_OK(updater.synchronize());
  };
  CHECK_OK(graph.replay(stream));
  CHECK_CODE(stream.synchronize(5), SyncTimeout);  // stands before the task
  update('2');
  CHECK_OK(before.record(updater));
  CHECK_CODE(stream.synchronize(20), SyncTimeout);  // stands after it
  update('3');
  CHECK_OK(after.record(updater));
  CHECK_OK(stream.synchronize());
  CHECK_EQ(trace.text(), "2");
}

TEST(task_group_update_must_match, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Trace trace;
  const Captured captured = capture_group(stream, trace, '1');
  const auto update = [&](const std::vector<std::string>& names) {
    CHECK_OK(Graph::update_begin(stream, captured.group));
    for (const auto& name : names) run_on(stream, [] {}, name);
    return Graph::update_end(stream);
  };
  const Error fewer = update({});
  CHECK_CODE(fewer, TaskGroupMismatch);
  CHECK_HAS(fewer.message(), captured.graph->describe());
  CHECK_CODE(update({"op", "op"}), TaskGroupMismatch);
  CHECK_CODE(update({"another"}), TaskGroupMismatch);
  CHECK_OK(update({"op"}));
  CHECK_OK(captured.graph->replay(stream));
  CHECK_OK(stream.synchronize());
  CHECK_EQ(trace.text(), "az");
}

TEST(task_group_calls_out_of_order, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& other = new_stream(context);
  void* group = nullptr;
  CHECK_CODE(Graph::group_begin(stream), NotCaptured);
  CHECK_CODE(Graph::group_end(stream, &group), NotCaptured);
  CHECK_CODE(Graph::update_end(stream), TaskGroupStatus);
  CHECK_CODE(Graph::update_begin(stream, &stream), InvalidHandle);
  const auto spoiled = [&](const std::function<Error()>& body, Code wanted) {
    CHECK_OK(Graph::begin(stream, CaptureMode::Relaxed));
    const Error error = body();
    CHECK(error.code() == wanted);
    Graph* out = nullptr;
    CHECK(Graph::end(stream, &out).failed());
    CHECK_OK(context.synchronize());
  };
  spoiled([&] { return Graph::group_end(stream, &group); }, Code::TaskGroupStatus);
  spoiled(
      [&] {
        CHECK_OK(Graph::group_begin(stream));
        return Graph::group_begin(stream);
      },
      Code::TaskGroupStatus);
  spoiled(
      [&] {
        Event& event = new_event(context);
        CHECK_OK(event.record(stream));
        CHECK_OK(event.wait(other));
        CHECK_OK(Graph::group_begin(stream));
        return other.submit(task([] {}));
      },
      Code::TaskGroupInterrupted);
  spoiled(
      [&] {
        Event& event = new_event(context);
        CHECK_OK(event.record(stream));
        CHECK_OK(Graph::group_begin(stream));
        return event.wait(other);
      },
      Code::TaskGroupInterrupted);
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  CHECK_OK(Graph::group_begin(stream));
  Graph* out = nullptr;
  CHECK_CODE(Graph::end(stream, &out), TaskGroupStatus);
}

TEST(task_group_update_of_a_destroyed_graph, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Trace trace;
  const Captured captured = capture_group(stream, trace, '1');
  CHECK_OK(Graph::update_begin(stream, captured.group));
  CHECK_CODE(Graph::update_begin(stream, captured.group), TaskGroupStatus);
  trace.mark(stream, '2');
  CHECK_OK(captured.graph->destroy());
  CHECK_CODE(Graph::update_end(stream), InvalidHandle);
  CHECK_CODE(Graph::update_begin(stream, captured.group), InvalidHandle);
  trace.mark(stream, 'x');
  CHECK_OK(stream.synchronize());
  CHECK_EQ(trace.text(), "x");
}
