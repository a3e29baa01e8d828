// SPDX-License-Identifier: BSD-3-Clause
//
// The tuning file as tutti-tune keeps it: what other machines, ranks and collectives have in it stays. Invariant: the
// file is at all times the old one or the new one as a whole.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/tuning.h"

namespace tutti::tune {

using Sections = std::vector<collectives::TuningSection>;

// What new rows replace: those of these collectives among as many ranks, per core and on hosts.
struct Measured {
  std::string machine;
  std::int32_t ranks = 1, ranks_per_core = 1, hosts = 1;
  std::vector<collectives::Collective> which;
};
struct NewRow {
  collectives::TunedRow row;
  std::string remark;
};

// Empty where there is no file yet. An error also where it makes no sense for `machine`, or could not be written.
Result<Sections> load(const std::string &path, const std::string &machine);
// Rows of the machine that cannot be read were refused by load().
void merge(Sections &sections, const Measured &measured, std::span<const NewRow> rows);
Result<> save(const std::string &path, const Sections &sections);

}  // namespace tutti::tune
