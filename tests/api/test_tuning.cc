// SPDX-License-Identifier: BSD-3-Clause
//
// Tuning files as ranks find them: which rows they use, that all of them use the same, and what they say otherwise.
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/query.h"
#include "support/thread_ranks.h"

namespace tutti::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class TuningFiles : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("TUTTI_TUNING");  // which is off where tests run
    std::string folder = testing::TempDir() + "tuningXXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    ThreadRanks ranks(2, {.everywhere = {{"TUTTI_TUNING", "off"}}});
    ASSERT_TRUE(ranks.up()) << ranks.errors();
    const Json tuning = query(ranks[1].comm, "tuning");
    machine_ = tuning["machine"];
    per_core_ = tuning["ranks_per_core"];
    EXPECT_EQ(tuning["state"], "off");
    EXPECT_EQ(tuning["hosts"], Json({0, 0}));
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string &name, const std::string &text) const {
    const fs::path file = folder_ / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file;
  }
  // An algorithm that no table has for a barrier of two ranks.
  std::string rows(const std::string &machine, const std::string &algorithm = "dissemination:radix=2") const {
    return "tutti-tuning 1\nmachine " + machine + "\nbarrier ranks=2 ranks/core=" + std::to_string(per_core_) +
           " hosts=1 bytes=0-any " + algorithm + "\n";
  }

  struct Said {
    std::string errors, text;
    std::vector<Json> tuning, choice;
  };
  // What two ranks find, choose for a barrier, and say.
  Said start(const std::function<Variables(int)> &variables) const {
    Said said;
    testing::internal::CaptureStderr();
    {
      ThreadRanks ranks(2, {.variables = variables});
      if (!ranks.up()) said.errors = ranks.errors();
      for (int rank = 0; ranks.up() && rank < 2; ++rank) {
        said.tuning.push_back(query(ranks[rank].comm, "tuning"));
        said.choice.push_back(query(ranks[rank].comm, "choice barrier 1"));
      }
      if (ranks.up())
        ranks.each([](int, tutti_comm *comm) { EXPECT_EQ(tutti_barrier(comm), TUTTI_SUCCESS) << last_error().text; });
    }
    said.text = testing::internal::GetCapturedStderr();
    return said;
  }
  Said start(const Variables &everywhere) const {
    return start([&](int) { return everywhere; });
  }

  fs::path folder_;
  std::string machine_;
  int per_core_ = 1;
};

constexpr const char *kTuned = "dissemination:radix=2", *kShipped = "board";

TEST_F(TuningFiles, AreUsedOnTheMachineThatTheyName) {
  const Said said = start({{"TUTTI_TUNING", write("mine", rows("another") + rows(machine_).substr(15))}});
  EXPECT_EQ(said.text + said.errors, "");
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(said.choice.at(rank), kTuned);
    EXPECT_EQ(said.tuning.at(rank)["rows"], 1);
    EXPECT_EQ(said.tuning.at(rank)["state"], "one row holds here");
  }
}

TEST_F(TuningFiles, LieWhereTuttiTuneWritesThem) {
  write("config/tutti/tuning", rows(machine_));
  const std::string config = folder_ / "config";
  EXPECT_EQ(start({{"XDG_CONFIG_HOME", config}}).choice.at(1), kTuned);
  EXPECT_EQ(start({{"XDG_CONFIG_HOME", config}, {"TUTTI_TUNING", "off"}}).choice.at(1), kShipped);
  EXPECT_EQ(start({{"XDG_CONFIG_HOME", "config"}, {"HOME", "/nowhere"}}).choice.at(1), kShipped) << "relative";
  write("home/.config/tutti/tuning", rows(machine_));
  EXPECT_EQ(start({{"XDG_CONFIG_HOME", ""}, {"HOME", folder_ / "home"}}).choice.at(1), kTuned);
  const Said none = start({{"XDG_CONFIG_HOME", folder_ / "empty"}});
  EXPECT_EQ(none.choice.at(0), kShipped);
  EXPECT_EQ(none.text, "");
  EXPECT_EQ(none.tuning.at(0)["state"], "there is no such file");
  EXPECT_EQ(none.tuning.at(0)["place"], (folder_ / "empty/tutti/tuning").string());
}

TEST_F(TuningFiles, OfOtherMachinesAreNotUsed) {
  for (const std::string &machine : {machine_ + " mark II", "X" + machine_, std::string("another")}) {
    const std::string file = write("other/tutti/tuning", rows(machine));
    const Said found = start({{"XDG_CONFIG_HOME", folder_ / "other"}});
    EXPECT_EQ(found.choice.at(0), kShipped);
    EXPECT_EQ(found.text, "") << "nobody asked";
    const Said named = start({{"TUTTI_TUNING", file}});
    EXPECT_EQ(named.choice.at(0), kShipped);
    EXPECT_EQ(named.tuning.at(1)["state"], "not used: it holds nothing for this machine");
    EXPECT_NE(named.text.find("warning: TUTTI_TUNING=" + file +
                              " holds nothing for this machine, version and device; tutti-tune measures them\n"),
              std::string::npos)
        << named.text;
    EXPECT_EQ(std::ranges::count(named.text, '\n'), 1) << "one rank says it: " << named.text;
  }
}

