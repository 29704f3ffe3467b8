// softnpu_engine_tests --list: one "name<TAB>environment" a line. softnpu_engine_tests NAME: runs
// it.
#include <cstring>

#include "check.h"
#include "device.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const auto& test : check::cases()) std::printf("%s\t%s\n", test.name, test.environment);
    return 0;
  }
  for (const auto& test : check::cases()) {
    if (argc != 2 || std::strcmp(argv[1], test.name) != 0) continue;
    test.run();
    // What a test leaves behind must be freed with its device: the address sanitizer looks.
    for (uint32_t i = 0; i < softnpu::Device::count(); ++i) {
      CHECK_OK(softnpu::Device::get(static_cast<int>(i))->reset());
    }
    return 0;
  }
  std::fprintf(stderr, "usage: %s --list | NAME\n", argv[0]);
  return 2;
}
