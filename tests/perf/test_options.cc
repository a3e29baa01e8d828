// SPDX-License-Identifier: BSD-3-Clause
//
// tutti-perf's command line: what it understands, and that every mistake gets one line and status 2.
#include <gtest/gtest.h>

#include "tutti-perf/job.h"
#include "tutti-perf/options.h"

namespace tutti::perf {
namespace {

std::variant<Options, Goodbye> parse(std::vector<const char *> words) {
  words.insert(words.begin(), "tutti-perf");
  return parse_options(static_cast<int>(words.size()), words.data());
}

Options options(std::vector<const char *> words) {
  const std::variant<Options, Goodbye> parsed = parse(std::move(words));
  const Options *found = std::get_if<Options>(&parsed);
  EXPECT_NE(nullptr, found) << std::get<Goodbye>(parsed).text;
  return found != nullptr ? *found : Options{};
}

std::string complaint(std::vector<const char *> words) {
  const std::variant<Options, Goodbye> parsed = parse(std::move(words));
  const Goodbye *goodbye = std::get_if<Goodbye>(&parsed);
  if (goodbye == nullptr) return "accepted";
  EXPECT_EQ(kExitUsage, goodbye->status);
  EXPECT_EQ(std::string::npos, goodbye->text.find('\n')) << "one line";
  return goodbye->text;
}

using Sizes = std::vector<std::size_t>;

TEST(Options, DefaultsAreThoseOfTheHelp) {
  const Options all = options({"allreduce"});
  EXPECT_STREQ("allreduce", all.collective->name);
  EXPECT_STREQ("float", all.type->name);
  EXPECT_STREQ("sum", all.op->name);
  EXPECT_TRUE(all.check);
  EXPECT_FALSE(all.in_place);
  EXPECT_EQ(8u, all.sizes.front());
  EXPECT_EQ(16u << 20, all.sizes.back());
  EXPECT_EQ(22u, all.sizes.size());
}

TEST(Options, OnlyWhatHasAPlaceForItIsMeasuredInPlace) {
  EXPECT_TRUE(options({"alltoall", "--in-place"}).in_place);
  EXPECT_TRUE(options({"broadcast"}).in_place) << "has one buffer";
  EXPECT_NE(std::string::npos, complaint({"gather", "--in-place"}).find("--in-place: a gather has nothing in place"));
  EXPECT_EQ((Sizes{0}), options({"barrier", "-e", "1M"}).sizes) << "there is one size of nothing";
}

TEST(Options, ShortAndLongFormsMeanTheSame) {
  for (const Options &all :
       {options({"broadcast", "-b", "1K", "-e", "4K", "-f", "4", "-n", "9", "-w", "3", "-c", "0", "-d", "int64", "-o",
                 "max", "-r", "2"}),
        options({"broadcast", "--minbytes", "1K", "--maxbytes", "4K", "--stepfactor", "4", "--iters", "9",
                 "--warmup_iters", "3", "--check", "0", "--datatype", "int64", "--op", "max", "--root", "2"})}) {
    EXPECT_EQ((Sizes{1024, 4096}), all.sizes);
    EXPECT_EQ(9u, all.iterations);
    EXPECT_EQ(3u, all.warm_up);
    EXPECT_FALSE(all.check);
    EXPECT_STREQ("int64", all.type->name);
    EXPECT_STREQ("max", all.op->name);
    EXPECT_EQ(2, all.root);
  }
}

TEST(Options, BothComparisonsCanBeAskedFor) {
  const Options all = options({"allreduce", "--vs", "mpi", "--vs", "limit"});
  EXPECT_TRUE(all.versus_mpi && all.versus_limit);
  EXPECT_FALSE(options({"allreduce", "--vs", "limit"}).versus_mpi);
}

TEST(Options, SizesAreRoundedDownToWholeElementsAndItIsSaid) {
  const Options all = options({"allreduce", "-b", "9", "-e", "41", "-d", "double"});
  EXPECT_EQ((Sizes{8, 16, 32}), all.sizes);
  ASSERT_EQ(2u, all.notes.size());
  EXPECT_NE(std::string::npos, all.notes[0].find("9 bytes is not a multiple of double (8 bytes): rounded down to 8"));
}

TEST(Options, ZeroBytesAreAPointOfTheirOwn) {
  EXPECT_EQ((Sizes{0, 4, 8}), options({"allreduce", "-b", "0", "-e", "8"}).sizes);
  EXPECT_EQ((Sizes{0}), options({"allreduce", "-b", "0", "-e", "0"}).sizes);
}

TEST(Options, SizesCanBeListed) {
  EXPECT_EQ((Sizes{12, 1024, 4, 0, 12}), options({"allreduce", "--sizes", "12,1K,4,0,12"}).sizes) << "as they stand";
  EXPECT_EQ((Sizes{0}), options({"barrier", "--sizes", "8"}).sizes);
  EXPECT_NE(std::string::npos, complaint({"allreduce", "--sizes", "8,x"}).find("--sizes: 'x' is not a size"));
  EXPECT_NE(std::string::npos, complaint({"allreduce", "--sizes", "4,7"}).find("--sizes: 7 bytes are no whole number"));
}

TEST(Options, TheLargestSizesDoNotOverflow) {
  EXPECT_EQ((Sizes{std::size_t{4} << 30}), options({"allreduce", "-b", "4G", "-e", "5G"}).sizes);
  EXPECT_EQ(
      2u,
      options({"allreduce", "-b", "1", "-e", "8589934591G", "-f", "4611686018427387904", "-d", "int8"}).sizes.size());
}

TEST(Options, WhatDoesNotExistIsNamedWithWhatDoes) {
  EXPECT_EQ("tutti-perf: there is no collective 'reduction': it takes " + names_of(collectives()),
            complaint({"reduction"}));
  EXPECT_NE(std::string::npos, complaint({"allreduce", "-d", "half"}).find("int8, uint8"));
  EXPECT_NE(std::string::npos, complaint({"allreduce", "-o", "mean"}).find("sum, prod, min, max"));
  EXPECT_NE(std::string::npos, complaint({"allreduce", "-d", "bool"}).find("which takes land, lor, lxor, user"));
  EXPECT_NE(std::string::npos, complaint({"allreduce", "--vs", "nccl"}).find("mpi or limit"));
}

TEST(Options, ACollectiveThatReducesNothingTakesAnyType) {
  for (const ElementType &type : element_types()) EXPECT_EQ(&type, options({"broadcast", "-d", type.name}).type);
}

TEST(Options, MistakesAreRefused) {
  EXPECT_NE(std::string::npos, complaint({"allreduce", "-b", "1M", "-e", "1K"}).find("-b 1M is more than -e 1K"));
  EXPECT_NE(std::string::npos, complaint({"allreduce", "-b", "1T"}).find("not a size"));
  EXPECT_NE(std::string::npos, complaint({"allreduce", "-e", "-5"}).find("not a size"));
  EXPECT_NE(std::string::npos, complaint({"allreduce", "-f", "1"}).find("2 or more"));
  EXPECT_NE(std::string::npos, complaint({"allreduce", "-c", "2"}).find("0 or 1"));
  EXPECT_NE(std::string::npos, complaint({"allreduce", "-n", "-1"}).find("from 0 up"));
  EXPECT_NE(std::string::npos, complaint({"allreduce", "-b", "1", "-e", "2"}).find("less than one float"));
  EXPECT_NE(std::string::npos, complaint({}).find("required"));
  EXPECT_NE(std::string::npos, complaint({"allreduce", "--nothing"}).find("--nothing"));
}

TEST(Launch, MpiIsUsedIfALauncherOfMpiStartedUs) {
  EXPECT_TRUE(launch_of({{"OMPI_COMM_WORLD_RANK", "3"}, {"RANK", "9"}, {"WORLD_SIZE", "10"}}).mpi);
  EXPECT_EQ(3, launch_of({{"OMPI_COMM_WORLD_RANK", "3"}, {"RANK", "9"}}).rank);
  EXPECT_TRUE(launch_of({{"PMI_RANK", "1"}}).mpi);
  EXPECT_FALSE(launch_of({{"RANK", "2"}, {"WORLD_SIZE", "4"}}).mpi);
  EXPECT_EQ(2, launch_of({{"RANK", "2"}, {"WORLD_SIZE", "4"}}).rank);
  EXPECT_FALSE(launch_of({}).mpi);
}

}  // namespace
}  // namespace tutti::perf
