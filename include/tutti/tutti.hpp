// SPDX-License-Identifier: BSD-3-Clause
//
// Tutti for C++20: header-only, over the C interface of tutti.h, so that no C++ type crosses the library's boundary.
//
//   tutti::Comm world = tutti::Comm::world();
//   std::vector<float> gradient = ...;
//   world.allreduce(gradient);              // in place, sum
//   world.allreduce(in, out, tutti::Op::max);
//   world.broadcast(weights, 0);
//   tutti::Request sum = world.iallreduce(gradient);  // started; sum.wait() ends it
//   std::optional<tutti::Comm> row = world.split(world.rank() / 4);
//
//   world.allreduce(quaternions, tutti::make_op<Quaternion>(std::multiplies<>(), tutti::Commutes::no));
//
// Errors are thrown as tutti::Error, which carries the tutti_error. Any contiguous range of an element type is a
// buffer: vector, array, span, C array. Element types are numbers, std::complex, bool, std::byte, 16-bit floats and
// ValueIndex; with an operator of make_op, any trivially copyable type. Threads: as in tutti.h, one at a time per world
// unless Options::threads.
#ifndef TUTTI_TUTTI_HPP
#define TUTTI_TUTTI_HPP

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "tutti/elements.hpp"
#include "tutti/error.hpp"
#include "tutti/operators.hpp"
#include "tutti/request.hpp"
#include "tutti/tutti.h"

namespace tutti {
// Part of the names that the linker sees, so that programs built against different versions of this header, and the
// library's own types of the same names, never mix.
inline namespace v0 {

namespace detail {

template <class In, class Out>
concept SameElements = std::same_as<std::ranges::range_value_t<In>, std::ranges::range_value_t<Out>>;
template <class R>
inline constexpr tutti_type element = tutti::type_of<std::ranges::range_value_t<R>>;
template <class R>
using OpOnElements = OpOn<std::ranges::range_value_t<R>>;

// What goes in and what comes out, in elements, blocks multiplied.
inline void equal_sizes(const char *function, std::size_t in, std::size_t out) {
  if (in != out)
    raise(TUTTI_ERROR_ARGUMENT, std::string(function) + ": input has " + std::to_string(in) + " elements, output has " +
                                    std::to_string(out) + "; they must be equal");
}
// One count for each rank; their sum.
inline std::size_t total(const char *function, std::span<const std::size_t> counts, std::size_t ranks) {
  if (counts.size() != ranks)
    raise(TUTTI_ERROR_ARGUMENT, std::string(function) + ": there are " + std::to_string(counts.size()) +
                                    " counts for " + std::to_string(ranks) + " ranks");
  std::size_t sum = 0;
  for (const std::size_t count : counts) sum += count;
  return sum;
}

}  // namespace detail

struct Options {
  bool threads = false;          // calls may come from several threads
  std::int32_t timeout_ms = 0;   // start-up deadline; 0: TUTTI_INIT_TIMEOUT
  const char *device = nullptr;  // as TUTTI_DEVICE, which it overrides

  tutti_options c() const noexcept {
    tutti_options options = {};
    options.size = sizeof(options);
    options.threads = threads ? 1 : 0;
    options.timeout_ms = timeout_ms;
    options.device = device;
    return options;
  }
};

// Memory that transfers best, zero-length included. Move-only; must go before its world.
template <class T>
class Memory {
 public:
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

  Memory() = default;
  Memory(tutti_comm *comm, std::size_t count) : comm_(comm), count_(count) {
    if (count > SIZE_MAX / sizeof(T)) detail::raise(TUTTI_ERROR_ARGUMENT, "more elements than an address space holds");
    void *memory = nullptr;
    detail::check(tutti_alloc(comm, count * sizeof(T), &memory));
    data_ = static_cast<T *>(memory);
    std::uninitialized_value_construct_n(data_, count);
  }
  Memory(Memory &&other) noexcept { swap(other); }
  Memory &operator=(Memory &&other) noexcept {
    Memory(std::move(other)).swap(*this);
    return *this;
  }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  // A destructor has nobody to tell: the library logs what went wrong.
  ~Memory() {
    if (data_ != nullptr) static_cast<void>(tutti_free(comm_, data_));
  }

  T *data() noexcept { return data_; }
  const T *data() const noexcept { return data_; }
  std::size_t size() const noexcept { return count_; }
  T *begin() noexcept { return data_; }
  T *end() noexcept { return data_ + count_; }
  const T *begin() const noexcept { return data_; }
  const T *end() const noexcept { return data_ + count_; }
  T &operator[](std::size_t i) noexcept { return data_[i]; }
  const T &operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  void swap(Memory &other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
  }

  tutti_comm *comm_ = nullptr;
  T *data_ = nullptr;
  std::size_t count_ = 0;
};

// A communicator. Move-only. Its destructor frees it, which is collective: all ranks have to destroy theirs. When an
// exception unwinds it, this rank leaves instead (tutti_abort), so that the others get an error and nobody waits.
class Comm {
 public:
  // Ranks meet by the environment (tutti-run, torchrun), or by a bootstrap of the caller's.
  static Comm world(const Options &options = {}) { return make(nullptr, options); }
  static Comm world(const tutti_bootstrap &bootstrap, const Options &options = {}) { return make(&bootstrap, options); }
  // Takes over what the C interface made, as tutti_init_mpi does.
  static Comm adopt(tutti_comm *comm) { return Comm(comm); }

  Comm(Comm &&other) noexcept
      : comm_(std::exchange(other.comm_, nullptr)),
        rank_(other.rank_),
        size_(other.size_),
        unwinding_(other.unwinding_) {}
  Comm &operator=(Comm &&other) noexcept {
    if (this != &other) {
      release();
      comm_ = std::exchange(other.comm_, nullptr);
      rank_ = other.rank_;
      size_ = other.size_;
      unwinding_ = other.unwinding_;
    }
    return *this;
  }
  Comm(const Comm &) = delete;
  Comm &operator=(const Comm &) = delete;
  ~Comm() { release(); }

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  tutti_comm *c() const noexcept { return comm_; }

  // out[i] = in of all ranks combined, element by element. Both have the same number of elements of one type.
  template <ReductionBuffer In, ReductionOutput Out>
  requires detail::SameElements<In, Out>
  void allreduce(const In &in, Out &&out, detail::OpOnElements<In> op = Op::sum) {
    detail::equal_sizes("allreduce", std::ranges::size(in), std::ranges::size(out));
    detail::check(tutti_allreduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), op.type(),
                                  op.c(), comm_));
  }
  template <ReductionOutput InOut>
  void allreduce(InOut &&in_out, detail::OpOnElements<InOut> op = Op::sum) {
    detail::check(tutti_allreduce(TUTTI_IN_PLACE, std::ranges::data(in_out), std::ranges::size(in_out), op.type(),
                                  op.c(), comm_));
  }

