#include "plog.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

namespace softnpu::abi {
namespace {

constexpr size_t kFileBytes = 20u << 20;
constexpr size_t kBufferBytes = 64u << 10;
constexpr int kDefaultFiles = 10;
constexpr const char* kLevelNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};

long env_number(const char* name, long fallback, long lowest, long highest) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') {
    return fallback;
  }
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return *end == '\0' && value >= lowest && value <= highest ? value : fallback;
}

std::string root_folder() {
  const char* path = std::getenv("ASCEND_PROCESS_LOG_PATH");
  if (path != nullptr && *path != '\0') {
    return path;
  }
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "/tmp" : home) + "/ascend/log";
}

struct Clock {
  tm parts;
  int milliseconds;
  int microseconds;
};

Clock local_clock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  // localtime_r takes a lock and reads rules; once a second is enough.
  thread_local time_t cached_second = -1;
  thread_local tm cached{};
  if (now.tv_sec != cached_second) {
    localtime_r(&now.tv_sec, &cached);
    cached_second = now.tv_sec;
  }
  return {cached, static_cast<int>(now.tv_nsec / 1000000),
          static_cast<int>(now.tv_nsec / 1000 % 1000)};
}

long thread_id() {
  thread_local const long id = syscall(SYS_gettid);
  return id;
}

std::string format_line(const char* level, const char* module, const char* where,
                        const std::string& text) {
  const Clock clock = local_clock();
  const tm& t = clock.parts;
  char head[256];
  const int length = std::snprintf(
      head, sizeof(head), "[%s] %s(%d,%s):%04d-%02d-%02d-%02d:%02d:%02d.%03d.%03d [%s]%ld ", level,
      module, getpid(), program_invocation_short_name, t.tm_year + 1900, t.tm_mon + 1, t.tm_mday,
      t.tm_hour, t.tm_min, t.tm_sec, clock.milliseconds, clock.microseconds, where, thread_id());
  std::string line;
  line.reserve(static_cast<size_t>(length) + text.size() + 1);
  line.append(head, std::min(static_cast<size_t>(length), sizeof(head) - 1));
  line.append(text).push_back('\n');
  return line;
}

}  // namespace

