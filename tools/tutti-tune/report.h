// SPDX-License-Identifier: BSD-3-Clause
//
// What rank 0 prints: a line for each size that was measured, and one for each range that changes.
#pragma once

#include <span>
#include <string>

#include "tutti-tune/circumstances.h"
#include "tutti-tune/options.h"
#include "tutti-tune/verdict.h"

namespace tutti::tune {

std::string header_text(const Circumstances &circumstances, const std::string &file);
std::string points_text(collectives::Collective collective, std::span<const Point> points,
                        std::span<const Change> changes);
// "0.91 us instead of 1.20 at 8, 5.10 instead of 6.30 at 2048".
std::string remark_text(std::span<const Point> points, const Change &change);

}  // namespace tutti::tune
