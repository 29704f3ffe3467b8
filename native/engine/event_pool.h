// The pool that all events come from; for the engine's own files.
#pragma once

#include "event.h"
#include "handle_pool.h"

namespace softnpu {

HandlePool<Event>& event_pool();

}  // namespace softnpu
