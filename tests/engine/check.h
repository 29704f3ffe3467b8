// A test is a function with a name and the environment it wants; each runs in a process of its own,
// since the engine reads its settings once. test_engine.py lists and runs them.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "error.h"

namespace check {

struct Case {
  const char* name;
  const char* environment;  // "SOFTNPU_SEED=1 SOFTNPU_HANG_SECONDS=0.3"
  void (*run)();
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

struct Register {
  explicit Register(const Case& test) { cases().push_back(test); }
};

// Ends the process at once: other threads may be anywhere in the engine.
[[noreturn]] inline void fail(const char* file, int line, const std::string& text) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, text.c_str());
  std::fflush(stderr);
  std::_Exit(1);
}

template <typename A, typename B>
void equal(const A& got, const B& wanted, const char* file, int line, const char* expression) {
  if (got == wanted) return;
  std::ostringstream text;
  text << expression << " is " << got << ", not " << wanted;
  fail(file, line, text.str());
}

inline void code(const softnpu::Error& error, softnpu::Code wanted, const char* file, int line,
                 const char* expression) {
  if (error.code() == wanted) return;
  fail(file, line,
       std::string(expression) + " gave code " + std::to_string(static_cast<int>(error.code())) +
           " (" + error.message() + "), not " + std::to_string(static_cast<int>(wanted)));
}

inline void contains(const std::string& text, const std::string& part, const char* file, int line) {
  if (text.find(part) != std::string::npos) return;
  fail(file, line, "\"" + part + "\" is not in \"" + text + "\"");
}

}  // namespace check

#define TEST(name, environment)                                                \
  static void name();                                                          \
  static const check::Register registered_##name({#name, environment, &name}); \
  static void name()
#define CHECK(condition) \
  if (!(condition)) check::fail(__FILE__, __LINE__, #condition " does not hold")
#define CHECK_EQ(got, wanted) check::equal((got), (wanted), __FILE__, __LINE__, #got)
#define CHECK_CODE(expression, wanted) \
  check::code((expression), softnpu::Code::wanted, __FILE__, __LINE__, #expression)
#define CHECK_OK(expression) CHECK_CODE(expression, Ok)
#define CHECK_HAS(text, part) check::contains((text), (part), __FILE__, __LINE__)
