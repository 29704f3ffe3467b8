// Random choices under a seed. They are a function of where a run stands, not of how often somebody
// looked: a blocked task is looked at again by the clock, and that must not change the order.
#pragma once

#include <cstdint>

namespace softnpu {

// One of 2^64 numbers for choice `which` at place `at` of the sequence `seed` (splitmix64's
// finaliser).
inline uint64_t draw(uint64_t seed, uint64_t at, uint64_t which) {
  uint64_t x = seed * 0x9e3779b97f4a7c15 + at * 0xd1b54a32d192ed03 + which * 0x8cb92ba72f3d8dd7;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace softnpu
