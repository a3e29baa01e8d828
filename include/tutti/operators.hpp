// SPDX-License-Identifier: BSD-3-Clause
//
// Operators for C++20, built in and made by the program: part of tutti.hpp, which includes it.
#ifndef TUTTI_OPERATORS_HPP
#define TUTTI_OPERATORS_HPP

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "tutti/elements.hpp"
#include "tutti/error.hpp"

namespace tutti {
inline namespace v0 {

// An operator that this program made. Move-only; frees it. Calls under way are not disturbed.
class MadeOp {
 public:
  MadeOp(MadeOp &&other) noexcept
      : op_(std::exchange(other.op_, tutti_op{TUTTI_OP_NULL})), function_(std::move(other.function_)) {}
  MadeOp &operator=(MadeOp &&other) noexcept {
    std::swap(op_, other.op_);
    function_.swap(other.function_);
    return *this;
  }
  MadeOp(const MadeOp &) = delete;
  MadeOp &operator=(const MadeOp &) = delete;
  ~MadeOp() {
    if (op_ != TUTTI_OP_NULL) static_cast<void>(tutti_op_free(&op_));
  }
  tutti_op c() const noexcept { return op_; }

 protected:
  MadeOp() = default;
  tutti_op op_ = TUTTI_OP_NULL;
  std::shared_ptr<void> function_;  // what the library calls
};

// The sum of elements that each rank multiplied by its own factor first.
template <class T>
requires(type_of<T> >= 0) class PremulSum : public MadeOp {
 public:
  explicit PremulSum(const T &factor) { detail::check(tutti_op_create_premul_sum(&factor, type_of<T>, &op_)); }
};

// A function of two elements of T as an operator.
template <class T>
class UserOp : public MadeOp {
 public:
  static_assert(std::is_trivially_copyable_v<T>, "elements travel as bytes");
  template <class Function>
  UserOp(Function function, bool commutative) {
    function_ = std::make_shared<Function>(std::move(function));
    const tutti_op_function each = [](const void *in, void *in_out, std::size_t count, void *user) {
      const T *left = static_cast<const T *>(in);
      T *right = static_cast<T *>(in_out);
      Function &combine = *static_cast<Function *>(user);
      for (std::size_t i = 0; i < count; ++i) right[i] = combine(left[i], right[i]);
    };
    detail::check(tutti_op_create(each, commutative ? 1 : 0, sizeof(T), function_.get(), &op_));
  }
};

enum class Commutes : bool { no, yes };

// combine(a, b), where a comes from lower ranks; it has to be associative, and must not throw.
template <class T, class Function>
requires std::is_invocable_r_v<T, Function &, const T &, const T &>
[[nodiscard]] UserOp<T> make_op(Function combine, Commutes commutes) {
  return UserOp<T>(std::move(combine), commutes == Commutes::yes);
}

// An operator on elements of T, as calls take it: a built-in one, where T is a type of Tutti's, or one that this
// program made.
template <class T>
class OpOn {
 public:
  OpOn(Op op) noexcept requires(type_of<T> >= 0) : op_(static_cast<tutti_op>(op)) {}  // NOLINT: made to be implicit
  template <class U>
  OpOn(const PremulSum<U> &op) noexcept requires std::same_as<U, T> : op_(op.c()) {}  // NOLINT
  OpOn(const UserOp<T> &op) noexcept : type_(TUTTI_OP_ELEMENT), op_(op.c()) {}        // NOLINT
  tutti_type type() const noexcept { return type_; }
  tutti_op c() const noexcept { return op_; }

 private:
  tutti_type type_ = type_of<T>;
  tutti_op op_;
};

}  // namespace v0
}  // namespace tutti
#endif
