#include "settings.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "soc_table.h"

namespace softnpu {
namespace {

Error bad_value(const char* name, const char* value, const char* wanted) {
  return {Code::InvalidParam,
          std::string(name) + "=" + value + " is not valid: it must be " + wanted + "."};
}

Error read_unsigned(const char* name, uint64_t lowest, uint64_t highest, uint64_t* out) {
  const char* text = std::getenv(name);
  if (!text || !*text) return Error::ok();
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (errno || *end || text[0] == '-' || value < lowest || value > highest) {
    const std::string wanted =
        "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest);
    return bad_value(name, text, wanted.c_str());
  }
  *out = value;
  return Error::ok();
}

template <typename T>
Error read_into(const char* name, uint64_t lowest, uint64_t highest, T* out) {
  uint64_t value = *out;
  Error error = read_unsigned(name, lowest, highest, &value);
  *out = static_cast<T>(value);
  return error;
}

Error read_soc(Soc* out) {
  const char* name = std::getenv("SOFTNPU_SOC");
  if (!name || !*name) name = "Ascend910B3";
  std::string known;
  for (const auto& row : kSocs) {
    if (std::strcmp(row.name, name) == 0) {
      *out = row;
      return Error::ok();
    }
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  const std::string wanted = "one of " + known;
  return bad_value("SOFTNPU_SOC", name, wanted.c_str());
}

Error read_stream_error(uint32_t* out) {
  if (Error error = read_into("SOFTNPU_STREAM_ERROR", 0, 999999, out); error.failed()) return error;
  if (*out == 207005 || *out == 207008) return Error::ok();
  return bad_value("SOFTNPU_STREAM_ERROR", std::getenv("SOFTNPU_STREAM_ERROR"), "207005 or 207008");
}

Error read_seed(std::optional<uint64_t>* out) {
  const char* text = std::getenv("SOFTNPU_SEED");
  if (!text || !*text) return Error::ok();
  uint64_t value = 0;
  Error error = read_unsigned("SOFTNPU_SEED", 0, UINT64_MAX, &value);
  if (!error.failed()) *out = value;
  return error;
}

Error read_seconds(const char* name, double* out) {
  const char* text = std::getenv(name);
  if (!text || !*text) return Error::ok();
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (*end || !(value > 0) || value > 86400) {
    return bad_value(name, text, "a number of seconds above 0 and up to 86400");
  }
  *out = value;
  return Error::ok();
}

void read_text(const char* name, std::string* out) {
  const char* text = std::getenv(name);
  if (text && *text) *out = text;
}

}  // namespace

Error load_settings(Settings* out) {
  if (Error error = read_soc(&out->soc); error.failed()) return error;
  out->hbm_bytes = out->soc.hbm_bytes;
  const Error errors[] = {
      read_into("SOFTNPU_DEVICES", 1, 64, &out->devices),
      read_into("SOFTNPU_THREADS", 1, 256, &out->threads),
      read_into("SOFTNPU_HBM_BYTES", 1 << 20, uint64_t{1} << 46, &out->hbm_bytes),
      read_into("SOFTNPU_STREAM_LIMIT", 1, 16384, &out->stream_limit),
      read_stream_error(&out->stream_error),
      read_seed(&out->seed),
      read_seconds("SOFTNPU_HANG_SECONDS", &out->hang_seconds),
  };
  for (const Error& error : errors) {
    if (error.failed()) return error;
  }
  read_text("SOFTNPU_CANN_VERSION", &out->cann_version);
  read_text("SOFTNPU_DRIVER_VERSION", &out->driver_version);
  return Error::ok();
}

const Settings& settings() {
  static const Settings* loaded = [] {
    auto* values = new Settings;
    if (Error error = load_settings(values); error.failed()) {
      std::fprintf(stderr, "softnpu: %s\n", error.message().c_str());
      std::_Exit(2);
    }
    return values;
  }();
  return *loaded;
}

}  // namespace softnpu
