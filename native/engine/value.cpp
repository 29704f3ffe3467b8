// Writing and waiting for a 64-bit value in device memory: how streams and graphs signal each
// other.
#include <atomic>
#include <cstdio>

#include "context.h"
#include "device.h"
#include "memory.h"
#include "operations.h"

namespace softnpu {
namespace {

std::string hex(const void* address) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", address);
  return text;
}

std::atomic_ref<uint64_t> cell(void* address) {
  return std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(address));
}

class ValueWriteTask : public Task {
 public:
  ValueWriteTask(void* address, uint64_t value) : address_(address), value_(value) {}
  Step run(RunContext&) override {
    cell(address_).store(value_);
    return Step::Done;
  }
  TaskKind kind() const override { return TaskKind::ValueWrite; }
  std::string name() const override {
    return "MEM_WRITE_VALUE_" + std::to_string(reinterpret_cast<uintptr_t>(address_));
  }
  std::string detail() const override { return std::to_string(value_) + " to " + hex(address_); }
  Error check_memory(const DeviceMemory& memory) const override {
    return memory.check(address_, sizeof(uint64_t), "aclrtValueWrite");
  }

 private:
  void* const address_;
  const uint64_t value_;
};

class ValueWaitTask : public Task {
 public:
  ValueWaitTask(void* address, uint64_t value, ValueTest test)
      : address_(address), value_(value), test_(test) {}
  Step run(RunContext&) override {
    return holds(cell(address_).load()) ? Step::Done : Step::Blocked;
  }
  TaskKind kind() const override { return TaskKind::ValueWait; }
  std::string name() const override {
    return "MEM_WAIT_VALUE_" + std::to_string(reinterpret_cast<uintptr_t>(address_));
  }
  std::string detail() const override { return condition() + " at " + hex(address_); }
  std::string waits_for() const override {
    return "the value at " + hex(address_) + " to be " + condition() + " (it is " +
           std::to_string(cell(address_).load()) + ")";
  }
  Error check_memory(const DeviceMemory& memory) const override {
    return memory.check(address_, sizeof(uint64_t), "aclrtValueWait");
  }

 private:
  bool holds(uint64_t now) const {
    switch (test_) {
      case ValueTest::GreaterEqual:
        return static_cast<int64_t>(now - value_) >= 0;
      case ValueTest::Equal:
        return now == value_;
      case ValueTest::And:
        return (now & value_) != 0;
      case ValueTest::Nor:
        return ~(now | value_) != 0;
    }
    return false;
  }
  std::string condition() const {
    static const char* const names[] = {">= ", "== ", "& ", "~| "};
    return names[static_cast<uint32_t>(test_)] + std::to_string(value_);
  }
  void* const address_;
  const uint64_t value_;
  const ValueTest test_;
};

Error check_cell(Stream& stream, void* address, const char* call) {
  if (reinterpret_cast<uintptr_t>(address) % sizeof(uint64_t)) {
    return {Code::InvalidParam,
            std::string(call) + ": " + hex(address) + " is not aligned to 8 bytes."};
  }
  Error error = stream.device().memory().check(address, sizeof(uint64_t), call);
  return error.failed() ? Error{Code::InvalidParam, error.message()} : error;
}

}  // namespace

Error value_write(Stream& stream, void* address, uint64_t value) {
  if (Error error = check_cell(stream, address, "aclrtValueWrite"); error.failed()) return error;
  return stream.submit(std::make_unique<ValueWriteTask>(address, value));
}

Error value_wait(Stream& stream, void* address, uint64_t value, ValueTest test) {
  if (Error error = check_cell(stream, address, "aclrtValueWait"); error.failed()) return error;
  return stream.submit(std::make_unique<ValueWaitTask>(address, value, test));
}

}  // namespace softnpu
