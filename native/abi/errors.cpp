#include "errors.h"

#include <pthread.h>

#include <cstdio>
#include <cstring>

#include "acl_functions.h"
#include "context.h"
#include "plog.h"
#include "python_line.h"
#include "settings.h"

namespace softnpu::abi {
namespace {

// Plain arrays: thread-local objects with destructors are gone when exit handlers still call us.
constexpr size_t kTextBytes = 4096;
thread_local char recent[kTextBytes];
thread_local aclError last = 0;

bool in_task_queue() {
  char thread[16] = "";
  pthread_getname_np(pthread_self(), thread, sizeof(thread));
  return std::strcmp(thread, "acl_thread") == 0;
}

// torch_npu's task queue (TASK_QUEUE_ENABLE=1) ends at the first failing call. It raises once, and
// from then on launches nothing and reports success. So such a failure also breaks the context:
// whoever waits for results that will never be computed is told so.
void break_context_of_task_queue(Code code, const std::string& text) {
  Context* context = Context::current();
  if (context != nullptr && in_task_queue()) {
    context->fail({code, text + " (torch_npu's task queue ended there and launches nothing more; "
                                "start the program again)"});
  }
}

void record(aclError number, const std::string& text, Code code = Code::OperatorFailed) {
  std::snprintf(recent, sizeof(recent), "%s", text.c_str());
  last = number;
  break_context_of_task_queue(code, text);
}

// Drivers do not agree on the number of this one, so it is a setting.
aclError outcome_number(Code code) {
  return code == Code::NoStreamResource ? static_cast<aclError>(settings().stream_error)
                                        : number_of(code);
}

// The words by which programs and people recognise an outcome.
std::string mark_of(Code code) {
  if (code == Code::OutOfMemory) {
    return "EL0004: Failed to allocate memory. ";
  }
  if (code == Code::NoStreamResource) {
    return settings().stream_error == kRtResourceAllocFail
               ? "Alloc sq cq fail, stream_id=" + std::to_string(settings().stream_limit) +
                     ", retCode=0x7020023. "
               : "EL0009: Insufficient_Stream_Resources. ";
  }
  return {};
}

// What the program did wrong is at the line that made the call, not where it shows.
bool is_about_capture(Code code) {
  const aclError number = number_of(code);
  return (number >= number_of(Code::CaptureDependency) &&
          number <= number_of(Code::BodyCapturing)) ||
         code == Code::CaptureInvalidated || code == Code::NoStreamResource;
}

aclError fail_as(Code code, aclError number, const char* function, const char* file, int line,
                 const std::string& text, const char* condition) {
  const char* base = std::strrchr(file, '/');
  std::string where = std::string(base == nullptr ? file : base + 1) + ":" + std::to_string(line);
  std::string message = std::string(function) + ": " + text;
  const std::string shown = std::to_string(number);
  // torch_npu shows the text of an error in its queue thread, but not the number.
  record(number, in_task_queue() ? message + " (error code " + shown + ")" : message, code);
  const std::string unmet = condition == nullptr ? "" : ", requires " + std::string(condition);
  Plog::instance().write(LogLevel::Error, "RUNTIME", where.c_str(),
                         message + " (" + shown + unmet + ")");
  return number;
}

}  // namespace

aclError fail(aclError number, const char* function, const char* file, int line,
              const std::string& text, const char* condition) {
  return fail_as(Code::OperatorFailed, number, function, file, line, text, condition);
}

aclError report(const Error& error, const char* function, const char* file, int line) {
  if (!error.failed()) {
    return kSuccess;
  }
  const std::string where = is_about_capture(error.code()) ? python_line() : std::string();
  return fail_as(error.code(), outcome_number(error.code()), function, file, line,
                 mark_of(error.code()) + error.message() + where, nullptr);
}

void refuse(const char* function, const char* advice, bool also_stderr) {
  std::string message = std::string(function) + " is not implemented by softnpu: " + advice;
  record(0, message);  // the caller's number is not always an ACL one
  Plog::instance().write(LogLevel::Error, "RUNTIME", "refused", message);
  if (also_stderr) {
    std::fprintf(stderr, "softnpu: %s\n", message.c_str());
  }
}

const char* recent_text() { return recent[0] == '\0' ? nullptr : recent; }
aclError last_number() { return last; }
void clear_last_number() { last = 0; }

}  // namespace softnpu::abi

// For the operators' library: a failed operator explains itself in the same place. The last error
// number is cleared, because the operator's own number is not one of the runtime.
extern "C" __attribute__((visibility("default"))) void softnpu_set_recent_error(const char* text);
void softnpu_set_recent_error(const char* text) {
  softnpu::abi::record(0, text == nullptr ? "" : text);
  softnpu::abi::Plog::instance().write(softnpu::LogLevel::Error, "OP", "op", text ? text : "");
}

// The same for an operator that the stream did not take, with the number that the runtime has for
// it.
extern "C" __attribute__((visibility("default"))) void softnpu_set_launch_error(
    const softnpu::Error& error);
void softnpu_set_launch_error(const softnpu::Error& error) {
  using namespace softnpu::abi;
  const std::string where = is_about_capture(error.code()) ? python_line() : std::string();
  const std::string text = error.message() + where + " (error code of the runtime: " +
                           std::to_string(outcome_number(error.code())) + ")";
  record(0, text, error.code());
  Plog::instance().write(softnpu::LogLevel::Error, "OP", "op", text);
}

// CANN's documentation has reading clear the text. It is kept here, because torch_npu reads it in
// one place and shows it in another; each failure replaces it.
const char* aclGetRecentErrMsg() { return softnpu::abi::recent_text(); }

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  SN_REQUIRE(level == ACL_RT_THREAD_LEVEL, softnpu::abi::kRtParamInvalid,
             "level " + std::to_string(level) + " is unknown, only 0 (thread) exists");
  const aclError number = softnpu::abi::last_number();
  softnpu::abi::clear_last_number();
  return number;
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  SN_REQUIRE(level == ACL_RT_THREAD_LEVEL, softnpu::abi::kRtParamInvalid,
             "level " + std::to_string(level) + " is unknown, only 0 (thread) exists");
  return softnpu::abi::last_number();
}
