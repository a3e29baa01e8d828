// SPDX-License-Identifier: BSD-3-Clause
#include "bootstrap/environment.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "bootstrap/job_key.h"

namespace tutti::bootstrap {
namespace {

const Environment kTorchrun = {{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};

TEST(LauncherEnvironment, TorchrunsVariablesSayWhereToMeet) {
  const auto launch = launcher_environment(kTorchrun);
  ASSERT_TRUE(launch) << launch.error().text;
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->ranks, 8);
  EXPECT_EQ(launch->master_address, "node7");
  EXPECT_EQ(launch->master_port, 29500);
}

TEST(LauncherEnvironment, WithoutThemThereIsASingleRank) {
  const auto launch = launcher_environment({{"MASTER_ADDR", "node7"}});
  ASSERT_TRUE(launch) << launch.error().text;
  EXPECT_EQ(launch->ranks, 1);
  EXPECT_EQ(launch->master_address, "");
  EXPECT_EQ(launch->warning, "");
}

TEST(LauncherEnvironment, AnMpiLauncherWithoutAMeetingPointIsWarnedOf) {
  const auto launch = launcher_environment({{"OMPI_COMM_WORLD_SIZE", "4"}});
  ASSERT_TRUE(launch);
  EXPECT_NE(launch->warning.find("tutti/bootstrap_mpi.h"), std::string::npos) << launch->warning;
  EXPECT_EQ(launcher_environment({{"OMPI_COMM_WORLD_SIZE", "1"}})->warning, "");
}

TEST(LauncherEnvironment, AHalfSetEnvironmentIsAnErrorThatNamesTheMissingVariable) {
  for (const char *missing : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    Environment environment = kTorchrun;
    environment.erase(missing);
    const auto launch = launcher_environment(environment);
    ASSERT_FALSE(launch) << missing;
    EXPECT_EQ(launch.error().code, Code::config);
    EXPECT_EQ(launch.error().text.find(missing), 0u) << launch.error().text;
  }
}

TEST(LauncherEnvironment, ImpossibleValuesAreErrorsThatSayWhatIsAccepted) {
  const std::pair<const char *, const char *> bad[] = {
      {"RANK", "8"},        {"RANK", "-1"},           {"RANK", ""},
      {"RANK", "3x"},       {"WORLD_SIZE", "0"},      {"WORLD_SIZE", "x"},
      {"MASTER_PORT", "0"}, {"MASTER_PORT", "65536"}, {"MASTER_ADDR", ""}};
  for (const auto &[name, value] : bad) {
    Environment environment = kTorchrun;
    environment[name] = value;
    const auto launch = launcher_environment(environment);
    ASSERT_FALSE(launch) << name << "=" << value;
    EXPECT_NE(launch.error().text.find(name), std::string::npos) << launch.error().text;
  }
}

TEST(LauncherEnvironment, OneRankNeedsNoMeetingPoint) {
  const auto launch = launcher_environment({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  ASSERT_TRUE(launch) << launch.error().text;
  EXPECT_EQ(launch->ranks, 1);
}

TEST(LocalPlace, IsTakenFromWhicheverLauncherTellsIt) {
  const auto place = [](const Environment &environment) {
    const LocalPlace found = local_place(environment);
    return std::pair(found.rank, found.ranks);
  };
  EXPECT_EQ(place({{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "4"}}), std::pair(2, 4));
  EXPECT_EQ(place({{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}), std::pair(1, 2));
  EXPECT_EQ(place({{"MPI_LOCALRANKID", "5"}, {"MPI_LOCALNRANKS", "6"}}), std::pair(5, 6));
  EXPECT_EQ(place({{"SLURM_LOCALID", "3"}}), std::pair(3, -1));
  EXPECT_EQ(place({}), std::pair(-1, -1));
  EXPECT_EQ(place({{"LOCAL_RANK", "x"}, {"SLURM_LOCALID", "3"}}), std::pair(3, -1));
  EXPECT_EQ(place({{"LOCAL_RANK", "4"}, {"LOCAL_WORLD_SIZE", "4"}}), std::pair(-1, -1));
}

class KeyFile : public testing::Test {
 protected:
  KeyFile() { ::close(::mkstemp(name_)); }
  ~KeyFile() override { ::unlink(name_); }
  void write(const std::string &text, mode_t mode) {
    std::ofstream(name_) << text;
    ::chmod(name_, mode);
  }
  char name_[32] = "/tmp/tutti-key-test-XXXXXX";
};

TEST_F(KeyFile, IsReadWithoutItsLineEnd) {
  write("a key from a file\n", 0600);
  EXPECT_EQ(read_job_key("", name_).value(), "a key from a file");
}

TEST_F(KeyFile, ThatOthersMayReadIsRefusedAndTheErrorSaysWhatToDo) {
  write("a key from a file\n", 0640);
  const auto key = read_job_key("", name_);
  ASSERT_FALSE(key);
  EXPECT_NE(key.error().text.find("(mode 0640): chmod 600 it"), std::string::npos) << key.error().text;
}

TEST_F(KeyFile, ThatIsAbsentShortOrNoFileIsRefused) {
  write("short", 0600);
  EXPECT_NE(read_job_key("", name_).error().text.find("needs at least 16"), std::string::npos);
  EXPECT_NE(read_job_key("", "/no/such/key").error().text.find("No such file"), std::string::npos);
  EXPECT_NE(read_job_key("", "/tmp").error().text.find("not a regular file"), std::string::npos);
}

TEST_F(KeyFile, ErrorsNeverShowTheKey) {
  write("S3CRET", 0600);
  EXPECT_EQ(read_job_key("", name_).error().text.find("S3CRET"), std::string::npos);
  EXPECT_EQ(read_job_key("S3CRET", "").error().text.find("S3CRET"), std::string::npos);
}

TEST(JobKey, IsTakenAsGivenAndOnlyFromOnePlace) {
  EXPECT_EQ(read_job_key("sixteen letters!", "").value(), "sixteen letters!");
  EXPECT_EQ(read_job_key("", "").value(), "");
  EXPECT_FALSE(read_job_key("fifteen letters", ""));
  EXPECT_FALSE(read_job_key("sixteen letters!", "/tmp/x"));
}

}  // namespace
}  // namespace tutti::bootstrap
