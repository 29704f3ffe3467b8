// What the engine costs, with tasks that do nothing. Each figure is the best of several rounds,
// since other programs disturb a round. `softnpu_engine_bench` prints a table; nothing is asserted.
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "support.h"

using namespace test;

namespace {

constexpr int kRounds = 20;
constexpr int kNodes = 1'000;

class EmptyTask : public Task {
 public:
  Step run(RunContext&) override { return Step::Done; }
  TaskKind kind() const override { return TaskKind::Operator; }
  std::string name() const override { return "empty"; }
};

void submit_empty(Stream& stream) { CHECK_OK(stream.submit(std::make_unique<EmptyTask>())); }

// Nanoseconds per item of the quickest round.
double best(double items, const std::function<void()>& body) {
  int64_t least = INT64_MAX;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t begin = Device::now_ns();
    body();
    least = std::min(least, Device::now_ns() - begin);
  }
  return static_cast<double>(least) / items;
}

void print(const char* what, double ns, const char* target) {
  std::printf("%-58s %9.1f ns   %s\n", what, ns, target);
}

Graph& capture_on_one_stream(Stream& stream) {
  CHECK_OK(Graph::begin(stream, CaptureMode::Relaxed));
  for (int i = 0; i < kNodes; ++i) submit_empty(stream);
  return end_capture(stream);
}

// The same nodes, each tenth round-robin on four streams that fork and join again.
Graph& capture_on_four_streams(Context& context, Stream& origin) {
  std::vector<Stream*> streams{&origin};
  for (int i = 0; i < 3; ++i) streams.push_back(&new_stream(context));
  Event& event = new_event(context);
  CHECK_OK(Graph::begin(origin, CaptureMode::Relaxed));
  for (int node = 0; node < kNodes; node += 10) {
    for (int i = 0; i < 10; ++i) submit_empty(*streams[static_cast<size_t>(node / 10 % 4)]);
    if (node / 10 % 4 != 0) continue;
    CHECK_OK(event.record(origin));
    for (size_t i = 1; i < 4; ++i) CHECK_OK(event.wait(*streams[i]));
  }
  for (size_t i = 1; i < 4; ++i) {
    CHECK_OK(event.record(*streams[i]));
    CHECK_OK(event.wait(origin));
  }
  return end_capture(origin);
}

// What the figures stand beside: the same tasks called one after another, with no engine between.
double direct_cost(Context& context, Stream& stream) {
  std::vector<TaskPtr> tasks;
  for (int i = 0; i < kNodes; ++i) tasks.push_back(std::make_unique<EmptyTask>());
  RunContext run{context.device(), stream, {}, {}, {}, {}};
  return best(200.0 * kNodes, [&] {
    for (int i = 0; i < 200; ++i) {
      for (const TaskPtr& task : tasks) (void)task->run(run);
    }
  });
}

double replay_cost(Graph& graph, Stream& stream) {
  constexpr int kReplays = 200;
  return best(kReplays * kNodes, [&] {
    for (int i = 0; i < kReplays; ++i) CHECK_OK(graph.replay(stream));
    CHECK_OK(stream.synchronize());
  });
}

double status_cost(const Stream& stream, int threads) {
  constexpr int kQueries = 1'000'000;
  const double cores = std::min<double>(threads, std::thread::hardware_concurrency());
  return best(kQueries * threads / cores, [&] {
    std::vector<std::thread> pool;
    for (int i = 0; i < threads; ++i) {
      pool.emplace_back([&] {
        uintptr_t seen = 0;
        for (int query = 0; query < kQueries; ++query) {
          Graph* graph = nullptr;
          seen += static_cast<uintptr_t>(stream.capture_info(&graph)) +
                  reinterpret_cast<uintptr_t>(graph);
        }
        static std::atomic<uintptr_t> sink;
        sink = seen;
      });
    }
    for (auto& thread : pool) thread.join();
  });
}

}  // namespace

int main() {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  constexpr int kTasks = 20'000;

  print("an empty task called directly, through the same interface", direct_cost(context, stream),
        "");
  const double one = replay_cost(capture_on_one_stream(stream), stream);
  print("replayed empty node, graph of 1,000", one, "<= 200");
  const double four = replay_cost(capture_on_four_streams(context, stream), stream);
  print("the same nodes captured on four streams", four, "<= 2 x one stream");
  print("capture status, 1 thread", status_cost(stream, 1), "<= 15");
  print("capture status, 8 threads, time of a core", status_cost(stream, 8), "<= 15");

  const double eager = best(kTasks, [&] {
    for (int i = 0; i < kTasks; ++i) submit_empty(stream);
    CHECK_OK(stream.synchronize());
  });
  print("eager empty task, submitted and run", eager, "");
  const double make = best(kNodes, [] {
    std::vector<TaskPtr> tasks;
    for (int i = 0; i < kNodes; ++i) tasks.push_back(std::make_unique<EmptyTask>());
  });
  const double recorded = best(kNodes, [&] { CHECK_OK(capture_on_one_stream(stream).destroy()); });
  print("captured call, beyond making its task (graph of 1,000)", recorded - make, "<= 500");
  print("one task and a synchronise",
        best(1'000,
             [&] {
               for (int i = 0; i < 1'000; ++i) {
                 submit_empty(stream);
                 CHECK_OK(stream.synchronize());
               }
             }),
        "a few us");
  print("one replay of one node and a synchronise",
        best(1'000,
             [&] {
               CHECK_OK(Graph::begin(stream, CaptureMode::Relaxed));
               submit_empty(stream);
               Graph& graph = end_capture(stream);
               for (int i = 0; i < 1'000; ++i) {
                 CHECK_OK(graph.replay(stream));
                 CHECK_OK(stream.synchronize());
               }
             }),
        "");
  Event& event = new_event(context);
  Stream& other = new_stream(context);
  print("record and wait across two streams",
        best(kTasks,
             [&] {
               for (int i = 0; i < kTasks; ++i) {
                 CHECK_OK(event.record(i % 2 ? stream : other));
                 CHECK_OK(event.wait(i % 2 ? other : stream));
               }
               CHECK_OK(context.synchronize());
             }),
        "");
  return 0;
}
