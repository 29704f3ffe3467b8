// This library holds compiled-in layouts of one torch version. Another one would crash later and
// elsewhere, so loading says so at once.
#include <torch/headeronly/version.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" uint64_t aoti_torch_abi_version();  // the version of the loaded libtorch

namespace {

[[maybe_unused]] const bool checked = [] {
  const uint64_t loaded = aoti_torch_abi_version();
  if (loaded == TORCH_ABI_VERSION) {
    return true;
  }
  std::fprintf(
      stderr,
      "softnpu: the operators' library was built for torch %s, but torch %d.%d.%d is loaded. "
      "Install torch %s (CPU build) next to softnpu, or rebuild softnpu.\n",
      TORCH_VERSION, static_cast<int>(loaded >> 56), static_cast<int>(loaded >> 48 & 0xff),
      static_cast<int>(loaded >> 40 & 0xff), TORCH_VERSION);
  std::exit(1);
}();

}  // namespace
