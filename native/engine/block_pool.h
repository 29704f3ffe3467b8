// Runs the blocks of a kernel on a few threads.
#pragma once

#include <cstdint>
#include <functional>

namespace softnpu {

// Calls run(0) … run(blocks - 1) and returns when all are done: in order on this thread, or, where
// the last run took `last_ns` long enough to be worth it, shared with the pool's threads.
void run_blocks(uint32_t blocks, int64_t last_ns, const std::function<void(uint32_t)>& run);

}  // namespace softnpu
