// SPDX-License-Identifier: BSD-3-Clause
#include "tutti-info/documents.h"

#include <string>

#include "tutti/tutti.h"

namespace tutti::info {
namespace {

Json failure(tutti_result result) {
  tutti_error error = {};
  error.size = sizeof(error);
  const bool told = tutti_last_error(&error) == TUTTI_SUCCESS && error.text[0] != '\0';
  return {{"error", told ? std::string(error.text) : std::string(tutti_result_name(result))}};
}

}  // namespace

Json describe(const char *what) {
  std::string text;
  std::size_t bytes = 0;
  tutti_result result = tutti_describe(what, nullptr, &bytes);
  // Devices come and go: what fitted a moment ago may not fit now.
  while (result == TUTTI_SUCCESS && bytes > text.size()) {
    text.resize(bytes);
    result = tutti_describe(what, text.data(), &bytes);
  }
  if (result != TUTTI_SUCCESS) return failure(result);
  Json document = Json::parse(text.c_str(), nullptr, false);
  if (document.is_discarded())
    return {{"error", std::string("the library's description is not JSON: ") + text.c_str()}};
  return document;
}

}  // namespace tutti::info
