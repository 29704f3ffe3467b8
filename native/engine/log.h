// Where the engine reports what it does. The runtime library sets a sink that writes CANN's log
// layout; without one, nothing is written.
#pragma once

#include <string>

namespace softnpu {

enum class LogLevel { Debug = 0, Info = 1, Warning = 2, Error = 3 };
using LogSink = void (*)(LogLevel level, const char* channel, const std::string& text);
void set_log_sink(LogSink sink, LogLevel lowest);
bool log_enabled(LogLevel level);
void log_line(LogLevel level, const char* channel, const std::string& text);

}  // namespace softnpu
