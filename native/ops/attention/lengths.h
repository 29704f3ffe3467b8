// How many rows belong to each sequence, from the lists of host integers that the operators take.
#pragma once

#include <cstdint>
#include <vector>

namespace softnpu::ops::attention {

// From a list of one length for all, of one each, or of more; an empty one means `limit`
// everywhere. Both throw c10::Error naming the parameter and the entry.
std::vector<int64_t> lengths_of_list(std::vector<int64_t> values, const char* name, int64_t batch,
                                     int64_t limit);
// From running sums.
std::vector<int64_t> lengths_of_sums(const std::vector<int64_t>& sums, const char* name);

}  // namespace softnpu::ops::attention