  // The root's elements to all; every rank's buffer has the same number of elements.
  template <OutputBuffer B>
  void broadcast(B &&buffer, int root = 0) {
    detail::check(tutti_broadcast(std::ranges::data(buffer), std::ranges::size(buffer),
                                  type_of<std::ranges::range_value_t<B>>, root, comm_));
  }

  // Returns when all ranks have called it.
  void barrier() { detail::check(tutti_barrier(comm_)); }

  // As allreduce, but the root alone has the result; elsewhere out is not looked at, and may be empty.
  template <ReductionBuffer In, ReductionOutput Out>
  requires detail::SameElements<In, Out>
  void reduce(const In &in, Out &&out, detail::OpOnElements<In> op = Op::sum, int root = 0) {
    if (rank_ == root) detail::equal_sizes("reduce", std::ranges::size(in), std::ranges::size(out));
    detail::check(tutti_reduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), op.type(), op.c(),
                               root, comm_));
  }

  // Rank r gets block r of the result: in has size() blocks of as many elements as out has.
  template <ReductionBuffer In, ReductionOutput Out>
  requires detail::SameElements<In, Out>
  void reduce_scatter(const In &in, Out &&out, detail::OpOnElements<In> op = Op::sum) {
    detail::equal_sizes("reduce_scatter", std::ranges::size(in), std::ranges::size(out) * ranks());
    detail::check(tutti_reduce_scatter_block(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out),
                                             op.type(), op.c(), comm_));
  }
  // The same with blocks of counts[r] elements.
  template <ReductionBuffer In, ReductionOutput Out>
  requires detail::SameElements<In, Out>
  void reduce_scatter(const In &in, Out &&out, std::span<const std::size_t> counts,
                      detail::OpOnElements<In> op = Op::sum) {
    const std::size_t all = detail::total("reduce_scatter", counts, ranks());
    detail::equal_sizes("reduce_scatter", std::ranges::size(in), all);
    detail::equal_sizes("reduce_scatter", counts[own()], std::ranges::size(out));
    detail::check(
        tutti_reduce_scatter(std::ranges::data(in), std::ranges::data(out), counts.data(), op.type(), op.c(), comm_));
  }

  // out = what ranks up to this one put in, combined; exscan: those before it (rank 0's out stays as it is).
  template <ReductionBuffer In, ReductionOutput Out>
  requires detail::SameElements<In, Out>
  void scan(const In &in, Out &&out, detail::OpOnElements<In> op = Op::sum) {
    detail::equal_sizes("scan", std::ranges::size(in), std::ranges::size(out));
    detail::check(
        tutti_scan(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), op.type(), op.c(), comm_));
  }
  template <ReductionBuffer In, ReductionOutput Out>
  requires detail::SameElements<In, Out>
  void exscan(const In &in, Out &&out, detail::OpOnElements<In> op = Op::sum) {
    detail::equal_sizes("exscan", std::ranges::size(in), std::ranges::size(out));
    detail::check(
        tutti_exscan(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), op.type(), op.c(), comm_));
  }

  // out = in of rank 0, of rank 1, ... on every rank; gather: on the root, elsewhere out may be empty.
  template <Buffer In, OutputBuffer Out>
  requires detail::SameElements<In, Out>
  void allgather(const In &in, Out &&out) {
    detail::equal_sizes("allgather", std::ranges::size(in) * ranks(), std::ranges::size(out));
    detail::check(tutti_allgather(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in),
                                  detail::element<In>, comm_));
  }
  template <Buffer In, OutputBuffer Out>
  requires detail::SameElements<In, Out>
  void gather(const In &in, Out &&out, int root = 0) {
    if (rank_ == root) detail::equal_sizes("gather", std::ranges::size(in) * ranks(), std::ranges::size(out));
    detail::check(tutti_gather(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in),
                               detail::element<In>, root, comm_));
  }
  // Block r of the root's in to rank r; elsewhere in may be empty.
  template <Buffer In, OutputBuffer Out>
  requires detail::SameElements<In, Out>
  void scatter(const In &in, Out &&out, int root = 0) {
    if (rank_ == root) detail::equal_sizes("scatter", std::ranges::size(in), std::ranges::size(out) * ranks());
    detail::check(tutti_scatter(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out),
                                detail::element<In>, root, comm_));
  }
  // Block r of in to rank r, whose out has it as block rank().
  template <Buffer In, OutputBuffer Out>
  requires detail::SameElements<In, Out>
  void alltoall(const In &in, Out &&out) {
    detail::equal_sizes("alltoall", std::ranges::size(in), std::ranges::size(out));
    const std::size_t count = std::ranges::size(in) / ranks();
    detail::equal_sizes("alltoall", std::ranges::size(in), count * ranks());
    detail::check(tutti_alltoall(std::ranges::data(in), std::ranges::data(out), count, detail::element<In>, comm_));
  }

  // The same with counts[r] elements from rank r, one after the other; where they lie elsewhere: tutti.h.
  template <Buffer In, OutputBuffer Out>
  requires detail::SameElements<In, Out>
  void allgatherv(const In &in, Out &&out, std::span<const std::size_t> counts) {
    detail::equal_sizes("allgatherv", detail::total("allgatherv", counts, ranks()), std::ranges::size(out));
    detail::check(tutti_allgatherv(std::ranges::data(in), std::ranges::size(in), std::ranges::data(out), counts.data(),
                                   nullptr, detail::element<In>, comm_));
  }
  template <Buffer In, OutputBuffer Out>
  requires detail::SameElements<In, Out>
  void gatherv(const In &in, Out &&out, std::span<const std::size_t> counts, int root = 0) {
    if (rank_ == root)
      detail::equal_sizes("gatherv", detail::total("gatherv", counts, ranks()), std::ranges::size(out));
    detail::check(tutti_gatherv(std::ranges::data(in), std::ranges::size(in), std::ranges::data(out), counts.data(),
                                nullptr, detail::element<In>, root, comm_));
  }
  template <Buffer In, OutputBuffer Out>
  requires detail::SameElements<In, Out>
  void scatterv(const In &in, std::span<const std::size_t> counts, Out &&out, int root = 0) {
    if (rank_ == root)
      detail::equal_sizes("scatterv", std::ranges::size(in), detail::total("scatterv", counts, ranks()));
    detail::check(tutti_scatterv(std::ranges::data(in), counts.data(), nullptr, std::ranges::data(out),
                                 std::ranges::size(out), detail::element<In>, root, comm_));
  }
  template <Buffer In, OutputBuffer Out>
  requires detail::SameElements<In, Out>
  void alltoallv(const In &in, std::span<const std::size_t> in_counts, Out &&out,
                 std::span<const std::size_t> out_counts) {
    detail::equal_sizes("alltoallv", std::ranges::size(in), detail::total("alltoallv", in_counts, ranks()));
    detail::equal_sizes("alltoallv", detail::total("alltoallv", out_counts, ranks()), std::ranges::size(out));
    detail::check(tutti_alltoallv(std::ranges::data(in), in_counts.data(), nullptr, std::ranges::data(out),
                                  out_counts.data(), nullptr, detail::element<In>, comm_));
  }

  // Started only: as the calls above, and as tutti_iallreduce and its like. What is started is waited for by its
  // request.
  template <ReductionBuffer In, ReductionOutput Out>
  requires detail::SameElements<In, Out> Request iallreduce(const In &in, Out &&out,
                                                            detail::OpOnElements<In> op = Op::sum) {
    detail::equal_sizes("iallreduce", std::ranges::size(in), std::ranges::size(out));
    return start([&](tutti_request **request) {
      return tutti_iallreduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), op.type(), op.c(),
                              comm_, request);
    });
  }
  template <ReductionOutput InOut>
  Request iallreduce(InOut &&in_out, detail::OpOnElements<InOut> op = Op::sum) {
    return start([&](tutti_request **request) {
      return tutti_iallreduce(TUTTI_IN_PLACE, std::ranges::data(in_out), std::ranges::size(in_out), op.type(), op.c(),
                              comm_, request);
    });
  }
  template <OutputBuffer B>
  Request ibroadcast(B &&buffer, int root = 0) {
    return start([&](tutti_request **request) {
      return tutti_ibroadcast(std::ranges::data(buffer), std::ranges::size(buffer), detail::element<B>, root, comm_,
                              request);
    });
  }
  Request ibarrier() {
    return start([&](tutti_request **request) { return tutti_ibarrier(comm_, request); });
  }
  template <ReductionBuffer In, ReductionOutput Out>
  requires detail::SameElements<In, Out> Request ireduce(const In &in, Out &&out, detail::OpOnElements<In> op = Op::sum,
                                                         int root = 0) {
    if (rank_ == root) detail::equal_sizes("ireduce", std::ranges::size(in), std::ranges::size(out));
    return start([&](tutti_request **request) {
      return tutti_ireduce(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), op.type(), op.c(),
                           root, comm_, request);
    });
  }
  template <ReductionBuffer In, ReductionOutput Out>
  requires detail::SameElements<In, Out> Request ireduce_scatter(const In &in, Out &&out,
                                                                 detail::OpOnElements<In> op = Op::sum) {
    detail::equal_sizes("ireduce_scatter", std::ranges::size(in), std::ranges::size(out) * ranks());
    return start([&](tutti_request **request) {
      return tutti_ireduce_scatter_block(std::ranges::data(in), std::ranges::data(out), std::ranges::size(out),
                                         op.type(), op.c(), comm_, request);
    });
  }
  template <Buffer In, OutputBuffer Out>
  requires detail::SameElements<In, Out> Request iallgather(const In &in, Out &&out) {
    detail::equal_sizes("iallgather", std::ranges::size(in) * ranks(), std::ranges::size(out));
    return start([&](tutti_request **request) {
      return tutti_iallgather(std::ranges::data(in), std::ranges::data(out), std::ranges::size(in), detail::element<In>,
                              comm_, request);
    });
  }
  template <Buffer In, OutputBuffer Out>
  requires detail::SameElements<In, Out> Request ialltoall(const In &in, Out &&out) {
    detail::equal_sizes("ialltoall", std::ranges::size(in), std::ranges::size(out));
    const std::size_t count = std::ranges::size(in) / ranks();
    detail::equal_sizes("ialltoall", std::ranges::size(in), count * ranks());
    return start([&](tutti_request **request) {
      return tutti_ialltoall(std::ranges::data(in), std::ranges::data(out), count, detail::element<In>, comm_, request);
    });
  }
  // Any other collective, or with an algorithm of its own, by its struct: once, started, and to be started again.
  void run(const tutti_call &call) { detail::check(tutti_run_call(&call, comm_)); }
  Request start(const tutti_call &call) {
    return start([&](tutti_request **request) { return tutti_start_call(&call, comm_, request); });
  }
  Persistent init(const tutti_call &call) {
    Persistent made;
    detail::check(tutti_call_init(&call, comm_, &made.request_));
    return made;
  }

  // Point-to-point, as in tutti.h: tags are 0 or more.
  template <Buffer B>
  void send(const B &data, int to, int tag = 0) {
    detail::check(
        tutti_send(std::ranges::data(data), std::ranges::size(data), detail::element<const B>, to, tag, comm_));
  }
  template <OutputBuffer B>
  Status recv(B &&buffer, int from = TUTTI_ANY_SOURCE, int tag = TUTTI_ANY_TAG) {
    tutti_status status = {};
    detail::check(tutti_recv(std::ranges::data(buffer), std::ranges::size(buffer), detail::element<B>, from, tag, comm_,
                             &status));
    return {status.source, status.tag, static_cast<std::size_t>(status.bytes)};
  }
  template <Buffer B>
  Request isend(const B &data, int to, int tag = 0) {
    return start([&](tutti_request **request) {
      return tutti_isend(std::ranges::data(data), std::ranges::size(data), detail::element<const B>, to, tag, comm_,
                         request);
    });
  }
  template <OutputBuffer B>
  Request irecv(B &&buffer, int from = TUTTI_ANY_SOURCE, int tag = TUTTI_ANY_TAG) {
    return start([&](tutti_request **request) {
      return tutti_irecv(std::ranges::data(buffer), std::ranges::size(buffer), detail::element<B>, from, tag, comm_,
                         request);
    });
  }
  Status probe(int from = TUTTI_ANY_SOURCE, int tag = TUTTI_ANY_TAG) {
    tutti_status status = {};
    detail::check(tutti_probe(from, tag, comm_, &status));
    return {status.source, status.tag, static_cast<std::size_t>(status.bytes)};
  }

  // Communicators of some of these ranks: collective, as in tutti.h. None where this rank is not in it.
  std::optional<Comm> split(int colour, int key = 0) {
    tutti_comm *made = nullptr;
    detail::check(tutti_comm_split(comm_, colour, key, &made));
    return optional(made);
  }
  std::optional<Comm> create(std::span<const std::int32_t> ranks) {
    tutti_comm *made = nullptr;
    detail::check(tutti_comm_create(comm_, ranks.size(), ranks.data(), &made));
    return optional(made);
  }
  Comm dup() {
    tutti_comm *made = nullptr;
    detail::check(tutti_comm_dup(comm_, &made));
    return Comm(made);
  }

  // "allreduce:ring,broadcast:table": of calls to come; alike on all ranks.
  void set_algorithms(const std::string &algorithms) {
    detail::check(tutti_comm_set_algorithms(comm_, algorithms.c_str()));
  }

  template <class T>
  [[nodiscard]] Memory<T> alloc(std::size_t count) {
    return Memory<T>(comm_, count);
  }

  // Ends all traffic here and now; from any thread, never blocks.
  void abort() { detail::check(tutti_abort(comm_)); }
  // What the destructor does, but with errors told. Collective.
  void free() {
    detail::check(tutti_comm_free(&comm_));
    comm_ = nullptr;
  }

 private:
  std::size_t ranks() const noexcept { return static_cast<std::size_t>(size_); }
  std::size_t own() const noexcept { return static_cast<std::size_t>(rank_); }
  static std::optional<Comm> optional(tutti_comm *made) {
    if (made == nullptr) return std::nullopt;
    return Comm(made);
  }
  template <class Call>
  Request start(const Call &call) {
    Request started(comm_);
    detail::check(call(&started.request_));
    return started;
  }
  explicit Comm(tutti_comm *comm) : comm_(comm) {
    detail::check(tutti_comm_rank(comm, &rank_));
    detail::check(tutti_comm_size(comm, &size_));
  }
  static Comm make(const tutti_bootstrap *bootstrap, const Options &options) {
    const tutti_options c = options.c();
    tutti_comm *comm = nullptr;
    detail::check(tutti_init(bootstrap, &c, &comm));
    return Comm(comm);
  }
  void release() noexcept {
    if (comm_ == nullptr) return;
    if (std::uncaught_exceptions() > unwinding_) static_cast<void>(tutti_abort(comm_));
    static_cast<void>(tutti_comm_free(&comm_));
    comm_ = nullptr;
  }

  tutti_comm *comm_ = nullptr;
  std::int32_t rank_ = 0, size_ = 0;
  int unwinding_ = std::uncaught_exceptions();
};

inline const char *version() { return tutti_version(); }

}  // namespace v0
}  // namespace tutti

#endif