bool PlogFolder::open_file() {
  const std::string folder = root_folder() + "/" + kind_ + "/plog";
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const Clock clock = local_clock();
  const tm& t = clock.parts;
  char name[96];
  std::snprintf(name, sizeof(name), "/plog-%d_%04d%02d%02d%02d%02d%02d%03d.log", getpid(),
                t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec,
                clock.milliseconds);
  fd_ = open((folder + name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  written_ = 0;
  if (fd_ < 0) {
    unwritable_ = true;
    std::fprintf(stderr,
                 "softnpu: cannot write the log in %s (%s); going on without it. "
                 "ASCEND_PROCESS_LOG_PATH names another folder.\n",
                 folder.c_str(), std::strerror(errno));
    return false;
  }
  prune(folder);
  return true;
}

// The oldest files go, by the time in their names and then the process; others' files too, as the
// limit is the folder's.
void PlogFolder::prune(const std::string& folder) const {
  const long keep = env_number("ASCEND_HOST_LOG_FILE_NUM", kDefaultFiles, 1, 1000);
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().rfind("plog-", 0) == 0) {
      files.emplace_back(entry.last_write_time(error), entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  for (size_t i = 0; i + static_cast<size_t>(keep) < files.size(); ++i) {
    std::filesystem::remove(files[i].second, error);
  }
}

void PlogFolder::append(const std::string& line, bool flush_now) {
  if (unwritable_) {
    return;
  }
  buffer_ += line;
  if (flush_now || buffer_.size() >= kBufferBytes) {
    flush();
  }
}

void PlogFolder::flush() {
  if (buffer_.empty() || unwritable_) {
    return;
  }
  if (fd_ >= 0 && written_ >= kFileBytes) {
    close(fd_);
    fd_ = -1;
  }
  if (fd_ < 0 && !open_file()) {
    buffer_.clear();
    return;
  }
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t count = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (count < 0 && errno != EINTR) {
      break;  // a full disk costs the log, not the program
    }
    done += static_cast<size_t>(std::max<ssize_t>(count, 0));
  }
  written_ += buffer_.size();
  buffer_.clear();
}

void PlogFolder::forget() {
  buffer_.clear();
  if (fd_ >= 0) {
    close(fd_);
    fd_ = -1;
  }
}

Plog& Plog::instance() {
  // Never destroyed: exit handlers and other threads may still log.
  static Plog* const plog = new Plog();
  return *plog;
}

Plog::Plog() {
  level_ = static_cast<int>(env_number("ASCEND_GLOBAL_LOG_LEVEL", 3, 0, 4));
  to_stdout_ = env_number("ASCEND_SLOG_PRINT_TO_STDOUT", 0, 0, 1) == 1;
  const char* path = std::getenv("ASCEND_PROCESS_LOG_PATH");
  run_log_ = level_ <= 1 || (level_ < 4 && path != nullptr && *path != '\0');
  if (const char* channels = std::getenv("SOFTNPU_LOG")) {
    channels_ = std::string(",") + channels + ",";
  }
  pthread_atfork(&Plog::before_fork, &Plog::after_fork_in_parent, &Plog::after_fork_in_child);
}

void Plog::before_fork() { instance().mutex_.lock(); }
void Plog::after_fork_in_parent() { instance().mutex_.unlock(); }
void Plog::after_fork_in_child() {
  Plog& plog = instance();
  plog.debug_.forget();
  plog.run_.forget();
  plog.flusher_running_ = false;
  plog.mutex_.unlock();
}

// Lines of a burst are written together; a thread that lives only while there are any bounds how
// long they stay in memory.
void Plog::start_flusher() {
  if (flusher_running_) {
    return;
  }
  flusher_running_ = true;
  std::thread([this] {
    pthread_setname_np(pthread_self(), "softnpu-log");
    for (;;) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      std::lock_guard<std::mutex> lock(mutex_);
      if (!debug_.dirty()) {
        flusher_running_ = false;
        return;
      }
      debug_.flush();
    }
  }).detach();
}

void Plog::write(LogLevel level, const char* module, const char* where, const std::string& text) {
  if (!enabled(level)) {
    return;
  }
  const std::string line = format_line(kLevelNames[static_cast<int>(level)], module, where, text);
  if (to_stdout_) {
    std::fputs(line.c_str(), stdout);
    return;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  debug_.append(line, level >= LogLevel::Error);
  if (debug_.dirty()) {
    start_flusher();
  }
}

void Plog::run(const std::string& text) {
  if (!run_log_) {
    return;
  }
  const std::string line = format_line("INFO", "RUNTIME", "run", text);
  if (to_stdout_) {
    std::fputs(line.c_str(), stdout);
    return;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  run_.append(line, true);
}

void Plog::flush() {
  std::lock_guard<std::mutex> lock(mutex_);
  debug_.flush();
  run_.flush();
}

bool Plog::channel_on_stderr(const char* channel) const {
  return !channels_.empty() &&
         channels_.find("," + std::string(channel) + ",") != std::string::npos;
}

void Plog::engine_sink(LogLevel level, const char* channel, const std::string& text) {
  Plog& plog = instance();
  plog.write(level, "RUNTIME", channel, text);
  if (plog.channel_on_stderr(channel)) {
    std::fprintf(stderr, "softnpu %s: %s\n", channel, text.c_str());
  }
}

void Plog::attach_engine() {
  if (level_ > 3 && channels_.empty()) {
    return;
  }
  set_log_sink(&Plog::engine_sink,
               channels_.empty() ? static_cast<LogLevel>(level_) : LogLevel::Debug);
}

}  // namespace softnpu::abi
