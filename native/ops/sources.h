// From C arguments to the dispatcher's values.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "spec.h"

namespace softnpu::ops {

// The parameter in the representation of its kind: Tensor, Tensor[], Scalar, int[], int, …; None
// where an optional one is absent. Throws BadParam.
c10::IValue param_value(const Param& spec, const Arg& arg);

// One argument of the ATen call, for every `As` that does not depend on device memory.
c10::IValue source_value(const Source& source, const OpSpec& spec,
                         const std::vector<c10::IValue>& values);

// The seed of a CPU generator for the numbers that belong to (seed, offset).
uint64_t mixed_seed(uint64_t seed, uint64_t offset);

at::Generator new_generator();
// Reseeds the generator from (seed, offset, …): the first parameter is the seed, the others add up
// to the offset, so that the same pair gives the same numbers whether it was passed by value or, in
// a captured graph, through device memory.
void seed_generator(const c10::IValue& generator, const Source& source,
                    const std::vector<c10::IValue>& values);

}  // namespace softnpu::ops
