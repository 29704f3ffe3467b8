#include <unistd.h>

#include <cstring>

#include "support.h"

using namespace test;

namespace {

uint64_t* new_cell(Context& context, uint64_t value = 0) {
  auto* cell = static_cast<uint64_t*>(new_memory(context.device(), 32));
  *cell = value;
  return cell;
}

}  // namespace

TEST(value_wait_for_a_write_of_another_stream, "") {
  Context& context = use_device();
  Stream& waiter = new_stream(context);
  Stream& writer = new_stream(context);
  uint64_t* cell = new_cell(context);
  Trace trace;
  CHECK_OK(value_wait(waiter, cell, 1, ValueTest::Equal));
  CHECK_OK(value_write(waiter, cell, 0));
  trace.mark(waiter, 'b');
  usleep(2'000);
  trace.mark(writer, 'a');
  CHECK_OK(value_write(writer, cell, 1));
  CHECK_OK(context.synchronize());
  CHECK_EQ(trace.text(), "ab");
  CHECK_EQ(*cell, 0u);
}

TEST(value_conditions, "") {
  Context& context = use_device();
  struct {
    ValueTest test;
    uint64_t value, holds, fails;
  } const rows[] = {{ValueTest::GreaterEqual, 5, 6, 4},
                    {ValueTest::Equal, 5, 5, 6},
                    {ValueTest::And, 6, 2, 1},
                    {ValueTest::Nor, 1, 0, ~0ull}};
  for (const auto& row : rows) {
    Stream& stream = new_stream(context);
    uint64_t* cell = new_cell(context, row.fails);
    CHECK_OK(value_wait(stream, cell, row.value, row.test));
    CHECK_CODE(stream.synchronize(5), SyncTimeout);
    Stream& writer = new_stream(context);
    CHECK_OK(value_write(writer, cell, row.holds));
    CHECK_OK(stream.synchronize());
  }
}

TEST(value_addresses_are_checked, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  uint64_t* cell = new_cell(context);
  uint64_t host = 0;
  CHECK_CODE(value_write(stream, reinterpret_cast<char*>(cell) + 4, 1), InvalidParam);
  CHECK_CODE(value_wait(stream, &host, 1, ValueTest::Equal), InvalidParam);
  CHECK_CODE(value_write(stream, cell + 4, 1), InvalidParam);
}

// Two records before one wait lose one: the next wait hangs, and the report says where.
TEST(value_lost_record_is_reported_as_a_hang, "SOFTNPU_HANG_SECONDS=0.2") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  Stream& updater = new_stream(context);
  uint64_t* cell = new_cell(context);
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  CHECK_OK(value_wait(stream, cell, 1, ValueTest::Equal));
  CHECK_OK(value_write(stream, cell, 0));
  Graph& graph = end_capture(stream);
  CHECK_OK(value_write(updater, cell, 1));
  CHECK_OK(value_write(updater, cell, 1));
  CHECK_OK(updater.synchronize());
  CHECK_OK(graph.replay(stream));
  CHECK_OK(stream.synchronize());
  CHECK_OK(graph.replay(stream));
  const Error error = stream.synchronize();
  CHECK_CODE(error, Hang);
  CHECK_HAS(error.message(), stream.describe());
  CHECK_HAS(error.message(), "to be == 1 (it is 0)");
  CHECK_HAS(error.message(), graph.describe());
}
