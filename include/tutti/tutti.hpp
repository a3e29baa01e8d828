// SPDX-License-Identifier: BSD-3-Clause
//
// Tutti for C++20: header-only, over the C interface of tutti.h, so that no C++ type crosses the library's boundary.
//
//   tutti::Comm world = tutti::Comm::world();
//   std::vector<float> gradient = ...;
//   world.allreduce(gradient);              // in place, sum
//   world.allreduce(in, out, tutti::Op::max);
//   world.broadcast(weights, 0);
//
// Errors are thrown as tutti::Error, which carries the tutti_error. Any contiguous range of an arithmetic type is a
// buffer: vector, array, span, C array. Threads: as in tutti.h, one at a time per world unless Options::threads.
#ifndef TUTTI_TUTTI_HPP
#define TUTTI_TUTTI_HPP

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "tutti/tutti.h"

namespace tutti {
// Part of the names that the linker sees, so that programs built against different versions of this header, and the
// library's own types of the same names, never mix.
inline namespace v0 {

enum class Op : tutti_op { sum = TUTTI_SUM, prod = TUTTI_PROD, min = TUTTI_MIN, max = TUTTI_MAX };

namespace detail {

template <class T>
consteval tutti_type integer_type() {
  switch (sizeof(T)) {
    case 1: return std::is_signed_v<T> ? TUTTI_INT8 : TUTTI_UINT8;
    case 2: return std::is_signed_v<T> ? TUTTI_INT16 : TUTTI_UINT16;
    case 4: return std::is_signed_v<T> ? TUTTI_INT32 : TUTTI_UINT32;
    case 8: return std::is_signed_v<T> ? TUTTI_INT64 : TUTTI_UINT64;
    default: return -1;
  }
}

template <class T>
consteval tutti_type type_of() {
  // bool and the character types have a size but no arithmetic of their own; plain char is taken as the 8-bit integer
  // that it is on this machine.
  if constexpr (std::is_same_v<T, float>) return TUTTI_FLOAT;
  else if constexpr (std::is_same_v<T, double>) return TUTTI_DOUBLE;
  else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, wchar_t> || std::is_same_v<T, char8_t> ||
                     std::is_same_v<T, char16_t> || std::is_same_v<T, char32_t>)
    return -1;
  else if constexpr (std::is_integral_v<T>) return integer_type<T>();
  else return -1;
}

}  // namespace detail

// The element type of T, or -1 if Tutti has none.
template <class T>
inline constexpr tutti_type type_of = detail::type_of<std::remove_cv_t<T>>();

// What a collective reads.
template <class R>
concept Buffer =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && type_of<std::ranges::range_value_t<R>>
>= 0;

// What a collective writes: elements can be assigned, and a temporary must be a view (a span), or the result would be
// lost with it.
template <class R>
concept OutputBuffer = Buffer<R> && std::ranges::borrowed_range<R> &&
    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

class Error : public std::runtime_error {
 public:
  explicit Error(const tutti_error &error) : std::runtime_error(error.text), error_(error) {}

  tutti_result code() const noexcept { return error_.result; }
  int peer() const noexcept { return error_.peer; }  // rank concerned, or -1
  const tutti_error &details() const noexcept { return error_; }

 private:
  tutti_error error_;
};

namespace detail {

[[noreturn]] inline void raise(tutti_result result) {
  tutti_error error = {};
  error.size = sizeof(error);
  error.peer = error.wc_status = -1;
  if (tutti_last_error(&error) != TUTTI_SUCCESS || error.result != result || error.text[0] == '\0') {
    const std::string name = tutti_result_name(result);
    error.result = result;
    error.text[name.copy(error.text, sizeof(error.text) - 1)] = '\0';
  }
  throw Error(error);
}

[[noreturn]] inline void raise(tutti_result result, const std::string &text) {
  tutti_error error = {};
  error.size = sizeof(error);
  error.result = result;
  error.peer = error.wc_status = -1;
  error.text[text.copy(error.text, sizeof(error.text) - 1)] = '\0';
  throw Error(error);
}

inline void check(tutti_result result) {
  if (result != TUTTI_SUCCESS) [[unlikely]]
    raise(result);
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
  template <Buffer In, OutputBuffer Out>
  requires std::same_as<std::ranges::range_value_t<In>, std::ranges::range_value_t<Out>>
  void allreduce(const In &in, Out &&out, Op op = Op::sum) {
    const std::size_t count = std::ranges::size(in), room = std::ranges::size(out);
    if (count != room)
      detail::raise(TUTTI_ERROR_ARGUMENT, "allreduce: input has " + std::to_string(count) + " elements, output has " +
                                              std::to_string(room) + "; they must be equal");
    detail::check(tutti_allreduce(std::ranges::data(in), std::ranges::data(out), count,
                                  type_of<std::ranges::range_value_t<In>>, static_cast<tutti_op>(op), comm_));
  }
  template <OutputBuffer InOut>
  void allreduce(InOut &&in_out, Op op = Op::sum) {
    detail::check(tutti_allreduce(TUTTI_IN_PLACE, std::ranges::data(in_out), std::ranges::size(in_out),
                                  type_of<std::ranges::range_value_t<InOut>>, static_cast<tutti_op>(op), comm_));
  }

  // The root's elements to all; every rank's buffer has the same number of elements.
  template <OutputBuffer B>
  void broadcast(B &&buffer, int root = 0) {
    detail::check(tutti_broadcast(std::ranges::data(buffer), std::ranges::size(buffer),
                                  type_of<std::ranges::range_value_t<B>>, root, comm_));
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
