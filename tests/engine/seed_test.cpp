// Under a seed the order between streams is drawn: the same in every run, another with another
// seed, and always one that the events allow. Each case prints its order; test_engine.py compares
// runs.
#include "support.h"

using namespace test;

namespace {

// Three streams of five tasks; d waits for the third of a and b, in the middle of its own.
std::string ordered_run() {
  Context& context = use_device();
  std::vector<Stream*> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(&new_stream(context));
  std::string order;
  const auto mark = [&](size_t stream, char letter) {
    run_on(*streams[stream], [&order, letter] { order += letter; });
  };
  Event& first = new_event(context);
  Event& second = new_event(context);
  for (char step = 0; step < 5; ++step) {
    mark(0, static_cast<char>('a' + step));
    mark(1, static_cast<char>('f' + step));
    mark(2, static_cast<char>('k' + step));
    if (step == 2) {
      CHECK_OK(first.record(*streams[0]));
      CHECK_OK(second.record(*streams[1]));
      CHECK_OK(first.wait(*streams[3]));
      CHECK_OK(second.wait(*streams[3]));
    }
    mark(3, static_cast<char>('p' + step));
  }
  CHECK_OK(context.synchronize());
  CHECK_EQ(order.size(), 20u);
  for (const char begin : {'a', 'f', 'k', 'p'}) {
    for (char step = 1; step < 5; ++step) {
      CHECK(order.find(static_cast<char>(begin + step - 1)) <
            order.find(static_cast<char>(begin + step)));
    }
  }
  CHECK(order.find('c') < order.find('r'));
  CHECK(order.find('h') < order.find('r'));
  return order;
}

}  // namespace

TEST(seed_draws_an_order, "SOFTNPU_SEED=1") { std::puts(ordered_run().c_str()); }

TEST(seed_runs_nothing_before_the_host_waits, "SOFTNPU_SEED=1") {
  Stream& stream = new_stream(use_device());
  bool ran = false;
  run_on(stream, [&] { ran = true; });
  const int64_t until = Device::now_ns() + 20'000'000;
  while (Device::now_ns() < until) CHECK(!ran);
  CHECK_OK(stream.synchronize());
  CHECK(ran);
}

// A blocked stream is looked at again and again by the clock; that must not use up random numbers.
TEST(seed_order_does_not_depend_on_the_clock, "SOFTNPU_SEED=9") {
  Context& context = use_device();
  Stream& held = new_stream(context);
  Stream& also_held = new_stream(context);
  CHECK_OK(host_func(
      held,
      [](void*) {
        const int64_t until = Device::now_ns() + (Device::now_ns() % 7) * 3'000'000;
        while (Device::now_ns() < until) {
        }
      },
      nullptr));
  Event& event = new_event(context);
  CHECK_OK(event.record(held));
  CHECK_OK(event.wait(also_held));
  CHECK_OK(context.synchronize());
  std::puts(ordered_run().c_str());
}
