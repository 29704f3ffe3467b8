#include "kernel.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <vector>

#include "block_pool.h"
#include "context.h"
#include "device.h"
#include "kernel/launch_abi.h"

namespace softnpu {
namespace {

constexpr uint32_t kMaxBlocks = 65535;

std::mutex g_mutex;  // guards both maps
std::map<void*, std::shared_ptr<KernelBinary>>& live_binaries() {
  static auto* binaries = new std::map<void*, std::shared_ptr<KernelBinary>>;
  return *binaries;
}
std::set<void*>& live_functions() {
  static auto* functions = new std::set<void*>;
  return *functions;
}

const char* fault_name(int32_t kind) {
  switch (kind) {
    case SN_FAULT_GM_RANGE:
      return "global memory access out of range";
    case SN_FAULT_UB_RANGE:
      return "on-chip buffer access out of range";
    case SN_FAULT_FLAG:
      return "unmatched flag";
    case SN_FAULT_ARITHMETIC:
      return "arithmetic fault";
    default:
      return "fault";
  }
}

// One run of a kernel: what SnLaunch::engine points to.
struct Launch {
  const KernelFunction& function;
  const DeviceMemory& memory;
  std::mutex mutex;
  std::string fault;  // the first one; guarded by mutex
};

SnGmRange gm_range(const SnLaunch* launch, const void* address) {
  const Allocation found = static_cast<Launch*>(launch->engine)->memory.find(address);
  return {found.begin, found.begin + found.size};
}

void report_fault(const SnLaunch* launch, int32_t kind, uint32_t block, const char* core,
                  uint64_t address, const char* where, const char* what) {
  auto& state = *static_cast<Launch*>(launch->engine);
  std::lock_guard lock(state.mutex);
  if (!state.fault.empty()) return;
  char text[64];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  state.fault = "kernel " + state.function.name + ", block " + std::to_string(block) + ", core " +
                core + ": " + fault_name(kind) + " at address " + text + ": " + what;
  if (where && *where) state.fault += std::string(" (") + where + ")";
}

class KernelTask : public Task {
 public:
  KernelTask(KernelFunction& function, uint32_t blocks, const void* args, size_t size)
      : function_(function),
        keep_(function.binary.shared_from_this()),
        blocks_(blocks),
        args_(static_cast<const char*>(args), static_cast<const char*>(args) + size) {}

  Step run(RunContext& context) override {
    Launch state{function_, context.device.memory(), {}, {}};
    const Soc& soc = settings().soc;
    const SnLaunch launch{SN_LAUNCH_ABI, blocks_,      args_.data(),  args_.size(),
                          soc.ub_bytes,  soc.l1_bytes, soc.l0a_bytes, soc.l0b_bytes,
                          soc.l0c_bytes, gm_range,     report_fault,  &state};
    const auto entry = reinterpret_cast<SnKernelFn>(function_.entry);
    std::atomic<int32_t> failed{0};
    const auto run_block = [&](uint32_t block) {
      if (failed.load(std::memory_order_relaxed)) return;
      if (const int32_t code = entry(&launch, block)) failed.store(code);
    };
    const int64_t begin = Device::now_ns();
    // Under a seed blocks run in order, so that atomics add up in the same order every time.
    run_blocks(blocks_, context.seed ? 0 : function_.last_ns.load(), run_block);
    function_.last_ns.store(Device::now_ns() - begin);
    if (!failed.load() && state.fault.empty()) return Step::Done;
    const std::string reason = state.fault.empty() ? "kernel " + function_.name + " returned " +
                                                         std::to_string(failed.load())
                                                   : state.fault;
    context.error = {Code::KernelException, reason + "."};
    return Step::Failed;
  }
  TaskKind kind() const override { return TaskKind::Kernel; }
  std::string name() const override { return function_.name; }
  std::string detail() const override {
    return std::to_string(blocks_) + " blocks, " + std::to_string(args_.size()) +
           " bytes of arguments";
  }

 private:
  KernelFunction& function_;
  const std::shared_ptr<KernelBinary> keep_;
  const uint32_t blocks_;
  const std::vector<char> args_;
};

}  // namespace

KernelBinary::~KernelBinary() {
  dlclose(library_);
  close(file_);
}

Error KernelBinary::load(const void* data, size_t bytes, KernelBinary** out) {
  if (!data || !bytes) return {Code::InvalidParam, "A kernel binary needs data and a size."};
  // The file stays open while the library is loaded: the loader recognises libraries by path.
  const int file = memfd_create("softnpu-kernel", MFD_CLOEXEC);
  const auto* from = static_cast<const char*>(data);
  size_t written = 0;
  while (file >= 0 && written < bytes) {
    const ssize_t step = write(file, from + written, bytes - written);
    if (step <= 0) break;
    written += static_cast<size_t>(step);
  }
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  void* library = written == bytes ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!library) {
    const char* why = written == bytes ? dlerror() : "it could not be stored";
    Error error{Code::KernelBinary,
                std::string("The kernel binary of ") + std::to_string(bytes) +
                    " bytes can't be loaded: " + (why ? why : "unknown reason") +
                    ". It must be a shared object that softnpu's compiler made for "
                    "this machine."};
    if (file >= 0) close(file);
    return error;
  }
  auto binary = std::make_shared<KernelBinary>(library, file);
  *out = binary.get();
  std::lock_guard lock(g_mutex);
  live_binaries()[binary.get()] = binary;
  return Error::ok();
}

KernelBinary* KernelBinary::from_handle(void* handle) {
  std::lock_guard lock(g_mutex);
  const auto it = live_binaries().find(handle);
  return it == live_binaries().end() ? nullptr : it->second.get();
}

Error KernelBinary::unload() {
  const std::shared_ptr<KernelBinary> keep = shared_from_this();
  std::scoped_lock lock(g_mutex, mutex_);
  live_binaries().erase(this);
  for (const auto& [name, function] : functions_) live_functions().erase(function.get());
  return Error::ok();
}

Error KernelBinary::function(const std::string& name, KernelFunction** out) {
  std::scoped_lock lock(g_mutex, mutex_);
  auto& slot = functions_[name];
  if (!slot) {
    void* entry = dlsym(library_, ("softnpu_kernel_" + name).c_str());
    if (!entry) {
      functions_.erase(name);
      return {Code::KernelBinary, "The kernel binary has no kernel named " + name + "."};
    }
    slot = std::make_unique<KernelFunction>(name, entry, *this);
    live_functions().insert(slot.get());
  }
  *out = slot.get();
  return Error::ok();
}

KernelFunction* kernel_function_from_handle(void* handle) {
  std::lock_guard lock(g_mutex);
  return live_functions().count(handle) ? static_cast<KernelFunction*>(handle) : nullptr;
}

Error launch_kernel(Stream& stream, KernelFunction& function, uint32_t blocks, const void* args,
                    size_t size) {
  if (blocks < 1 || blocks > kMaxBlocks) {
    return {Code::InvalidParam, "kernel " + function.name + ": " + std::to_string(blocks) +
                                    " blocks; there must be 1 to " + std::to_string(kMaxBlocks) +
                                    "."};
  }
  if (size && !args)
    return {Code::InvalidParam, "kernel " + function.name + ": arguments are missing."};
  return stream.submit(std::make_unique<KernelTask>(function, blocks, args, size));
}

}  // namespace softnpu
