#include "kernel.h"

#include <fstream>
#include <iterator>

#include "support.h"

using namespace test;

namespace {

struct Args {
  int32_t* out;
  int32_t per_block;
};

KernelBinary& load() {
  std::ifstream file(SOFTNPU_TEST_KERNELS, std::ios::binary);
  const std::vector<char> data{std::istreambuf_iterator<char>(file), {}};
  KernelBinary* binary = nullptr;
  CHECK_OK(KernelBinary::load(data.data(), data.size(), &binary));
  return *binary;
}

KernelFunction& function(KernelBinary& binary, const char* name) {
  KernelFunction* out = nullptr;
  CHECK_OK(binary.function(name, &out));
  return *out;
}

int32_t* new_output(Context& context, size_t count) {
  auto* out = static_cast<int32_t*>(new_memory(context.device(), count * sizeof(int32_t)));
  std::fill_n(out, count, 0);
  return out;
}

}  // namespace

TEST(kernel_runs_all_blocks, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  KernelFunction& number = function(load(), "number");
  Args args{new_output(context, 400), 100};
  CHECK_OK(launch_kernel(stream, number, 4, &args, sizeof args));
  args.per_block = -1;  // the arguments were copied at the call
  CHECK_OK(stream.synchronize());
  for (int i = 0; i < 400; ++i) CHECK_EQ(args.out[i], i / 100);
}

TEST(kernel_blocks_are_shared_between_threads, "SOFTNPU_THREADS=3") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  KernelFunction& slow = function(load(), "slow");
  const Args args{new_output(context, 1), 0};
  for (int i = 0; i < 3; ++i) CHECK_OK(launch_kernel(stream, slow, 16, &args, sizeof args));
  CHECK_OK(stream.synchronize());
  CHECK_EQ(*args.out, 48);
}

TEST(kernel_out_of_range_names_kernel_block_and_address, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  KernelFunction& number = function(load(), "number");
  const Args args{new_output(context, 350), 100};
  CHECK_OK(launch_kernel(stream, number, 4, &args, sizeof args));
  const Error error = stream.synchronize();
  CHECK_CODE(error, KernelException);
  char address[32];
  std::snprintf(address, sizeof address, "0x%zx", reinterpret_cast<size_t>(args.out + 400));
  for (const char* part : {"kernel number", "block 3", "AIV0", static_cast<const char*>(address),
                           "number.py:3:1", "store of int32"}) {
    CHECK_HAS(error.message(), part);
  }
}

TEST(kernel_with_a_freed_argument_faults, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  KernelFunction& number = function(load(), "number");
  const Args args{new_output(context, 100), 100};
  CHECK_OK(Graph::begin(stream, CaptureMode::Global));
  CHECK_OK(launch_kernel(stream, number, 1, &args, sizeof args));
  Graph& graph = end_capture(stream);
  CHECK_OK(context.device().memory().release(args.out));
  CHECK_OK(graph.replay(stream));
  const Error error = stream.synchronize();
  CHECK_CODE(error, KernelException);
  CHECK_HAS(error.message(), "kernel number");
  CHECK_HAS(error.message(), graph.describe());
}

TEST(kernel_fault_counts_even_if_the_kernel_returns_success, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  CHECK_OK(launch_kernel(stream, function(load(), "forgetful"), 1, nullptr, 0));
  const Error error = stream.synchronize();
  CHECK_CODE(error, KernelException);
  CHECK_HAS(error.message(), "on-chip buffer");
}

TEST(kernel_error_code_without_fault, "") {
  Stream& stream = new_stream(use_device());
  CHECK_OK(launch_kernel(stream, function(load(), "code"), 4, nullptr, 0));
  const Error error = stream.synchronize();
  CHECK_CODE(error, KernelException);
  CHECK_HAS(error.message(), "42");
}

TEST(kernel_launch_arguments_are_checked, "") {
  Stream& stream = new_stream(use_device());
  KernelFunction& number = function(load(), "number");
  CHECK_CODE(launch_kernel(stream, number, 0, nullptr, 0), InvalidParam);
  CHECK_CODE(launch_kernel(stream, number, 65536, nullptr, 0), InvalidParam);
  CHECK_CODE(launch_kernel(stream, number, 1, nullptr, 8), InvalidParam);
}

TEST(kernel_unloaded_while_queued_still_runs, "") {
  Context& context = use_device();
  Stream& stream = new_stream(context);
  KernelBinary& binary = load();
  KernelFunction& number = function(binary, "number");
  CHECK(kernel_function_from_handle(&number) == &number);
  CHECK(KernelBinary::from_handle(&binary) == &binary);
  const Args args{new_output(context, 200), 100};
  Gate gate;
  gate.hold(stream);
  CHECK_OK(launch_kernel(stream, number, 2, &args, sizeof args));
  CHECK_OK(binary.unload());
  CHECK(kernel_function_from_handle(&number) == nullptr);
  CHECK(KernelBinary::from_handle(&binary) == nullptr);
  gate.open();
  CHECK_OK(stream.synchronize());
  CHECK_EQ(args.out[199], 1);
}

TEST(kernel_binaries_are_checked, "") {
  KernelBinary* binary = nullptr;
  const Error error = KernelBinary::load("nonsense", 8, &binary);
  CHECK_CODE(error, KernelBinary);
  CHECK_HAS(error.message(), "shared object");
  CHECK_CODE(KernelBinary::load(nullptr, 8, &binary), InvalidParam);
  KernelFunction* out = nullptr;
  const Error missing = load().function("no_such_kernel", &out);
  CHECK_CODE(missing, KernelBinary);
  CHECK_HAS(missing.message(), "no_such_kernel");
}

TEST(kernel_loaded_twice, "") {
  KernelBinary& first = load();
  KernelBinary& second = load();
  CHECK(&first != &second);
  KernelFunction& one = function(first, "number");
  CHECK(&one == &function(first, "number"));
  CHECK_OK(first.unload());
  Context& context = use_device();
  Stream& stream = new_stream(context);
  const Args args{new_output(context, 10), 10};
  CHECK_OK(launch_kernel(stream, function(second, "number"), 1, &args, sizeof args));
  CHECK_OK(stream.synchronize());
}
