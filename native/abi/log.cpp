#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "acl_functions.h"
#include "plog.h"

namespace {

// At load: the engine may report before anybody calls aclInit.
__attribute__((constructor)) void attach_log() { softnpu::abi::Plog::instance().attach_engine(); }

}  // namespace

void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line,
               const char* fmt, ...) {
  const int level = static_cast<int>(logLevel);
  if (level < ACL_DEBUG || level > ACL_ERROR || fmt == nullptr ||
      !softnpu::abi::Plog::instance().enabled(static_cast<softnpu::LogLevel>(level))) {
    return;
  }
  char text[2048];
  va_list arguments;
  va_start(arguments, fmt);
  std::vsnprintf(text, sizeof(text), fmt, arguments);
  va_end(arguments);
  func = func == nullptr ? "?" : func;
  file = file == nullptr ? "?" : file;
  if (std::strchr(func, '.') != nullptr) {
    std::swap(func, file);  // torch_npu passes the file first
  }
  const char* base = file;
  if (const char* slash = std::strrchr(base, '/')) {
    base = slash + 1;
  }
  const std::string where = std::string(base) + ":" + std::to_string(line);
  softnpu::abi::Plog::instance().write(static_cast<softnpu::LogLevel>(level), "APP", where.c_str(),
                                       std::string(func) + ": " + text);
}
