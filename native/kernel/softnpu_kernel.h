// Everything a compiled kernel uses. See launch_abi.h for what it exports.
#pragma once

#include "reduce.h"
#include "transfer.h"
#include "vector.h"
