// The log in CANN's layout: <root>/{debug,run}/plog/plog-<pid>_<time>.log. The root is
// ASCEND_PROCESS_LOG_PATH or ~/ascend/log; ASCEND_GLOBAL_LOG_LEVEL is the lowest level written
// (0 debug to 3 error, 4 nothing; default 3), ASCEND_HOST_LOG_FILE_NUM the number of files kept per
// folder, ASCEND_SLOG_PRINT_TO_STDOUT=1 prints instead. SOFTNPU_LOG=stream,graph,… prints the
// engine's channels of these names on stderr, whatever the level.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "log.h"

namespace softnpu::abi {

// One folder's current file. Not locked: the writer below is.
class PlogFolder {
 public:
  explicit PlogFolder(const char* kind) : kind_(kind) {}
  void append(const std::string& line, bool flush_now);
  void flush();
  // In a forked child: the file stays the parent's.
  void forget();
  bool dirty() const { return !buffer_.empty(); }

 private:
  bool open_file();
  void prune(const std::string& folder) const;

  const char* kind_;
  std::string buffer_;
  size_t written_ = 0;
  int fd_ = -1;
  bool unwritable_ = false;
};

class Plog {
 public:
  static Plog& instance();

  // `where` is "file:line" or a channel.
  void write(LogLevel level, const char* module, const char* where, const std::string& text);
  // A line of the run log: what this process is. Written when a log folder or at least the INFO
  // level was asked for, so that a quiet program leaves no files.
  void run(const std::string& text);
  void flush();
  bool enabled(LogLevel level) const { return static_cast<int>(level) >= level_; }
  // Makes the engine report here.
  void attach_engine();

 private:
  Plog();
  static void engine_sink(LogLevel level, const char* channel, const std::string& text);
  bool channel_on_stderr(const char* channel) const;
  void start_flusher();
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  int level_ = 3;
  bool run_log_ = false;
  bool to_stdout_ = false;
  std::string channels_;  // ",stream,graph,"
  std::mutex mutex_;      // guards all below
  PlogFolder debug_{"debug"};
  PlogFolder run_{"run"};
  bool flusher_running_ = false;
};

}  // namespace softnpu::abi
