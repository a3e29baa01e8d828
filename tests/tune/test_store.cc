// SPDX-License-Identifier: BSD-3-Clause
//
// The file of tutti-tune: what was not measured stays, and nothing is half written.
#include "tutti-tune/store.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace tutti::tune {
namespace {

namespace fs = std::filesystem;
using collectives::Collective;

class Store : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "storeXXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string text_of(const fs::path &file) const {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }
  std::size_t files() const {
    std::size_t count = 0;
    for (const auto &entry : fs::recursive_directory_iterator(folder_)) count += entry.is_regular_file();
    return count;
  }

  fs::path folder_;
};

NewRow row(Collective collective, std::int32_t ranks, const char *algorithm, std::uint64_t most) {
  return {{.collective = collective,
           .ranks = ranks,
           .max_bytes = most,
           .algorithm = collectives::find_algorithm(collective, algorithm)},
          "1 us instead of 2"};
}

TEST_F(Store, BeginsWhereThereIsNothing) {
  const std::string file = folder_ / "new/folder/tuning";
  const auto sections = load(file, "m");
  ASSERT_TRUE(sections) << sections.error().text;
  EXPECT_TRUE(sections->empty());
  EXPECT_EQ(files(), 0u) << "that it could be written was tried, and leaves nothing";
  Sections written;
  merge(written, {.machine = "m", .ranks = 4, .which = {Collective::allreduce}},
        std::vector{row(Collective::allreduce, 4, "ring", 100)});
  ASSERT_TRUE(save(file, written));
  EXPECT_EQ(files(), 1u);
  EXPECT_NE(text_of(file).find("\nmachine m\nallreduce ranks=4 ranks/core=1 hosts=1 bytes=0-100 ring  # 1 us"),
            std::string::npos)
      << text_of(file);
  struct stat status = {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644u);
}

TEST_F(Store, ReplacesWhatWasMeasuredAndKeepsTheRest) {
  const std::string file = folder_ / "tuning";
  std::ofstream(file) << "tutti-tuning 1\nmachine other\nhas words of its own  # so\nmachine m\n"
                         "allreduce ranks=4 ranks/core=1 hosts=1 bytes=0-10 ring  # old\n"
                         "allreduce ranks=3 ranks/core=1 hosts=1 bytes=0-10 ring  # three\n"
                         "broadcast ranks=4 ranks/core=1 hosts=1 bytes=0-10 chain  # broadcast\n"
                         "allreduce ranks=4 ranks/core=2 hosts=1 bytes=0-10 ring  # two\n"
                         "allreduce ranks=4 ranks/core=1 hosts=2 bytes=0-10 ring  # hosts\n";
  auto sections = load(file, "m");
  ASSERT_TRUE(sections) << sections.error().text;
  merge(*sections, {.machine = "m", .ranks = 4, .which = {Collective::allreduce}},
        std::vector{row(Collective::allreduce, 4, "direct", 99)});
  ASSERT_TRUE(save(file, *sections));
  const std::string text = text_of(file);
  EXPECT_EQ(text.find("# old"), std::string::npos) << text;
  for (const char *kept : {"has words of its own  # so\n", "# three", "# broadcast", "# two", "# hosts", "0-99 direct"})
    EXPECT_NE(text.find(kept), std::string::npos) << kept << " in " << text;
  merge(*sections, {.machine = "m", .ranks = 4, .which = {Collective::allreduce}}, {});
  EXPECT_EQ(tuning_text(*sections).find("0-99 direct"), std::string::npos) << "measured, and the table is best";
}

TEST_F(Store, RefusesBeforeMeasuringWhatItWouldLoseOrCannotWrite) {
  const std::string file = folder_ / "tuning";
  const auto fault = [&](const std::string &text) {
    std::ofstream(file) << text;
    const auto sections = load(file, "m");
    return sections ? "accepted" : sections.error().text;
  };
  EXPECT_EQ(fault("garbage"), file +
                                  ":1: a tuning file begins with 'tutti-tuning 1', not with 'garbage'; nothing is "
                                  "measured, so that nothing of it is lost: correct or remove the file, or name "
                                  "another with -o");
  EXPECT_NE(fault("tutti-tuning 1\nmachine m\nbarrier\n").find(file + ":3: "), std::string::npos);
  EXPECT_EQ(fault("tutti-tuning 1\nmachine n\nbarrier\n"), "accepted") << "another machine's";
  fs::create_directory(folder_ / "folder");
  EXPECT_FALSE(load(folder_ / "folder", "m"));
  EXPECT_FALSE(load("/proc/tuning", "m"));
  EXPECT_FALSE(load(file + "/below", "m"));
  EXPECT_EQ(files(), 1u) << "nothing is left over";
}

TEST_F(Store, FollowsALink) {
  fs::create_symlink(folder_ / "dotfiles", folder_ / "tuning");
  std::ofstream(folder_ / "dotfiles") << "tutti-tuning 1\n";
  ASSERT_TRUE(save(folder_ / "tuning", {{"m", {}}}));
  EXPECT_TRUE(fs::is_symlink(folder_ / "tuning"));
  EXPECT_NE(text_of(folder_ / "dotfiles").find("machine m"), std::string::npos);
}

TEST_F(Store, LeavesTheOldFileWhereTheNewOneCannotBe) {
  const std::string place = folder_ / "place";
  fs::create_directories(place + "/occupied");
  EXPECT_FALSE(save(place, {}));
  EXPECT_EQ(files(), 0u) << "nothing half written";
}

}  // namespace
}  // namespace tutti::tune
