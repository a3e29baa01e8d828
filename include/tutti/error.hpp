// SPDX-License-Identifier: BSD-3-Clause
//
// Errors of the C interface as exceptions: part of tutti.hpp, which includes it.
#ifndef TUTTI_ERROR_HPP
#define TUTTI_ERROR_HPP

#include <stdexcept>
#include <string>

#include "tutti/tutti.h"

namespace tutti {
inline namespace v0 {

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

}  // namespace v0
}  // namespace tutti
#endif
