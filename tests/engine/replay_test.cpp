#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "support.h"

using namespace test;

TEST(replay_on_any_stream_many_times, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& other = new_stream(context);
  int64_t sum = 0;
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  for (int i = 1; i <= 10; ++i) run_on(stream, [&, i] { sum += i; });
  Graph& graph = end_capture(stream);
  for (int i = 0; i < 100; ++i) CHECK_OK(graph.replay(i % 2 ? stream : other));
  CHECK_OK(graph.replay(context.default_stream()));
  CHECK_OK(context.synchronize());
  CHECK_EQ(sum, 55 * 101);
  CHECK_OK(graph.execute(10'000));
  CHECK_EQ(sum, 55 * 102);
  CHECK_OK(context.destroy_stream(stream, false));  // the capture's own stream may go
  CHECK_OK(graph.replay(other));
  CHECK_OK(other.synchronize());
  CHECK_EQ(sum, 55 * 103);
}

TEST(replay_is_in_stream_order, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Trace trace;
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  trace.mark(stream, 'g');
  trace.mark(stream, 'h');
  Graph& graph = end_capture(stream);
  trace.mark(stream, 'a');
  CHECK_OK(graph.replay(stream));
  trace.mark(stream, 'b');
  CHECK_OK(graph.replay(stream));
  CHECK_OK(stream.synchronize());
  CHECK_EQ(trace.text(), "aghbgh");
}

TEST(replay_of_several_graphs, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Trace trace;
  std::vector<Graph*> graphs;
  for (char letter = 'a'; letter < 'f'; ++letter) {
    CHECK_OK(Graph::begin(stream, CaptureMode::Global));
    trace.mark(stream, letter);
    graphs.push_back(&end_capture(stream));
  }
  for (const int i : {4, 0, 3, 1, 2, 0}) CHECK_OK(graphs[static_cast<size_t>(i)]->replay(stream));
  CHECK_OK(stream.synchronize());
  CHECK_EQ(trace.text(), "eadbca");
  CHECK_OK(graphs[0]->destroy());
  CHECK_OK(graphs[1]->replay(stream));
  CHECK_OK(stream.synchronize());
}

TEST(replay_of_one_graph_on_two_streams_is_one_after_the_other, "SOFTNPU_SEED=11") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& other = new_stream(context);
  Trace trace;
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  for (const char letter : {'a', 'b', 'c'}) trace.mark(stream, letter);
  Graph& graph = end_capture(stream);
  CHECK_OK(graph.replay(stream));
  CHECK_OK(graph.replay(other));
  CHECK_OK(context.synchronize());
  CHECK_EQ(trace.text(), "abcabc");
}

TEST(replay_of_an_empty_graph, "") {
  Stream& stream = new_stream(use_device());
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  Graph& graph = end_capture(stream);
  CHECK_OK(graph.replay(stream));
  CHECK_OK(stream.synchronize());
}

TEST(replay_into_a_capture_is_refused, "") {
  Stream& stream = new_stream(use_device());
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  Graph& graph = end_capture(stream);
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  CHECK_CODE(graph.replay(stream), StreamCaptured);
  CHECK_EQ(end_capture(stream).node_count(), 0u);
}

TEST(replay_on_another_device_is_refused, "") {
  Stream& stream = new_stream(use_device(0));
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  Graph& graph = end_capture(stream);
  CHECK_CODE(graph.replay(new_stream(use_device(1))), WrongContext);
}

TEST(replay_running_cannot_be_destroyed, "") {
  Stream& stream = new_stream(use_device());
  Gate gate;
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  gate.hold(stream);
  Graph& graph = end_capture(stream);
  CHECK_OK(graph.replay(stream));
  CHECK_CODE(graph.destroy(), ModelRunning);
  CHECK(Graph::from_handle(&graph) == &graph);
  gate.open();
  CHECK_OK(stream.synchronize());
  CHECK_OK(graph.destroy());
}

// What has been waited for is not running any more, whoever ran it.
TEST(replay_destroyed_right_after_synchronize, "") {
  Stream& stream = new_stream(use_device());
  for (int i = 0; i < 500; ++i) {
    CHECK_OK(Graph::begin(stream, CaptureMode::Global));
    run_on(stream, [] {});
    Graph& graph = end_capture(stream);
    CHECK_OK(graph.replay(stream));
    if (i % 2) usleep(100);
    CHECK_OK(stream.synchronize());
    CHECK_OK(graph.destroy());
  }
}

TEST(replay_of_forked_streams_keeps_the_recorded_order, "SOFTNPU_SEED=7") {
  Context& context = use_device();
  Stream& origin = new_stream(context);
  Stream& side = new_stream(context);
  Event& fork = new_event(context);
  Event& join = new_event(context);
  Trace trace;
  CHECK_OK(Graph::begin(origin, CaptureMode::Global));
  trace.mark(origin, 'a');
  CHECK_OK(fork.record(origin));
  CHECK_OK(fork.wait(side));
  trace.mark(side, 's');
  CHECK_OK(join.record(side));
  trace.mark(origin, 'b');
  CHECK_OK(join.wait(origin));
  trace.mark(origin, 'z');
  Graph& graph = end_capture(origin);
  bool side_first = false;
  bool origin_first = false;
  for (int i = 0; i < 40; ++i) {
    trace.clear();
    CHECK_OK(graph.replay(origin));
    CHECK_OK(origin.synchronize());
    CHECK_EQ(trace.text().front(), 'a');
    CHECK_EQ(trace.text().back(), 'z');
    (trace.before('s', 'b') ? side_first : origin_first) = true;
  }
  CHECK(side_first && origin_first);
}

// A replay that waits inside lets other streams and its own other lanes go on.
TEST(replay_blocked_inside_lets_others_go_on, "") {
  Context& context = use_device();
  Stream& origin = new_stream(context);
  Stream& side = new_stream(context);
  Stream& other = new_stream(context);
  Event& fork = new_event(context);
  Event& join = new_event(context);
  Event& external = new_event(context, kEventExternal);
  Trace trace;
  CHECK_OK(Graph::begin(origin, CaptureMode::Global));
  CHECK_OK(fork.record(origin));
  CHECK_OK(fork.wait(side));
  CHECK_OK(external.wait(origin));
  CHECK_OK(external.reset(origin));
  trace.mark(origin, 'o');
  trace.mark(side, 's');
  CHECK_OK(join.record(side));
  CHECK_OK(join.wait(origin));
  trace.mark(origin, 'z');
  Graph& graph = end_capture(origin);
  for (int i = 0; i < 3; ++i) {
    trace.clear();
    CHECK_OK(graph.replay(origin));
    usleep(3'000);
    trace.mark(other, 'x');
    CHECK_OK(other.synchronize());
    CHECK_OK(external.record(other));
    CHECK_OK(context.synchronize());
    CHECK_EQ(trace.text(), "sxoz");
  }
}

TEST(replay_and_another_stream_interleave_under_seeds, "SOFTNPU_SEED=2") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& other = new_stream(context);
  Trace trace;
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  for (const char letter : {'a', 'b', 'c', 'd'}) trace.mark(stream, letter);
  Graph& graph = end_capture(stream);
  bool between = false;
  for (int i = 0; i < 30; ++i) {
    trace.clear();
    CHECK_OK(graph.replay(stream));
    trace.mark(other, 'x');
    CHECK_OK(context.synchronize());
    CHECK(trace.before('a', 'b') && trace.before('b', 'c') && trace.before('c', 'd'));
    between = between || (trace.before('a', 'x') && trace.before('x', 'd'));
  }
  CHECK(between);
}

TEST(replay_reads_what_its_addresses_hold, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  auto* from = static_cast<char*>(new_memory(context.device(), 64));
  auto* to = static_cast<char*>(new_memory(context.device(), 64));
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  CHECK_OK(copy_async(stream, to, 64, from, 64, CopyKind::DeviceToDevice, "aclrtMemcpyAsync"));
  Graph& graph = end_capture(stream);
  for (char value = 1; value < 5; ++value) {
    CHECK_OK(fill_async(stream, from, 64, value, 64));
    CHECK_OK(graph.replay(stream));
    CHECK_OK(stream.synchronize());
    CHECK_EQ(to[63], value);
  }
}

TEST(replay_over_freed_memory_is_an_error, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  void* memory = new_memory(context.device(), 64);
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  run_on(stream, [] {});
  CHECK_OK(fill_async(stream, memory, 64, 1, 64));
  Graph& graph = end_capture(stream);
  CHECK_OK(graph.replay(stream));
  CHECK_OK(stream.synchronize());
  CHECK_OK(context.device().memory().release(memory));
  CHECK_OK(graph.replay(stream));
  const Error error = stream.synchronize();
  CHECK_CODE(error, KernelException);
  CHECK_HAS(error.message(), "node 1 of " + graph.describe());
  CHECK_HAS(error.message(), "aclrtMemsetAsync");
  CHECK_HAS(error.message(), "keep the tensors alive");
}

TEST(replay_failure_names_node_graph_and_stream, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& replay_stream = new_stream(context);
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  run_on(stream, [] {});
  fail_on(stream, "bad index");
  Graph& graph = end_capture(stream);
  CHECK_OK(graph.replay(replay_stream));
  const Error error = replay_stream.synchronize();
  CHECK_CODE(error, OperatorFailed);
  for (const std::string& part :
       {std::string("bad index"), std::string("node 1 of ") + graph.describe(),
        "stream " + std::to_string(stream.id()), replay_stream.describe()}) {
    CHECK_HAS(error.message(), part);
  }
  CHECK_OK(graph.destroy());
}

TEST(replay_dump_is_json, "") {
  Context& context = use_device();
  Stream& origin = new_stream(context);
  Stream& side = new_stream(context);
  Event& event = new_event(context);
  CHECK_OK(Graph::begin(origin, CaptureMode::Global));
  run_on(origin, [] {}, "odd \"name\" \\ with\nbreak");
  CHECK_OK(event.record(origin));
  CHECK_OK(event.wait(side));
  CHECK_OK(fill_async(side, new_memory(context.device(), 8), 8, 0, 8));
  CHECK_OK(event.record(side));
  CHECK_OK(event.wait(origin));
  CHECK_CODE(origin.capturing()->dump_json("unused", true), ModelCaptured);
  Graph& graph = end_capture(origin);
  char path[] = "/tmp/softnpu-dump-XXXXXX";
  CHECK(mkstemp(path) >= 0);
  CHECK_OK(graph.dump_json(path, true));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::remove(path);
  std::fputs(text.str().c_str(), stdout);  // test_engine.py parses it
  CHECK_CODE(graph.dump_json("/nowhere/at/all.json", false), InvalidParam);
}

TEST(replay_destroy_callbacks, "") {
  Stream& stream = new_stream(use_device());
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  Graph& graph = end_capture(stream);
  int calls = 0;
  const auto count = [](void* data) { ++*static_cast<int*>(data); };
  const auto never = [](void*) { CHECK(false); };
  CHECK_OK(graph.add_destroy_callback(count, &calls));
  CHECK_OK(graph.add_destroy_callback(never, nullptr));
  CHECK_OK(graph.remove_destroy_callback(never));
  CHECK_CODE(graph.remove_destroy_callback(never), InvalidParam);
  CHECK_OK(graph.destroy());
  CHECK_EQ(calls, 1);
}
