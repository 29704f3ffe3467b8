#include "block_pool.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "settings.h"

namespace softnpu {
namespace {

// Waking another thread costs some tens of microseconds on a small machine.
constexpr int64_t kWorthSharing = 150'000;

class BlockPool {
 public:
  explicit BlockPool(uint32_t threads) {
    for (uint32_t i = 0; i < threads; ++i) std::thread([this] { work(); }).detach();
  }

  void share(uint32_t blocks, const std::function<void(uint32_t)>& run) {
    std::lock_guard one_at_a_time(share_mutex_);
    {
      std::lock_guard lock(mutex_);
      run_ = &run;
      blocks_ = blocks;
      next_.store(0);
      ++round_;
    }
    start_.notify_all();
    take_blocks(run, blocks);
    std::unique_lock lock(mutex_);
    run_ = nullptr;  // a thread that wakes late finds nothing to do
    idle_.wait(lock, [this] { return working_ == 0; });
  }

 private:
  void take_blocks(const std::function<void(uint32_t)>& run, uint32_t blocks) {
    for (uint32_t block; (block = next_.fetch_add(1)) < blocks;) run(block);
  }

  void work() {
    uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      start_.wait(lock, [&] { return round_ != seen; });
      seen = round_;
      if (!run_) continue;
      const auto* run = run_;
      const uint32_t blocks = blocks_;
      ++working_;
      lock.unlock();
      take_blocks(*run, blocks);
      lock.lock();
      if (--working_ == 0) idle_.notify_all();
    }
  }

  std::mutex share_mutex_;
  std::mutex mutex_;  // guards the below but next_
  std::condition_variable start_;
  std::condition_variable idle_;
  const std::function<void(uint32_t)>* run_ = nullptr;
  uint32_t blocks_ = 0;
  uint64_t round_ = 0;
  int working_ = 0;
  std::atomic<uint32_t> next_{0};
};

}  // namespace

void run_blocks(uint32_t blocks, int64_t last_ns, const std::function<void(uint32_t)>& run) {
  const uint32_t threads = settings().threads;
  if (blocks > 1 && threads > 1 && last_ns >= kWorthSharing) {
    // Never destroyed: its threads wait in it when the process ends.
    static auto* pool = new BlockPool(threads - 1);
    pool->share(blocks, run);
    return;
  }
  for (uint32_t block = 0; block < blocks; ++block) run(block);
}

}  // namespace softnpu
