// SPDX-License-Identifier: BSD-3-Clause
//
// Configuration: one table of {variable, default, range, help}, read once from the environment, passed down by value.
// Invariant: nothing else in Tutti reads the environment; every TUTTI_ variable that is set is in the table or warned
// about.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace tutti {

// A snapshot of the process's environment (or what a test says it is).
using Environment = std::map<std::string, std::string>;
Environment process_environment();

struct Config {
  // Device
  std::string device;
  std::int64_t gid_index = 0;
  std::int64_t qp_timeout = 0;
  std::int64_t qp_retry = 0;
  std::int64_t qp_rnr_retry = 0;
  std::int64_t qp_min_rnr_timer = 0;
  std::int64_t traffic_class = 0;
  std::int64_t service_level = 0;
  std::int64_t hop_limit = 0;
  std::int64_t flow_label = 0;
  std::int64_t pkey = 0;
  std::string softdev;
  // Transport
  std::int64_t eager_bytes = 0;
  std::int64_t chunk_bytes = 0;
  std::int64_t credits = 0;
  std::int64_t early_bytes = 0;
  std::int64_t p2p_window_bytes = 0;
  std::int64_t boards = 0;
  // Collectives
  std::string algo;
  std::string tuning;
  std::int64_t widen_bytes = 0;
  std::int64_t reproducible = 0;
  std::string simd;
  // Placement and waiting
  std::string pin;
  std::int64_t spin_us = 0;
  std::int64_t warn_after_s = 0;
  std::int64_t timeout_s = 0;
  std::string progress;
  // Start-up, control, deaths
  std::int64_t init_timeout_s = 0;
  std::int64_t heartbeat_s = 0;
  std::int64_t peer_timeout_s = 0;
  std::int64_t reconnect_timeout_s = 0;
  std::string job_key;
  std::string job_key_file;
  std::string interface;
  // Messages
  std::int64_t stats = 0;
  // The drop-in for MPI programs, which reads them out of tutti_describe
  std::int64_t mpi_stats = 0;
  std::string mpi_off;
  std::string log;
};

// How a variable's text is understood: a free string, one of a list of words, or an integer within bounds (sizes accept
// the suffixes K, M, G, meaning powers of 1024).
struct Variable {
  const char *name;
  std::variant<std::string Config::*, std::int64_t Config::*> member;
  const char *default_text;
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::vector<std::string_view> words;  // empty: any text
  bool bytes = false;                   // accept K, M, G
  bool hex = false;                     // shown as 0x....
  bool secret = false;                  // shown as "(set)" only
  bool same_on_all_ranks = false;       // rank 0's value counts; another rank's different value is an error
  const char *help = "";
};

// The table, in the order in which it is documented.
std::span<const Variable> config_variables();

// Reads the table's variables out of an environment. Errors name variable, value, and what is accepted. Unknown TUTTI_
// variables are collected in `unknown`, each with the closest known name: the caller warns.
Result<Config> read_config(const Environment &environment, std::vector<std::string> *unknown);

// The effective value as text; secrets are masked.
std::string config_text(const Config &config, const Variable &variable);

// "name=value;..." over the variables that must be the same on all ranks; and a sentence naming the first difference of
// two such texts ("TUTTI_EAGER_BYTES is 4096 here and 8192 there"), empty if equal.
std::string config_fingerprint(const Config &config);
std::string config_difference(std::string_view here, std::string_view there);

// "4K" -> 4096. Accepts decimal digits and an optional K, M or G (also KiB, KB, k...), nothing else.
std::optional<std::int64_t> parse_bytes(std::string_view text);
// Decimal, or hexadecimal behind 0x.
std::optional<std::int64_t> parse_integer(std::string_view text);

}  // namespace tutti
