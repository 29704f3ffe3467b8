// What the user can set, read from the environment once. The same table is printed by
// `softnpu doctor`; names and defaults are documented there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "error.h"

namespace softnpu {

struct Soc {
  const char* name;
  uint32_t aic_cores;
  uint32_t aiv_cores;
  uint64_t ub_bytes;
  uint64_t l1_bytes;
  uint64_t l0a_bytes;
  uint64_t l0b_bytes;
  uint64_t l0c_bytes;
  uint64_t l2_bytes;
  uint64_t hbm_bytes;
  uint32_t npu_arch;
};

struct Settings {
  Soc soc;
  uint32_t devices = 2;
  std::optional<uint64_t> seed;    // set: deterministic scheduling, device runs only under the host
  uint32_t threads = 2;            // intra-op threads of device work
  uint64_t hbm_bytes = 0;          // per device
  uint32_t stream_limit = 1984;    // per device
  uint32_t stream_error = 207008;  // what the interface says at the limit; 207005 is the other
  std::string cann_version = "8.5.0";
  std::string driver_version = "25.5.0";
  double hang_seconds = 5;  // a device without progress for so long, and a host that waits
};

// Reads the environment; an unknown SoC or a malformed value is an error that names it.
Error load_settings(Settings* out);
// The process's settings. A malformed environment ends the process with the message: nothing could
// be trusted after it.
const Settings& settings();

}  // namespace softnpu
