#include "log.h"

#include <atomic>

namespace softnpu {
namespace {
std::atomic<LogSink> g_sink{nullptr};
std::atomic<int> g_lowest{static_cast<int>(LogLevel::Error) + 1};
}  // namespace

void set_log_sink(LogSink sink, LogLevel lowest) {
  g_sink.store(sink);
  g_lowest.store(sink ? static_cast<int>(lowest) : static_cast<int>(LogLevel::Error) + 1);
}

bool log_enabled(LogLevel level) {
  return static_cast<int>(level) >= g_lowest.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, const char* channel, const std::string& text) {
  if (!log_enabled(level)) return;
  if (LogSink sink = g_sink.load()) sink(level, channel, text);
}

}  // namespace softnpu
