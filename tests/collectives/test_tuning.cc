// SPDX-License-Identifier: BSD-3-Clause
//
// The text of tuning files, and what their rows do to the selection.
#include "collectives/tuning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "collectives/hosts.h"
#include "collectives/select.h"
#include "support/mutate.h"

namespace tutti::collectives {
namespace {

TunedRow row_of(std::string_view text) {
  const Result<std::vector<TunedRow>> rows = parse_rows({"m", {{1, std::string(text)}}}, "file");
  EXPECT_TRUE(rows) << rows.error().text;
  return rows ? rows->at(0) : TunedRow{};
}

std::string fault_of_row(std::string_view text) {
  const Result<std::vector<TunedRow>> rows = parse_rows({"m", {{7, std::string(text)}}}, "file");
  return rows ? "accepted" : rows.error().text;
}

std::string fault_of(std::string_view text) {
  const auto sections = parse_tuning(text, "file");
  return sections ? "accepted" : sections.error().text;
}

const std::string kFile =
    "# a remark\n"
    "tutti-tuning 1\n"
    "\n"
    "machine Tutti 0.1.0; software device; 2 CPUs, 1 NUMA node, AMD EPYC   # mine\n"
    "allreduce ranks=4 ranks/core=2 hosts=1 bytes=0-16K circulant:radix=4 # 1 us instead of 2\n"
    "  barrier ranks=4 ranks/core=2 hosts=1 bytes=0-any dissemination\n"
    "machine another\n"
    "telepathy by means that this version has not\n";

TEST(TuningFile, HasSectionsOfRows) {
  const auto sections = parse_tuning(kFile, "file");
  ASSERT_TRUE(sections) << sections.error().text;
  ASSERT_EQ(sections->size(), 2u);
  EXPECT_EQ((*sections)[0].machine, "Tutti 0.1.0; software device; 2 CPUs, 1 NUMA node, AMD EPYC");
  const auto rows = parse_rows((*sections)[0], "file");
  ASSERT_TRUE(rows) << rows.error().text;
  ASSERT_EQ(rows->size(), 2u);
  const TunedRow &row = rows->front();
  EXPECT_EQ(row.collective, Collective::allreduce);
  EXPECT_EQ(std::tie(row.ranks, row.ranks_per_core, row.hosts), std::make_tuple(4, 2, 1));
  EXPECT_EQ(row.max_bytes, 16384u);
  EXPECT_EQ(row.algorithm->name, "circulant");
  EXPECT_EQ(row.radix, 4);
  EXPECT_EQ((*rows)[1].max_bytes, TunedRow::kAnyBytes);
  EXPECT_EQ((*rows)[1].radix, find_algorithm(Collective::barrier, "dissemination")->radices.front());
  EXPECT_EQ(parse_rows((*sections)[1], "file").error().text.substr(0, 23), "file:8: 'telepathy' is ")
      << "only if needed";
}

TEST(TuningFile, IsWrittenAsItIsRead) {
  const auto sections = parse_tuning(kFile, "file");
  ASSERT_TRUE(sections);
  const std::string text = tuning_text(*sections);
  const auto again = parse_tuning(text, "file");
  ASSERT_TRUE(again) << again.error().text;
  EXPECT_EQ(tuning_text(*again), text);
  EXPECT_NE(text.find("# 1 us instead of 2"), std::string::npos) << "remarks of rows stay";
  EXPECT_EQ(*parse_rows((*again)[0], ""), *parse_rows((*sections)[0], ""));
}

TEST(TuningFile, EveryRowOfEveryAlgorithmSurvivesItsText) {
  for (const Algorithm &algorithm : algorithms())
    for (const std::int32_t radix : algorithm.radices) {
      const TunedRow row{.collective = algorithm.collective,
                         .ranks = 8,
                         .ranks_per_core = 3,
                         .hosts = 2,
                         .min_bytes = 17,
                         .max_bytes = radix % 2 == 0 ? 1000 : TunedRow::kAnyBytes,
                         .algorithm = &algorithm,
                         .radix = radix};
      EXPECT_EQ(row_of(row_text(row)), row) << row_text(row);
    }
}

TEST(TuningFile, ErrorsNameTheLineAndWhatIsWrongWithIt) {
  EXPECT_EQ(fault_of(""), "file:1: the file is empty; a tuning file begins with 'tutti-tuning 1'");
  EXPECT_EQ(fault_of("# only this\n\n"), "file:1: the file is empty; a tuning file begins with 'tutti-tuning 1'");
  EXPECT_EQ(fault_of("\ntutti-tuning 2\n"),
            "file:2: a tuning file begins with 'tutti-tuning 1', not with 'tutti-tuning 2'");
  EXPECT_EQ(fault_of("tutti-tuning 1\nbarrier\n"), "file:2: a row before the first machine");
  EXPECT_EQ(fault_of("tutti-tuning 1\nmachine a\nmachine b\nmachine  a\n"),
            "file:4: the file has this machine already");
  EXPECT_EQ(fault_of("tutti-tuning 1\nmachine a\001b\n"),
            "file:2: the line has characters in it that are not printable ASCII");
  EXPECT_EQ(fault_of("tutti-tuning 1"), "accepted");
  const std::string before = "allreduce ranks=4 ranks/core=1 hosts=1 ";
  EXPECT_EQ(fault_of_row("allreduce").substr(0, 30), "file:7: '' is not ranks=NUMBER");
  EXPECT_EQ(fault_of_row("allreduce ranks=0"), "file:7: 'ranks=0' is not ranks=NUMBER, from 1 up");
  EXPECT_EQ(fault_of_row("allreduce ranks=4 hosts=1"), "file:7: 'hosts=1' is not ranks/core=NUMBER, from 1 up");
  EXPECT_EQ(fault_of_row(before + "bytes=9-8 ring"), "file:7: 'bytes=9-8' is not bytes=SMALLEST-LARGEST");
  EXPECT_EQ(fault_of_row(before + "bytes=any-8 ring"), "file:7: 'bytes=any-8' is not bytes=SMALLEST-LARGEST");
  EXPECT_EQ(fault_of_row(before + "bytes=0-8"), "file:7: the algorithm is missing");
  EXPECT_EQ(fault_of_row(before + "bytes=0-8 rings").substr(0, 46), "file:7: allreduce has no algorithm 'rings'; it");
  EXPECT_EQ(fault_of_row(before + "bytes=0-8 table"),
            "file:7: 'table' is no algorithm with a radix or without parameters");
  EXPECT_EQ(fault_of_row(before + "bytes=0-8 circulant:skips=1-2"),
            "file:7: 'circulant:skips=1-2' is no algorithm with a radix or without parameters");
  EXPECT_EQ(fault_of_row(before + "bytes=0-8 ring 3 us"), "file:7: '3 us' after the algorithm means nothing");
}

TEST(TuningFile, OnlyNamesWhatRunsAmongItsRanksAndIsProved) {
  EXPECT_EQ(fault_of_row("allreduce ranks=65 ranks/core=1 hosts=1 bytes=0-8 direct"),
            "file:7: allreduce direct cannot run for 65 ranks");
  const std::string fault = fault_of_row("allreduce ranks=4 ranks/core=1 hosts=1 bytes=0-8 circulant:radix=77");
  EXPECT_EQ(fault.substr(0, 73), "file:7: radix=77 of circulant is none of those that are proved: 2, 3, 4, ") << fault;
}

// What is almost a file is read as it stands, or refused.
TEST(TuningFile, ThatIsAlmostRightIsReadAsItStandsOrRefused) {
  const auto *bytes = reinterpret_cast<const std::byte *>(kFile.data());
  const std::vector<std::byte> valid(bytes, bytes + kFile.size());
  test::Random random(11);
  int read = 0, refused = 0;
  for (int round = 0; round < 50'000; ++round) {
    const std::vector<std::byte> changed = test::mutated(valid, random);
    const std::string text(reinterpret_cast<const char *>(changed.data()), changed.size());
    const auto sections = parse_tuning(text, "file");
    bool whole = static_cast<bool>(sections);
    if (!sections) {
      EXPECT_TRUE(sections.error().text.starts_with("file:")) << sections.error().text;
    }
    for (std::size_t i = 0; whole && i < sections->size(); ++i) {
      const auto rows = parse_rows((*sections)[i], "file");
      if (!rows) {
        EXPECT_TRUE(rows.error().text.starts_with("file:")) << rows.error().text;
        whole = (*sections)[i].machine == "another";  // which has a row that nobody can read
        continue;
      }
      for (const TunedRow &row : *rows) EXPECT_EQ(row_of(row_text(row)), row) << text;
    }
    ++(whole ? read : refused);
  }
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(TunedRows, ComeBeforeTheTableWhereTheyHold) {
  const std::vector<TunedRow> tuned = {
      row_of("allreduce ranks=4 ranks/core=2 hosts=1 bytes=100-150 ring"),
      row_of("allreduce ranks=4 ranks/core=2 hosts=1 bytes=130-200 recursive_multiplying:radix=4")};
  const Situation held{.ranks = 4, .ranks_per_core = 2, .bytes = 100, .tuned = tuned};
  EXPECT_EQ(select(held, {})->algorithm->name, "ring");
  const auto with = [&](auto change) {
    Situation other = held;
    change(other);
    return std::string(select(other, {})->algorithm->name);
  };
  EXPECT_EQ(with([](Situation &s) { s.bytes = 150; }), "ring") << "the first that holds";
  EXPECT_EQ(with([](Situation &s) { s.bytes = 200; }), "recursive_multiplying");
  Situation bare = held;
  bare.tuned = {};
  const std::string table(select(bare, {})->algorithm->name);
  EXPECT_EQ(table, "direct");
  EXPECT_EQ(with([](Situation &s) { s.bytes = 99; }), table);
  EXPECT_EQ(with([](Situation &s) { s.bytes = 201; }), table);
  EXPECT_EQ(with([](Situation &s) { s.ranks = 3; }), table);
  EXPECT_EQ(with([](Situation &s) { s.ranks_per_core = 3; }), table);
  const std::vector<std::int32_t> two = {0, 0, 1, 1};
  EXPECT_NE(with([&](Situation &s) {
              s.hosts = two;
              s.host_count = 2;
            }),
            "ring");
  const std::vector<std::int32_t> one = {0, 0, 0, 0};
  EXPECT_EQ(with([&](Situation &s) {
              s.hosts = one;
              s.host_count = 1;
            }),
            "ring");
}

TEST(TunedRows, GiveWayToWhoeverNamesAnAlgorithmAndToTheOrderOfRanks) {
  const std::vector<TunedRow> tuned = {row_of("allreduce ranks=4 ranks/core=1 hosts=1 bytes=0-any ring")};
  Situation situation{.ranks = 4, .bytes = 100, .tuned = tuned};
  EXPECT_EQ(select(situation, *parse_overrides("allreduce:circulant"))->algorithm->name, "circulant");
  EXPECT_EQ(select(situation, *parse_overrides("allreduce:table"))->algorithm->name, "ring")
      << "the library's choice, which is tuned";
  situation.ordered = true;
  EXPECT_TRUE(select(situation, {})->algorithm->keeps_rank_order);
  situation.ordered = false;
  situation.reproducible = true;
  EXPECT_NE(select(situation, {})->algorithm->name, "ring") << "the same bits on all machines";
}

TEST(TunedRows, AreShownBeforeTheTable) {
  const std::vector<TunedRow> tuned = {row_of("alltoall ranks=4 ranks/core=1 hosts=3 bytes=0-any throttled:window=4")};
  const std::string text = selection_text(tuned);
  EXPECT_LT(text.find("throttled"), text.find("allreduce"));
  EXPECT_EQ(selection_text().find("throttled"), std::string::npos);
}

}  // namespace
}  // namespace tutti::collectives
