// SPDX-License-Identifier: BSD-3-Clause
//
// The mean of integers without overflow. Up to 32 bits travel as 64, which hold the sum of as many as there can be
// ranks. x of 64 bits travels as x / p and x % p for p ranks: sums of neither overflow, and p * sum of quotients + sum
// of remainders is the sum of the elements, in 128 bits. Results are rounded towards zero, as C divides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "reduce/kernels.h"

namespace tutti::reduce::integer_mean {

std::size_t travelling_bytes(Type type);
Function combine(Type type);
void enter(Type type, void *travelling, const void *own, std::size_t count, std::int32_t ranks);
void leave(Type type, void *own, const void *travelling, std::size_t count, std::int32_t ranks);

}  // namespace tutti::reduce::integer_mean
