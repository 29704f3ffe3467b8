// Scalar types and arithmetic of compiled kernels. Only C's headers: a kernel is compiled when it
// is first used, so what is included here is paid for by every user.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace sn {

struct half {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};

// Types that are stored narrow and computed in float.
template <class T>
inline constexpr bool kNarrow = false;
template <>
inline constexpr bool kNarrow<half> = true;
template <>
inline constexpr bool kNarrow<bf16> = true;
template <class T>
inline constexpr bool kFloat = kNarrow<T>;
template <>
inline constexpr bool kFloat<float> = true;
template <>
inline constexpr bool kFloat<double> = true;

template <class T>
struct Value {
  using type = T;
};
template <>
struct Value<half> {
  using type = float;
};
template <>
struct Value<bf16> {
  using type = float;
};
template <class T>
using value_t = typename Value<T>::type;

template <class To, class From>
inline To bits_to(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

// Conversions are written with integer operations, without branches, so that the compiler can
// vectorise them on any CPU and the result never depends on one.
inline float load(half h) {
  const uint32_t sign = static_cast<uint32_t>(h.bits & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(h.bits & 0x7fffu) << 13;
  const float scaled = bits_to<float>(magnitude) * 0x1p112f;
  const uint32_t finite = bits_to<uint32_t>(scaled);
  const uint32_t special = magnitude | 0x7f800000u;
  return bits_to<float>(sign | ((h.bits & 0x7c00u) == 0x7c00u ? special : finite));
}

inline float load(bf16 b) { return bits_to<float>(static_cast<uint32_t>(b.bits) << 16); }

template <class T>
inline T load(T value) {
  return value;
}

// Round to nearest, ties to even. NaN stays NaN, overflow becomes infinity.
inline half to_half(float x) {
  const uint32_t bits = bits_to<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  // Below 2^-14 the spacing is 2^-24, which is that of floats at 0.5.
  const float shifted = bits_to<float>(magnitude) + 0.5f;
  const uint32_t tiny = bits_to<uint32_t>(shifted) - 0x3f000000u;
  uint32_t result = magnitude < 0x38800000u ? tiny : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;
  result = magnitude > 0x7f800000u ? 0x7e00u : result;
  return half{static_cast<uint16_t>(result | sign)};
}

inline bf16 to_bf16(float x) {
  const uint32_t bits = bits_to<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return bf16{static_cast<uint16_t>(nan ? (bits >> 16) | 0x40u : rounded)};
}

template <class T, class V>
inline T store(V value) {
  if constexpr (__is_same(T, half)) {
    return to_half(static_cast<float>(value));
  } else if constexpr (__is_same(T, bf16)) {
    return to_bf16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

// A float rounded to what the narrow type can hold: applied after every operation of a scalar
// expression, so that intermediate results have the precision of their type.
inline float as_half(float x) { return load(to_half(x)); }
inline float as_bf16(float x) { return load(to_bf16(x)); }

// NaN if either operand is.
template <class T>
inline T max(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
inline T min(T a, T b) {
  return a < b || a != a ? a : b;
}

inline float abs(float x) { return bits_to<float>(bits_to<uint32_t>(x) & 0x7fffffffu); }
inline double abs(double x) { return fabs(x); }
template <class T>
inline T abs(T x) {
  return static_cast<T>(x < 0 ? -x : x);
}

inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline float log(float x) { return logf(x); }
inline float sin(float x) { return sinf(x); }
inline float cos(float x) { return cosf(x); }
inline float tanh(float x) { return tanhf(x); }
inline float erf(float x) { return erff(x); }
inline float log2(float x) { return log2f(x); }
inline float exp2(float x) { return exp2f(x); }
inline float floor(float x) { return __builtin_floorf(x); }
inline float ceil(float x) { return __builtin_ceilf(x); }
inline float trunc(float x) { return __builtin_truncf(x); }
inline float rint(float x) { return __builtin_rintf(x); }
inline double sqrt(double x) { return ::sqrt(x); }
inline double log(double x) { return ::log(x); }
inline double floor(double x) { return ::floor(x); }
inline double ceil(double x) { return ::ceil(x); }
inline double trunc(double x) { return ::trunc(x); }
inline double rint(double x) { return ::rint(x); }
inline double exp(double x) { return ::exp(x); }
inline double sin(double x) { return ::sin(x); }
inline double cos(double x) { return ::cos(x); }
inline double tanh(double x) { return ::tanh(x); }
inline double erf(double x) { return ::erf(x); }
inline double log2(double x) { return ::log2(x); }
inline double exp2(double x) { return ::exp2(x); }

// e^x within 1 ulp or so: argument reduction by ln 2 in two parts, a polynomial, and a scaling in
// two steps so that results below 2^-126 round only once. Written to be vectorised.
inline float exp(float x) {
  float t = x > 89.0f ? 89.0f : x;
  t = t < -104.0f ? -104.0f : t;
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float n = (t * 1.44269504f + magic) - magic;
  float r = t - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * r) * r + r + 1.0f;
  const float whole = n == n ? n : 0.0f;
  const int32_t k = static_cast<int32_t>(whole);
  const int32_t first = k >> 1;
  const float scale1 = bits_to<float>((first + 127) << 23);
  const float scale2 = bits_to<float>((k - first + 127) << 23);
  return x == x ? p * scale1 * scale2 : x;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

template <class T>
inline T pow(T x, T y) {
  if constexpr (kFloat<T>) {
    return sizeof(T) == 8 ? static_cast<T>(::pow(x, y)) : static_cast<T>(powf(x, y));
  } else {
    T result = 1;
    for (T i = 0; i < y; ++i) result = static_cast<T>(result * x);
    return result;
  }
}

// Shifts by the width or more are 0 (or the sign), instead of undefined.
template <class T>
inline T shl(T x, T by) {
  const uint64_t count = static_cast<uint64_t>(by);
  return count >= sizeof(T) * 8 ? T(0) : static_cast<T>(static_cast<uint64_t>(x) << count);
}
template <class T>
inline T shr(T x, T by) {
  const uint64_t count = static_cast<uint64_t>(by);
  return static_cast<T>(x >> (count >= sizeof(T) * 8 ? sizeof(T) * 8 - 1 : count) >>
                        (count >= sizeof(T) * 8 ? 1 : 0));
}

// Float to integer saturates and maps NaN to 0, as the vector unit does; C leaves it undefined.
template <class T, class F>
inline T to_int(F x) {
  constexpr bool is_signed = T(-1) < T(0);
  constexpr F high =
      static_cast<F>(is_signed ? 1ull << (sizeof(T) * 8 - 1) : (1ull << (sizeof(T) * 8 - 1))) *
      (is_signed ? F(1) : F(2));
  constexpr F low = is_signed ? -high : F(0);
  constexpr T top = is_signed ? static_cast<T>((1ull << (sizeof(T) * 8 - 1)) - 1) : T(-1);
  constexpr T bottom = is_signed ? static_cast<T>(1ull << (sizeof(T) * 8 - 1)) : T(0);
  if constexpr (sizeof(T) < 4) {  // through int32, which vector conversions have
    const F bounded = x < low ? low : (x >= high ? high - 1 : x);
    return static_cast<T>(static_cast<int32_t>(x == x ? bounded : F(0)));
  }
  return x >= high ? top : x < low ? bottom : x == x ? static_cast<T>(x) : T(0);
}

// Integer to a narrower integer saturates, as the vector unit's casts do.
template <class To, class From>
inline To saturate(From x) {
  if constexpr (sizeof(To) >= sizeof(From)) {
    return static_cast<To>(x);
  } else {
    constexpr bool is_signed = To(-1) < To(0), from_signed = From(-1) < From(0);
    constexpr int bits = sizeof(To) * 8 - (is_signed ? 1 : 0);
    constexpr From high = static_cast<From>((uint64_t(1) << bits) - 1);
    constexpr From low = !from_signed ? From(0)
                         : is_signed  ? static_cast<From>(-high - 1)
                                      : From(0);
    return static_cast<To>(x > high ? high : x < low ? low : x);
  }
}

template <class T, class V>
inline T convert(V value) {
  if constexpr (!kFloat<T> && kFloat<V> && !__is_same(T, bool)) {
    return to_int<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

enum class Round { none, rint, floor, ceil, round, trunc, odd };

template <Round mode, class F>
inline F rounded(F x) {
  if constexpr (mode == Round::floor) return sn::floor(x);
  if constexpr (mode == Round::ceil) return sn::ceil(x);
  if constexpr (mode == Round::trunc) return sn::trunc(x);
  if constexpr (mode == Round::round) {  // ties away from zero
    const F whole = sn::trunc(x);
    const F rest = sn::abs(x - whole);
    return rest >= F(0.5) ? whole + (x < 0 ? F(-1) : F(1)) : whole;
  }
  return sn::rint(x);
}

// A float made narrow with a rounding other than to nearest: the neighbour on the wanted side.
template <Round mode, class To>
inline To narrow_towards(float x) {
  if constexpr (!kNarrow<To>) {
    return store<To>(x);
  } else {
    To near = store<To>(x);
    const float got = load(near);
    if (got == x || got != got) return near;
    const uint16_t truncated =
        static_cast<uint16_t>(sn::abs(got) > sn::abs(x) ? near.bits - 1 : near.bits);
    const bool away = mode == Round::floor ? x < 0 : mode == Round::ceil ? x > 0 : false;
    if constexpr (mode == Round::odd) return To{static_cast<uint16_t>(truncated | 1)};
    if constexpr (mode == Round::round) {  // ties away from zero
      const float below = load(To{truncated});
      const float above = load(To{static_cast<uint16_t>(truncated + 1)});
      const bool up = sn::abs(x) - sn::abs(below) >= sn::abs(above) - sn::abs(x);
      return To{static_cast<uint16_t>(up ? truncated + 1 : truncated)};
    }
    return To{static_cast<uint16_t>(away ? truncated + 1 : truncated)};
  }
}

}  // namespace sn