TEST_F(TuningFiles, GiveWayToTuttiAlgoToCommunicatorsAndToCalls) {
  const std::string file = write("mine", rows(machine_));
  EXPECT_EQ(start({{"TUTTI_TUNING", file}, {"TUTTI_ALGO", "barrier:dissemination:radix=4"}}).choice.at(0),
            "dissemination:radix=4");
  ThreadRanks ranks(2, {.everywhere = {{"TUTTI_TUNING", file}}});
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int, tutti_comm *comm) {
    EXPECT_EQ(query(comm, "choice barrier 1"), kTuned);
    EXPECT_NE(query(comm, "selection").get<std::string>().find("\nbarrier "), std::string::npos);
    EXPECT_EQ(tutti_comm_set_algorithms(comm, "barrier:dissemination:radix=3"), TUTTI_SUCCESS);
    EXPECT_EQ(query(comm, "choice barrier 1"), "dissemination:radix=3");
    EXPECT_EQ(tutti_comm_set_algorithms(comm, "barrier:table"), TUTTI_SUCCESS);
    EXPECT_EQ(query(comm, "choice barrier 1"), kTuned);
    EXPECT_EQ(tutti_barrier(comm), TUTTI_SUCCESS) << last_error().text;
  });
}

// Three ranks with a row by which an allreduce of 8 numbers takes other messages than by the table.
TEST_F(TuningFiles, DecideWhatCallsSend) {
  const auto messages = [&](const std::string &setting) {
    ThreadRanks ranks(3, {.everywhere = {{"TUTTI_TUNING", setting}}});
    EXPECT_TRUE(ranks.up()) << ranks.errors();
    ranks.each([](int, tutti_comm *comm) {
      std::vector<std::int32_t> buffer(8);
      EXPECT_EQ(tutti_allreduce(TUTTI_IN_PLACE, buffer.data(), 8, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_SUCCESS);
    });
    return query(ranks[1].comm, "statistics")["messages_sent"].get<int>();
  };
  int per_core = 1;
  {
    ThreadRanks ranks(3, {.everywhere = {{"TUTTI_TUNING", "off"}}});
    ASSERT_TRUE(ranks.up()) << ranks.errors();
    per_core = query(ranks[0].comm, "tuning")["ranks_per_core"];
  }
  const std::string row = "allreduce ranks=3 ranks/core=" + std::to_string(per_core) + " hosts=1 bytes=32-32 ring\n";
  EXPECT_EQ(messages("off"), 0) << "on a board";
  EXPECT_EQ(messages(write("mine", "tutti-tuning 1\nmachine " + machine_ + "\n" + row)), 4) << "ring: twice around";
}

TEST_F(TuningFiles, ThatDifferAreAnErrorIfSomebodyAskedForOne) {
  const std::string file = write("mine", rows(machine_)),
                    other = write("other", rows(machine_, "dissemination:radix=4")),
                    empty = write("empty", "tutti-tuning 1\n");
  const auto error = [&](const std::string &first, const std::string &second) {
    return start([&](int rank) { return Variables{{"TUTTI_TUNING", rank == 0 ? first : second}}; }).errors;
  };
  const auto expect = [](const std::string &text, const std::string &part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const std::string advice = " for this machine: give all ranks the same TUTTI_TUNING, and all hosts the same file";
  expect(error(file, other), "rank 1 has other tuned rows than rank 0" + advice);
  expect(error(file, "off"), "rank 1 has none of the tuned rows that rank 0 has" + advice);
  expect(error(empty, file), "rank 1 has tuned rows and rank 0 has none" + advice);
  EXPECT_EQ(error(file, write("copy", "#\n" + rows(machine_) + "machine b\n")), "") << "what holds here is the same";
}

TEST_F(TuningFiles, ThatDifferAreNotUsedIfNobodyAskedForOne) {
  write("a/tutti/tuning", rows(machine_));
  write("b/tutti/tuning", rows(machine_, "dissemination:radix=4"));
  const Said said = start([&](int rank) { return Variables{{"XDG_CONFIG_HOME", folder_ / (rank == 0 ? "a" : "b")}}; });
  EXPECT_EQ(said.errors, "");
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(said.choice.at(rank), kShipped);
  EXPECT_NE(said.text.find("warning: tuning is not used: rank 1 has other tuned rows than rank 0 for this "
                           "machine: give all hosts the same file"),
            std::string::npos)
      << said.text;
  EXPECT_EQ(std::ranges::count(said.text, '\n'), 1) << said.text;
  EXPECT_EQ(said.tuning.at(1)["rows"], 0);
}

TEST_F(TuningFiles, ThatMakeNoSenseAreAnErrorIfTheyWereAskedFor) {
  const auto error = [&](const std::string &file) { return start({{"TUTTI_TUNING", file}}).errors; };
  const auto expect = [](const std::string &text, const std::string &part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(text.find("TUTTI_TUNING=off does without"), std::string::npos) << text;
  };
  const std::string garbage = write("garbage", "tutti-tuning 1\nnonsense\n");
  expect(error(garbage), "TUTTI_TUNING: " + garbage + ":2: a row before the first machine");
  const std::string wrong = write("wrong", rows(machine_, "nothing"));
  expect(error(wrong), wrong + ":3: barrier has no algorithm 'nothing'");
  expect(error(folder_ / "absent"), "absent cannot be read: No such file or directory");
  expect(error(folder_), "cannot be read: it is no file");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  expect(error(folder_ / "pipe"), "cannot be read: it is no file");
  expect(error(write("large", std::string((1 << 20) + 1, '#'))), "has 1048577 bytes: it is no tuning file");
}

TEST_F(TuningFiles, ThatMakeNoSenseAreAWarningIfNobodyAskedForThem) {
  const std::string row = write("row/tutti/tuning", rows(machine_, "nothing"));
  const std::string all = write("all/tutti/tuning", "nonsense");
  for (const auto &[file, text] : {std::pair(row, row + ":3: barrier has no algorithm 'nothing'"),
                                   std::pair(all, all + ":1: a tuning file begins with 'tutti-tuning 1'")}) {
    const std::string config = fs::path(file).parent_path().parent_path();
    const Said said = start({{"XDG_CONFIG_HOME", config}});
    EXPECT_EQ(said.errors, "");
    EXPECT_EQ(said.choice.at(0), kShipped);
    EXPECT_NE(said.text.find("warning: tuning is not used: " + text), std::string::npos) << said.text;
    EXPECT_EQ(std::ranges::count(said.text, '\n'), 1) << said.text;
  }
}

TEST_F(TuningFiles, AreDescribedWithoutAWorld) {
  const auto describe = [] {
    std::size_t bytes = 1 << 16;
    std::string text(bytes, '\0');
    EXPECT_EQ(tutti_describe("tuning", text.data(), &bytes), TUTTI_SUCCESS) << last_error().text;
    return Json::parse(text.substr(0, bytes - 1));
  };
  const std::string host = machine_.substr(machine_.rfind("; ") + 2);
  const std::string with_others = machine_.substr(0, machine_.find("; ")) + "; rxe0:1; 2 CPUs + " + host + " + 9 CPUs";
  const std::string file =
      write("mine", rows(machine_) + "machine another\nmachine " + with_others + "\nmachine x" + machine_);
  ::setenv("TUTTI_TUNING", file.c_str(), 1);
  const Json tuning = describe();
  EXPECT_EQ(tuning["file"], file);
  EXPECT_EQ(tuning["host"], host);
  EXPECT_EQ(tuning["sections"].size(), 4u);
  EXPECT_EQ(tuning["sections"][2]["here"], true) << "one of several hosts";
  EXPECT_EQ(tuning["sections"][3]["here"], false) << "another version";
  EXPECT_EQ(tuning["sections"][0]["machine"], machine_);
  EXPECT_EQ(tuning["sections"][0]["rows"], 1);
  EXPECT_EQ(tuning["sections"][0]["here"], true);
  EXPECT_EQ(tuning["sections"][1]["here"], false);
  ::setenv("TUTTI_TUNING", "off", 1);
  EXPECT_EQ(describe()["state"], "off");
  ::unsetenv("TUTTI_TUNING");
}

TEST(Choice, IsAskedForByCollectiveAndBytes) {
  ThreadRanks ranks(1, {.everywhere = {{"TUTTI_ALGO", "allreduce:circulant:skips=1"}}});
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  EXPECT_EQ(query(ranks[0].comm, "choice allreduce 64K"), "circulant:skips=1");
  std::size_t bytes = 0;
  for (const char *wrong : {"choice ", "choice allreduce", "choice telepathy 8", "choice allreduce many"}) {
    EXPECT_EQ(tutti_query(ranks[0].comm, wrong, nullptr, &bytes), TUTTI_ERROR_ARGUMENT);
    EXPECT_NE(std::string(last_error().text).find("is not choice COLLECTIVE BYTES; there are allreduce"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace tutti::test
