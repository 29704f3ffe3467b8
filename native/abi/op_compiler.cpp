// Options of the operator compiler. There is none, so they are kept and given back.
#include <array>
#include <cstring>
#include <mutex>
#include <string>

#include "acl_functions.h"
#include "errors.h"

using namespace softnpu::abi;

namespace {

constexpr size_t kOptions = ACL_OP_DEBUG_OPTION + 1;
std::mutex mutex;  // guards values()

std::array<std::string, kOptions>& values() {
  static auto* const table = [] {
    auto* fresh = new std::array<std::string, kOptions>();
    // torch_npu asks for this one before it sets it, and takes an empty answer for a failure.
    (*fresh)[ACL_OP_JIT_COMPILE] = "disable";
    return fresh;
  }();
  return *table;
}

bool known(aclCompileOpt opt) { return opt >= 0 && static_cast<size_t>(opt) < kOptions; }

}  // namespace

aclError aclSetCompileopt(aclCompileOpt opt, const char* value) {
  SN_REQUIRE(known(opt), kInvalidParam, "option " + std::to_string(opt) + " is unknown");
  SN_REQUIRE(value != nullptr, kInvalidParam, "value is null");
  std::lock_guard<std::mutex> lock(mutex);
  values()[static_cast<size_t>(opt)] = value;
  return kSuccess;
}

// With the terminating zero; 0 for an option that does not exist or is not set.
size_t aclGetCompileoptSize(aclCompileOpt opt) {
  if (!known(opt)) {
    return 0;
  }
  std::lock_guard<std::mutex> lock(mutex);
  const std::string& value = values()[static_cast<size_t>(opt)];
  return value.empty() ? 0 : value.size() + 1;
}

aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length) {
  SN_REQUIRE(known(opt), kInvalidParam, "option " + std::to_string(opt) + " is unknown");
  SN_REQUIRE(value != nullptr, kInvalidParam, "value is null");
  std::lock_guard<std::mutex> lock(mutex);
  const std::string& text = values()[static_cast<size_t>(opt)];
  SN_REQUIRE(length > text.size(), kInvalidParam,
             "length " + std::to_string(length) + " is too short, aclGetCompileoptSize says " +
                 std::to_string(text.size() + 1));
  std::memcpy(value, text.c_str(), text.size() + 1);
  return kSuccess;
}
