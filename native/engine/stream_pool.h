// The pool that all streams come from; for the engine's own files.
#pragma once

#include "handle_pool.h"
#include "stream.h"

namespace softnpu {

HandlePool<Stream>& stream_pool();

}  // namespace softnpu
