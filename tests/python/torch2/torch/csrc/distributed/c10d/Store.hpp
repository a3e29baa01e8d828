// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/custom_class.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace c10d {

class Store : public torch::CustomClassHolder {
 public:
  static constexpr std::chrono::milliseconds kNoTimeout{0};
  void set(const std::string &key, const std::string &value);
  virtual void set(const std::string &key, const std::vector<std::uint8_t> &value) = 0;
  virtual std::vector<std::uint8_t> get(const std::string &key) = 0;
  virtual std::int64_t add(const std::string &key, std::int64_t value) = 0;
  virtual bool check(const std::vector<std::string> &keys) = 0;
  virtual void wait(const std::vector<std::string> &keys) = 0;
  virtual void wait(const std::vector<std::string> &keys, const std::chrono::milliseconds &timeout) = 0;
};

}  // namespace c10d
