// SPDX-License-Identifier: BSD-3-Clause
//
// Every error code, provoked through the C interface; its text names what is wrong and what to do.
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <functional>

#include "api/expect.h"

namespace tutti::test {
namespace {

// Every rank failed to start with this code and these words, and has no world.
void expect_no_start(ThreadRanks &ranks, tutti_result expected, const std::vector<std::string> &parts) {
  for (int rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(ranks[rank].result, expected) << "rank " << rank << ": " << ranks[rank].error.text;
    EXPECT_EQ(ranks[rank].comm, nullptr);
    expect_text(ranks[rank].error, parts);
  }
}

class Alone : public testing::Test {
 protected:
  Alone() { EXPECT_EQ(tutti_init(nullptr, nullptr, &comm_), TUTTI_SUCCESS) << last_error().text; }
  ~Alone() override {
    if (comm_ != nullptr) tutti_comm_free(&comm_);
  }
  tutti_comm *comm_ = nullptr;
  std::int32_t value_ = 1, result_ = 0;
};

TEST_F(Alone, Argument) {
  expect_error(tutti_init(nullptr, nullptr, nullptr), TUTTI_ERROR_ARGUMENT, {"tutti_init", "world is null"});
  expect_error(tutti_allreduce(nullptr, &result_, 1, TUTTI_INT32, TUTTI_SUM, comm_), TUTTI_ERROR_ARGUMENT,
               {"tutti_allreduce", "in is null", "count is 1"});
  expect_error(tutti_allreduce(&value_, nullptr, 1, TUTTI_INT32, TUTTI_SUM, comm_), TUTTI_ERROR_ARGUMENT,
               {"tutti_allreduce", "out is null"});
  expect_error(tutti_allreduce(&value_, &result_, SIZE_MAX, TUTTI_INT32, TUTTI_SUM, comm_), TUTTI_ERROR_ARGUMENT,
               {"count", std::to_string(SIZE_MAX)});
  expect_error(tutti_broadcast(nullptr, 3, TUTTI_INT32, 0, comm_), TUTTI_ERROR_ARGUMENT,
               {"tutti_broadcast", "buffer is null", "count is 3"});
  for (const int root : {-1, 1, 77})
    expect_error(tutti_broadcast(&value_, 1, TUTTI_INT32, root, comm_), TUTTI_ERROR_ARGUMENT,
                 {"root " + std::to_string(root), "ranks are 0 to 0"});
  expect_error(tutti_comm_rank(comm_, nullptr), TUTTI_ERROR_ARGUMENT, {"tutti_comm_rank", "null"});
  expect_error(tutti_comm_size(comm_, nullptr), TUTTI_ERROR_ARGUMENT, {"tutti_comm_size", "null"});
  expect_error(tutti_comm_free(nullptr), TUTTI_ERROR_ARGUMENT, {"tutti_comm_free", "null"});
  expect_error(tutti_alloc(comm_, 1, nullptr), TUTTI_ERROR_ARGUMENT, {"tutti_alloc", "null"});
  expect_error(tutti_free(comm_, &value_), TUTTI_ERROR_ARGUMENT, {"tutti_free", "not given by tutti_alloc"});
  std::size_t bytes = 0;
  expect_error(tutti_query(comm_, "weather", nullptr, &bytes), TUTTI_ERROR_ARGUMENT, {"weather", "devices", "config"});
  expect_error(tutti_query(comm_, nullptr, nullptr, &bytes), TUTTI_ERROR_ARGUMENT, {"what is null"});
  expect_error(tutti_query(comm_, "links", nullptr, nullptr), TUTTI_ERROR_ARGUMENT, {"bytes is null"});
  expect_error(tutti_describe("weather", nullptr, &bytes), TUTTI_ERROR_ARGUMENT, {"weather", "version"});
  expect_error(tutti_last_error(nullptr), TUTTI_ERROR_ARGUMENT, {"error is null"});
  EXPECT_EQ(sum(comm_, 5), TUTTI_SUCCESS) << "a refused call leaves the world as it was";
}

TEST_F(Alone, ArgumentsOfTheOtherCollectives) {
  const auto refused = [&](tutti_result result, const std::vector<std::string> &parts) {
    expect_error(result, TUTTI_ERROR_ARGUMENT, parts);
  };
  std::int32_t in[4] = {1, 2, 3, 4}, out[4] = {};
  const std::size_t one = 1, two = 2, huge = SIZE_MAX;
  const tutti_type type = TUTTI_INT32;
  refused(tutti_reduce(nullptr, out, 1, type, TUTTI_SUM, 0, comm_), {"tutti_reduce", "in is null"});
  refused(tutti_reduce(in, nullptr, 1, type, TUTTI_SUM, 0, comm_), {"tutti_reduce", "out is null"});
  refused(tutti_reduce(in, out, 1, type, TUTTI_SUM, 1, comm_), {"tutti_reduce", "root 1", "ranks are 0 to 0"});
  refused(tutti_reduce(in, in + 1, 2, type, TUTTI_SUM, 0, comm_), {"tutti_reduce", "overlap", "TUTTI_IN_PLACE"});
  refused(tutti_reduce_scatter_block(nullptr, out, 1, type, TUTTI_SUM, comm_), {"in is null"});
  refused(tutti_reduce_scatter_block(in, nullptr, 1, type, TUTTI_SUM, comm_), {"out is null"});
  refused(tutti_reduce_scatter_block(in, in + 1, 2, type, TUTTI_SUM, comm_), {"overlap"});
  refused(tutti_reduce_scatter(in, out, nullptr, type, TUTTI_SUM, comm_), {"tutti_reduce_scatter", "counts is null"});
  refused(tutti_reduce_scatter(in, out, &huge, type, TUTTI_SUM, comm_), {"counts[0]", std::to_string(SIZE_MAX)});
  refused(tutti_reduce_scatter(TUTTI_IN_PLACE, nullptr, &one, type, TUTTI_SUM, comm_), {"out is null"});
  refused(tutti_reduce_scatter(in, in + 1, &two, type, TUTTI_SUM, comm_), {"overlap"});
  refused(tutti_scan(nullptr, out, 1, type, TUTTI_SUM, comm_), {"tutti_scan", "in is null"});
  refused(tutti_exscan(in, nullptr, 1, type, TUTTI_SUM, comm_), {"tutti_exscan", "out is null"});
  refused(tutti_scan(in, in + 1, 2, type, TUTTI_SUM, comm_), {"tutti_scan", "overlap"});
  refused(tutti_allgather(nullptr, out, 1, type, comm_), {"tutti_allgather", "in is null"});
  refused(tutti_allgather(in, nullptr, 1, type, comm_), {"out is null"});
  refused(tutti_allgather(in, out, SIZE_MAX / 4, type, comm_), {"count", "more than an address space"});
  refused(tutti_allgather(in + 1, in, 2, type, comm_), {"overlap"});
  refused(tutti_allgatherv(in, 1, out, nullptr, nullptr, type, comm_), {"out_counts is null"});
  refused(tutti_allgatherv(in, 2, out, &one, nullptr, type, comm_), {"in_count is 2", "out_counts[0]", "is 1"});
  refused(tutti_allgatherv(nullptr, 1, out, &one, nullptr, type, comm_), {"in is null"});
  refused(tutti_allgatherv(in, 1, nullptr, &one, nullptr, type, comm_), {"out is null", "out_counts"});
  refused(tutti_allgatherv(in, 1, out, &one, &huge, type, comm_), {"out_counts[0]", "more than an address space"});
  refused(tutti_gather(nullptr, out, 1, type, 0, comm_), {"tutti_gather", "in is null"});
  refused(tutti_gather(in, nullptr, 1, type, 0, comm_), {"out is null"});
  refused(tutti_gather(in, out, 1, type, -1, comm_), {"root -1"});
  refused(tutti_gather(in + 1, in, 2, type, 0, comm_), {"overlap"});
  refused(tutti_gatherv(in, 1, out, nullptr, nullptr, type, 0, comm_), {"tutti_gatherv", "out_counts is null"});
  refused(tutti_gatherv(in, 2, out, &one, nullptr, type, 0, comm_), {"in_count is 2"});
  refused(tutti_gatherv(in, 1, out, &one, nullptr, type, 7, comm_), {"root 7"});
  refused(tutti_scatter(nullptr, out, 1, type, 0, comm_), {"tutti_scatter", "in is null"});
  refused(tutti_scatter(in, nullptr, 1, type, 0, comm_), {"out is null"});
  refused(tutti_scatter(TUTTI_IN_PLACE, out, 1, type, 0, comm_), {"in is TUTTI_IN_PLACE", "out only"});
  refused(tutti_scatter(in, out, 1, type, 1, comm_), {"root 1"});
  refused(tutti_scatter(in, in + 1, 2, type, 0, comm_), {"overlap"});
  refused(tutti_scatterv(in, nullptr, nullptr, out, 1, type, 0, comm_), {"tutti_scatterv", "in_counts is null"});
  refused(tutti_scatterv(in, &one, nullptr, out, 2, type, 0, comm_), {"out_count is 2"});
  refused(tutti_scatterv(TUTTI_IN_PLACE, &one, nullptr, out, 1, type, 0, comm_), {"out only"});
  refused(tutti_scatterv(in, &one, nullptr, out, 1, type, 5, comm_), {"root 5"});
  refused(tutti_alltoall(nullptr, out, 1, type, comm_), {"tutti_alltoall", "in is null"});
  refused(tutti_alltoall(in, nullptr, 1, type, comm_), {"out is null"});
  refused(tutti_alltoall(in, in + 1, 2, type, comm_), {"overlap"});
  refused(tutti_alltoallv(in, nullptr, nullptr, out, &one, nullptr, type, comm_), {"in_counts is null"});
  refused(tutti_alltoallv(in, &one, nullptr, out, nullptr, nullptr, type, comm_), {"out_counts is null"});
  refused(tutti_alltoallv(in, &one, nullptr, out, &two, nullptr, type, comm_), {"in_counts[0] is 1", "is 2"});
  refused(tutti_alltoallv(in, &one, nullptr, in, &one, nullptr, type, comm_), {"overlap"});
  for (const tutti_type bad : {-1, 1 << 29}) {
    expect_error(tutti_reduce(in, out, 1, bad, TUTTI_SUM, 0, comm_), TUTTI_ERROR_TYPE, {"tutti_reduce"});
    expect_error(tutti_alltoall(in, out, 1, bad, comm_), TUTTI_ERROR_TYPE, {"tutti_alltoall"});
    expect_error(tutti_allgatherv(in, 1, out, &one, nullptr, bad, comm_), TUTTI_ERROR_TYPE, {"tutti_allgatherv"});
    expect_error(tutti_scan(in, out, 1, bad, TUTTI_SUM, comm_), TUTTI_ERROR_TYPE, {"tutti_scan"});
    expect_error(tutti_reduce(in, out, 1, type, bad, 0, comm_), TUTTI_ERROR_OP, {"tutti_reduce", "TUTTI_SUM"});
    expect_error(tutti_reduce_scatter(in, out, &one, type, bad, comm_), TUTTI_ERROR_OP, {"tutti_reduce_scatter"});
    expect_error(tutti_reduce_scatter_block(in, out, 1, type, bad, comm_), TUTTI_ERROR_OP, {"scatter_block"});
    expect_error(tutti_exscan(in, out, 1, type, bad, comm_), TUTTI_ERROR_OP, {"tutti_exscan"});
  }
  EXPECT_EQ(tutti_barrier(comm_), TUTTI_SUCCESS) << "refused calls leave the world as it was";
}

TEST(Errors, InPlaceWhereOnlyTheRootMayBe) {
  ThreadRanks ranks(2);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  ranks.each([](int rank, tutti_comm *comm) {
    std::int32_t value[2] = {};
    const std::size_t one = 1;
    if (rank == 1) {
      const std::vector<std::string> parts = {"TUTTI_IN_PLACE", "only the root"};
      expect_error(tutti_reduce(TUTTI_IN_PLACE, value, 1, TUTTI_INT32, TUTTI_SUM, 0, comm), TUTTI_ERROR_ARGUMENT,
                   parts);
      expect_error(tutti_gather(TUTTI_IN_PLACE, value, 1, TUTTI_INT32, 0, comm), TUTTI_ERROR_ARGUMENT, parts);
      expect_error(tutti_scatter(value, TUTTI_IN_PLACE, 1, TUTTI_INT32, 0, comm), TUTTI_ERROR_ARGUMENT, parts);
      expect_error(tutti_gatherv(TUTTI_IN_PLACE, 1, value, &one, nullptr, TUTTI_INT32, 0, comm), TUTTI_ERROR_ARGUMENT,
                   parts);
      expect_error(tutti_scatterv(value, &one, nullptr, TUTTI_IN_PLACE, 1, TUTTI_INT32, 0, comm), TUTTI_ERROR_ARGUMENT,
                   parts);
    }
    EXPECT_EQ(tutti_barrier(comm), TUTTI_SUCCESS) << last_error().text;
  });
}

TEST_F(Alone, NothingToDoNeedsNoBuffers) {
  const std::size_t none = 0;
  EXPECT_EQ(tutti_reduce(nullptr, nullptr, 0, TUTTI_INT32, TUTTI_SUM, 0, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_reduce_scatter_block(nullptr, nullptr, 0, TUTTI_INT32, TUTTI_SUM, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_reduce_scatter(nullptr, nullptr, &none, TUTTI_INT32, TUTTI_SUM, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_allgather(nullptr, nullptr, 0, TUTTI_INT32, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_allgatherv(nullptr, 0, nullptr, &none, nullptr, TUTTI_INT32, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_gather(nullptr, nullptr, 0, TUTTI_INT32, 0, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_gatherv(nullptr, 0, nullptr, &none, nullptr, TUTTI_INT32, 0, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_scatter(nullptr, nullptr, 0, TUTTI_INT32, 0, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_scatterv(nullptr, &none, nullptr, nullptr, 0, TUTTI_INT32, 0, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_alltoall(nullptr, nullptr, 0, TUTTI_INT32, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_alltoallv(nullptr, &none, nullptr, nullptr, &none, nullptr, TUTTI_INT32, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_scan(nullptr, nullptr, 0, TUTTI_INT32, TUTTI_SUM, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_exscan(nullptr, nullptr, 0, TUTTI_INT32, TUTTI_SUM, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_allreduce(nullptr, nullptr, 0, TUTTI_INT32, TUTTI_SUM, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_broadcast(nullptr, 0, TUTTI_INT32, 0, comm_), TUTTI_SUCCESS);
}

TEST_F(Alone, Type) {
  for (const tutti_type type : {-1, 22, 1 << 30}) {
    expect_error(tutti_allreduce(&value_, &result_, 1, type, TUTTI_SUM, comm_), TUTTI_ERROR_TYPE,
                 {"type " + std::to_string(type), "TUTTI_INT8", "TUTTI_SHORT_INT", "TUTTI_OP_ELEMENT"});
    expect_error(tutti_broadcast(&value_, 1, type, 0, comm_), TUTTI_ERROR_TYPE, {"type " + std::to_string(type)});
    EXPECT_EQ(tutti_type_bytes(type), 0u);
  }
  expect_error(tutti_broadcast(&value_, 1, TUTTI_OP_ELEMENT, 0, comm_), TUTTI_ERROR_TYPE,
               {"TUTTI_OP_ELEMENT", "tutti_op_create", "TUTTI_BYTE"});
  tutti_op op = TUTTI_SUM;
  expect_error(tutti_op_create_premul_sum(&value_, TUTTI_BOOL, &op), TUTTI_ERROR_TYPE,
               {"bool has no products", "int8", "complex_double"});
  EXPECT_EQ(op, TUTTI_OP_NULL);
}

TEST_F(Alone, Op) {
  for (const tutti_op op : {-1, 13, 1 << 29})
    expect_error(tutti_allreduce(&value_, &result_, 1, TUTTI_INT32, op, comm_), TUTTI_ERROR_OP,
                 {"operator " + std::to_string(op), "TUTTI_SUM", "TUTTI_MAXLOC", "tutti_op_create"});
  // What is not in the table of types and operators: said with what is.
  expect_error(tutti_allreduce(&value_, &result_, 1, TUTTI_FLOAT, TUTTI_BXOR, comm_), TUTTI_ERROR_OP,
               {"bxor is not defined for float", "float takes sum, prod, min, max, avg, premul_sum, user",
                "bxor goes with int8, uint8", "byte"});
  expect_error(tutti_allreduce(&value_, &result_, 1, TUTTI_BOOL, TUTTI_SUM, comm_), TUTTI_ERROR_OP,
               {"sum is not defined for bool", "bool takes land, lor, lxor"});
  expect_error(tutti_allreduce(&value_, &result_, 1, TUTTI_OP_ELEMENT, TUTTI_SUM, comm_), TUTTI_ERROR_OP,
               {"sum is not defined for op_element", "op_element takes user"});

  tutti_op twice = TUTTI_OP_NULL;
  const std::int32_t two = 2;
  ASSERT_EQ(tutti_op_create_premul_sum(&two, TUTTI_INT32, &twice), TUTTI_SUCCESS);
  value_ = 21;
  EXPECT_EQ(tutti_allreduce(&value_, &result_, 1, TUTTI_INT32, twice, comm_), TUTTI_SUCCESS);
  EXPECT_EQ(result_, 42);
  expect_error(tutti_allreduce(&value_, &result_, 1, TUTTI_FLOAT, twice, comm_), TUTTI_ERROR_OP,
               {"made for int32", "float"});
  const tutti_op freed = twice;
  EXPECT_EQ(tutti_op_free(&twice), TUTTI_SUCCESS);
  expect_error(tutti_allreduce(&value_, &result_, 1, TUTTI_INT32, freed, comm_), TUTTI_ERROR_OP, {"was freed"});
  for (tutti_op op : {tutti_op(TUTTI_OP_NULL), freed, tutti_op(77)})
    expect_error(tutti_op_free(&op), TUTTI_ERROR_OP, {std::to_string(op), "was freed, or never made"});
  tutti_op builtin = TUTTI_MAX;
  expect_error(tutti_op_free(&builtin), TUTTI_ERROR_OP, {"max is built in"});
}

TEST_F(Alone, OpArguments) {
  const tutti_op_function nothing = [](const void *, void *, std::size_t, void *) {};
  tutti_op op = TUTTI_SUM;
  expect_error(tutti_op_create(nullptr, 1, 8, nullptr, &op), TUTTI_ERROR_ARGUMENT, {"function is null"});
  EXPECT_EQ(op, TUTTI_OP_NULL);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{4097}})
    expect_error(tutti_op_create(nothing, 1, bytes, nullptr, &op), TUTTI_ERROR_ARGUMENT,
                 {"element_bytes is " + std::to_string(bytes), "1 to 4096"});
  expect_error(tutti_op_create(nothing, 1, 8, nullptr, nullptr), TUTTI_ERROR_ARGUMENT, {"op is null"});
  expect_error(tutti_op_create_premul_sum(nullptr, TUTTI_INT32, &op), TUTTI_ERROR_ARGUMENT, {"factor is null"});
  expect_error(tutti_op_create_premul_sum(&value_, TUTTI_INT32, nullptr), TUTTI_ERROR_ARGUMENT, {"op is null"});
  expect_error(tutti_op_free(nullptr), TUTTI_ERROR_ARGUMENT, {"op is null"});
}

TEST_F(Alone, Comm) {
  tutti_comm *freed = comm_;
  EXPECT_EQ(tutti_comm_free(&comm_), TUTTI_SUCCESS);
  EXPECT_EQ(comm_, nullptr);
  tutti_comm *reused = nullptr;  // takes the same slot
  EXPECT_EQ(tutti_init(nullptr, nullptr, &reused), TUTTI_SUCCESS);
  for (tutti_comm *bad : {static_cast<tutti_comm *>(nullptr), freed, reinterpret_cast<tutti_comm *>(&value_),
                          reinterpret_cast<tutti_comm *>(std::intptr_t{-1}), reinterpret_cast<tutti_comm *>(5)}) {
    std::int32_t number = 0;
    std::size_t bytes = 0;
    void *memory = nullptr;
    tutti_comm *copy = bad;
    const std::vector<std::string> parts = {"the communicator is null, freed"};
    expect_error(sum(bad, 1), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_broadcast(&value_, 1, TUTTI_INT32, 0, bad), TUTTI_ERROR_COMM, parts);
    const std::size_t one = 1;
    expect_error(tutti_barrier(bad), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_reduce(&value_, &result_, 1, TUTTI_INT32, TUTTI_SUM, 0, bad), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_reduce_scatter_block(&value_, &result_, 1, TUTTI_INT32, TUTTI_SUM, bad), TUTTI_ERROR_COMM,
                 parts);
    expect_error(tutti_reduce_scatter(&value_, &result_, &one, TUTTI_INT32, TUTTI_SUM, bad), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_scan(&value_, &result_, 1, TUTTI_INT32, TUTTI_SUM, bad), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_exscan(&value_, &result_, 1, TUTTI_INT32, TUTTI_SUM, bad), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_allgather(&value_, &result_, 1, TUTTI_INT32, bad), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_allgatherv(&value_, 1, &result_, &one, nullptr, TUTTI_INT32, bad), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_gather(&value_, &result_, 1, TUTTI_INT32, 0, bad), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_gatherv(&value_, 1, &result_, &one, nullptr, TUTTI_INT32, 0, bad), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_scatter(&value_, &result_, 1, TUTTI_INT32, 0, bad), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_scatterv(&value_, &one, nullptr, &result_, 1, TUTTI_INT32, 0, bad), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_alltoall(&value_, &result_, 1, TUTTI_INT32, bad), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_alltoallv(&value_, &one, nullptr, &result_, &one, nullptr, TUTTI_INT32, bad), TUTTI_ERROR_COMM,
                 parts);
    expect_error(tutti_comm_rank(bad, &number), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_comm_size(bad, &number), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_abort(bad), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_alloc(bad, 1, &memory), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_free(bad, nullptr), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_query(bad, "links", nullptr, &bytes), TUTTI_ERROR_COMM, parts);
    expect_error(tutti_comm_free(&copy), TUTTI_ERROR_COMM, parts);
  }
  EXPECT_EQ(sum(reused, 1), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_free(&reused), TUTTI_SUCCESS);
}

TEST_F(Alone, Memory) {
  void *memory = &value_;
  expect_error(tutti_alloc(comm_, std::size_t{1} << 46, &memory), TUTTI_ERROR_MEMORY,
               {std::to_string(std::size_t{1} << 46)});
  EXPECT_EQ(memory, nullptr);
}

TEST(Errors, Memory) {
  ThreadRanks ranks(2, {.variables = [](int rank) {
                      return rank == 1 ? Variables{{"TUTTI_SOFTDEV", "fault=create_srq:1:12"}} : Variables{};
                    }});
  expect_no_start(ranks, TUTTI_ERROR_MEMORY, {"shared receive queue"});
  expect_text(ranks[0].error, {"rank 1"});
}

TEST(Errors, ConfigValue) {
  for (const auto &[name, value] : Variables{{"TUTTI_PIN", "banana"},
                                             {"TUTTI_EAGER_BYTES", "1"},
                                             {"TUTTI_CREDITS", "many"},
                                             {"TUTTI_SOFTDEV", "nonsense"},
                                             {"TUTTI_ALGO", "allreduce:teleport"},
                                             {"TUTTI_INTERFACE", "no-such-net"}}) {
    ThreadRanks ranks(2, {.everywhere = {{name, value}}});
    expect_no_start(ranks, TUTTI_ERROR_CONFIG, {name, name == "TUTTI_ALGO" ? "teleport" : value});
  }
}

TEST(Errors, ConfigThatDiffersBetweenRanks) {
  ThreadRanks ranks(3, {.variables = [](int rank) {
                      return rank == 2 ? Variables{{"TUTTI_EAGER_BYTES", "2K"}} : Variables{};
                    }});
  expect_no_start(ranks, TUTTI_ERROR_CONFIG, {"rank 2", "rank 0", "TUTTI_EAGER_BYTES", "2048", "4096"});
}

TEST(Errors, Version) {
  // Every rank sees another version in the bytes of its neighbour.
  const auto edit = [](int rank, int round, char *all, std::size_t bytes_each) {
    if (round != 0) return;
    const std::string version = tutti_version();
    char *other = all + bytes_each * static_cast<std::size_t>(rank == 0 ? 1 : 0);
    char *found = static_cast<char *>(memmem(other, bytes_each, version.c_str(), version.size() + 1));
    ASSERT_NE(found, nullptr);
    std::memcpy(found, "9.9.9", 6);
  };
  ThreadRanks ranks(2, {.edit = edit});
  expect_no_start(ranks, TUTTI_ERROR_VERSION, {"rank 1", "9.9.9", tutti_version(), "one installation"});
}

TEST(Errors, Bootstrap) {
  tutti_bootstrap bootstrap = TUTTI_INIT_STRUCT(tutti_bootstrap);
  bootstrap.ranks = 2;
  bootstrap.allgather = [](void *, const void *, void *, std::size_t) { return std::int32_t{7}; };
  tutti_comm *comm = nullptr;
  expect_error(tutti_init(&bootstrap, nullptr, &comm), TUTTI_ERROR_BOOTSTRAP, {"allgather", "status 7"});
  EXPECT_EQ(comm, nullptr);
}

TEST(Errors, TimeoutNamesTheMissingRanks) {
  const Variables alone = {{"RANK", "0"},
                           {"WORLD_SIZE", "3"},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", "29571"},
                           {"TUTTI_JOB_KEY", "a key for tests only"}};
  for (const auto &[name, value] : alone) ::setenv(name.c_str(), value.c_str(), 1);
  tutti_comm *comm = nullptr;
  tutti_options options = TUTTI_INIT_STRUCT(tutti_options);
  options.timeout_ms = 300;
  expect_error(tutti_init(nullptr, &options, &comm), TUTTI_ERROR_TIMEOUT, {"ranks 1 and 2"});
  ::setenv("TUTTI_INIT_TIMEOUT", "1", 1);
  expect_error(tutti_init(nullptr, nullptr, &comm), TUTTI_ERROR_TIMEOUT, {"ranks 1 and 2"});
  ::unsetenv("TUTTI_INIT_TIMEOUT");
  for (const auto &[name, value] : alone) ::unsetenv(name.c_str());
}

TEST(Errors, DeviceNamedByTheUserIsMissing) {
  ThreadRanks by_variable(2, {.everywhere = {{"TUTTI_DEVICE", "mlx5_77"}}});
  expect_no_start(by_variable, TUTTI_ERROR_DEVICE, {"mlx5_77"});
  Start start;
  start.options.device = "rxe99";
  ThreadRanks by_option(2, start);
  expect_no_start(by_option, TUTTI_ERROR_DEVICE, {"rxe99"});
}

TEST(Errors, GidIndexThatDoesNotExist) {
  ThreadRanks ranks(2, {.everywhere = {{"TUTTI_DEVICE", "software"}, {"TUTTI_GID_INDEX", "9"}}});
  expect_no_start(ranks, TUTTI_ERROR_DEVICE, {"TUTTI_GID_INDEX=9"});
}

TEST(Errors, case_08_LimitOnAllRanks) {
  ThreadRanks ranks(8, {.everywhere = {{"TUTTI_SOFTDEV", "max_qp=5"}}});
  expect_no_start(ranks, TUTTI_ERROR_LIMIT, {"5 queue pairs", "TUTTI_DEVICE"});
}

TEST(Errors, ASendQueueOfOneCannotSend) {
  const Variables one = {{"TUTTI_SOFTDEV", "max_qp_wr=1"}};
  ThreadRanks ranks(2, {.everywhere = one});
  expect_no_start(ranks, TUTTI_ERROR_LIMIT, {"send queues of 1", "needs 2", "TUTTI_DEVICE"});
  ThreadRanks alone(1, {.everywhere = one});
  EXPECT_TRUE(alone.up()) << "who has no peer sends nothing: " << alone.errors();
}

TEST(Errors, UnsupportedByTheDevice) {
  ThreadRanks ranks(2, {.everywhere = {{"TUTTI_SOFTDEV", "srq=0"}}});
  expect_no_start(ranks, TUTTI_ERROR_UNSUPPORTED, {"no shared receive queues", "TUTTI_DEVICE"});
}

// Out of descriptors at any point of start-up: an error that says so, and nothing is leaked; with enough it works.
TEST_F(Alone, SystemWithoutDescriptors) {
  EXPECT_EQ(tutti_comm_free(&comm_), TUTTI_SUCCESS);  // sanitizers need a descriptor for classes not seen before
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  testing::internal::CaptureStderr();  // of the devices' own warnings; it holds a descriptor too
  const int first_free = ::dup(0);
  ::close(first_free);
  bool system = false, started = false;
  for (int spare = 0; spare < 64 && !started; ++spare) {
    const rlimit low = {static_cast<rlim_t>(first_free + spare), before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &low);
    tutti_comm *comm = nullptr;
    const tutti_result result = tutti_init(nullptr, nullptr, &comm);
    setrlimit(RLIMIT_NOFILE, &before);
    started = result == TUTTI_SUCCESS;
    if (started) {
      EXPECT_EQ(tutti_comm_free(&comm), TUTTI_SUCCESS);
    } else {
      EXPECT_EQ(comm, nullptr);
      EXPECT_NE(std::string(last_error().text), "") << spare;
      if (result == TUTTI_ERROR_SYSTEM) {
        system = true;
        EXPECT_EQ(last_error().sys_errno, EMFILE) << last_error().text;
      }
    }
    const int next = ::dup(0);
    ::close(next);
    ASSERT_EQ(next, first_free) << "a descriptor was leaked with " << spare << " to spare";
  }
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(started);
  EXPECT_TRUE(system);
}

TEST(Errors, LinkErrorsNameTheRankAndReachEverybody) {
  // The queue pair of rank 1's 40th work request breaks, in the middle of the calls. Rank 2's links are well.
  Start start = over_messages({{"TUTTI_RECONNECT_TIMEOUT", "0"}});
  start.variables = [](int rank) {
    return rank == 1 ? Variables{{"TUTTI_SOFTDEV", "fault=qp_error:40"}} : Variables{};
  };
  ThreadRanks ranks(3, start);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  std::atomic<int> link_errors = 0;
  ranks.each([&](int rank, tutti_comm *comm) {
    const tutti_error error = error_of_calls(comm);
    if (error.result == TUTTI_ERROR_LINK) {
      ++link_errors;
      expect_text(error, {"rank " + std::to_string(error.peer)});
    } else {
      EXPECT_EQ(error.result, TUTTI_ERROR_PEER) << "rank " << rank << ": " << error.text;
      expect_text(error, {"cannot go on", "rank"});
    }
    EXPECT_NE(error.peer, rank);
    EXPECT_EQ(sum(comm, 1), error.result) << "later calls fail at once";
  });
  EXPECT_GE(link_errors, 1);
}

TEST(Errors, AbortedHereAndAPeerGoneThere) {
  ThreadRanks ranks(3);
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  std::atomic<bool> waiting = false;
  std::thread other([&] {
    while (!waiting) std::this_thread::yield();
    EXPECT_EQ(tutti_abort(ranks[1].comm), TUTTI_SUCCESS);
  });
  ranks.each([&](int rank, tutti_comm *comm) {
    EXPECT_EQ(sum(comm, 1), TUTTI_SUCCESS);
    if (rank == 0) return;  // the others wait for rank 0
    if (rank == 1) waiting = true;
    const tutti_error error = error_of_calls(comm);
    EXPECT_EQ(error.result, rank == 1 ? TUTTI_ERROR_ABORTED : TUTTI_ERROR_PEER) << error.text;
    if (rank == 1) expect_text(error, {"tutti_abort was called"});
    if (rank == 2) {
      EXPECT_EQ(error.peer, 1);
      expect_text(error, {"rank 1 is gone", "tutti_abort"});
    }
  });
  other.join();
  EXPECT_EQ(error_of_calls(ranks[0].comm).result, TUTTI_ERROR_PEER);
  EXPECT_EQ(sum(ranks[1].comm, 1), TUTTI_ERROR_ABORTED) << "also at once, at a later call";
}

// Whoever comes first: an abort finds the world whole, or finds none.
TEST(Abort, MayComeWhileTheWorldIsFreed) {
  for (int round = 0; round < 100; ++round) {
    tutti_comm *comm = nullptr;
    ASSERT_EQ(tutti_init(nullptr, nullptr, &comm), TUTTI_SUCCESS) << last_error().text;
    tutti_comm *const handle = comm;
    std::atomic<bool> aborting = false;
    std::thread other([&] {
      tutti_result result = TUTTI_SUCCESS;
      while (result == TUTTI_SUCCESS) {
        result = tutti_abort(handle);
        aborting = true;
      }
      EXPECT_EQ(result, TUTTI_ERROR_COMM) << last_error().text;
    });
    while (round % 2 == 0 && !aborting) std::this_thread::yield();
    const tutti_result freed = tutti_comm_free(&comm);
    EXPECT_TRUE(freed == TUTTI_SUCCESS || freed == TUTTI_ERROR_ABORTED) << last_error().text;
    other.join();
  }
}

TEST(Abort, EndsAFreeThatWaitsForOthers) {
  ThreadRanks ranks(2, over_messages());  // or rank 1 may see that rank 0 frees before it hears of the abort
  ASSERT_TRUE(ranks.up()) << ranks.errors();
  tutti_comm *const handle = ranks[0].comm;
  std::thread freeing([&] {
    EXPECT_EQ(tutti_comm_free(&ranks[0].comm), TUTTI_ERROR_ABORTED);
    EXPECT_EQ(ranks[0].comm, nullptr);
  });
  std::int32_t size = 0;
  while (tutti_comm_size(handle, &size) == TUTTI_SUCCESS) std::this_thread::yield();  // the free has begun
  EXPECT_EQ(tutti_abort(handle), TUTTI_SUCCESS);
  freeing.join();
  EXPECT_EQ(tutti_abort(handle), TUTTI_ERROR_COMM);
  EXPECT_EQ(error_of_calls(ranks[1].comm).result, TUTTI_ERROR_PEER);
}

}  // namespace
}  // namespace tutti::test
