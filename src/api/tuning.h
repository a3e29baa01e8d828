// SPDX-License-Identifier: BSD-3-Clause
//
// The tuning file of a rank (docs/TUNING.md): where it is, which of its rows hold for this job, and whether all ranks
// have the same.
//
// Invariant: rows() is the same on all ranks once they have agreed, if only because it is empty. What is wrong with a
// file is an error where TUTTI_TUNING names the file, and else a warning, since nobody asked for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "collectives/tuning.h"
#include "topology/topology.h"
#include "verbs/offer.h"

namespace tutti::api {

class Tuning {
 public:
  Tuning() = default;
  // `setting` is TUTTI_TUNING: a file, "off", or empty for the place where tutti-tune writes.
  static Result<Tuning> read(const std::string &setting, const Environment &environment);
  // Keeps what holds on this machine.
  Result<> match(const std::string &machine);

  // What a rank tells the others of its rows.
  struct Vote {
    std::uint64_t rows = 0;      // of their text; 0: it has none
    std::uint32_t asked = 0;     // TUTTI_TUNING is set there
    std::uint32_t reserved = 0;  // no padding: it travels
  };
  Vote vote() const;
  // From all ranks' votes: uses the rows, or none; an error where they differ and somebody set TUTTI_TUNING.
  Result<> agree(std::span<const Vote> votes);

  std::span<const collectives::TunedRow> rows() const { return rows_; }
  // What to warn of, if anything: a file that nobody asked for and that makes no sense, ranks that have different ones,
  // or a file that was asked for and holds nothing here. `first_here`: of this host, which has the file; what all ranks
  // know rank 0 says.
  std::string warning(int rank, bool first_here) const;

  // As JSON.
  std::string describe() const;
  // The sections of the file, as JSON, with what holds for some job of a machine like this.
  std::string describe_sections(const topology::Topology &topology) const;

 private:
  std::string state() const;

  std::string file_;   // empty: off, or there is no place for one
  std::string place_;  // where tutti-tune writes if nobody says otherwise; empty: no home
  bool asked_ = false, there_ = false, matched_ = false, differs_ = false;
  std::string machine_, fault_;
  std::vector<collectives::TuningSection> sections_;
  std::vector<collectives::TunedRow> rows_;
};

// What of a host decides how fast it is: "2 CPUs, 1 NUMA node, AMD EPYC 7B13".
std::string host_text(const topology::Topology &topology);
// What has to be equal for rows to hold: version, devices of all ranks, kinds of hosts (those of Group).
std::string machine_text(std::span<const std::string> hosts, std::span<const std::vector<verbs::PortOffer>> offers);

}  // namespace tutti::api
