// SPDX-License-Identifier: BSD-3-Clause
//
// The C entry points of worlds and memory, and what concerns neither: check arguments, find the world, call down,
// turn errors into codes. No exception leaves them.
#include <algorithm>
#include <cstring>

#include "api/describe.h"
#include "api/guard.h"
#include "api/inside.h"
#include "api/last_error.h"
#include "api/operators.h"
#include "api/structs.h"
#include "base/log.h"
#include "base/version.h"
#include "bootstrap/callback.h"
#include "bootstrap/environment.h"
#include "bootstrap/in_process.h"
#include "bootstrap/job_key.h"
#include "bootstrap/tcp_store.h"

namespace tutti::api {
namespace {

Result<std::unique_ptr<bootstrap::Bootstrap>> environment_bootstrap(const Config &config,
                                                                    const Environment &environment) {
  TUTTI_TRY(const bootstrap::Launch launch, bootstrap::launcher_environment(environment));
  if (!launch.warning.empty()) TUTTI_LOG(warn, "{}", launch.warning);
  if (launch.master_address.empty()) return bootstrap::Group(1).rank(0);
  TUTTI_TRY(const std::string key, bootstrap::read_job_key(config.job_key, config.job_key_file));
  return bootstrap::meet_over_tcp({.rank = launch.rank,
                                   .ranks = launch.ranks,
                                   .master_address = launch.master_address,
                                   .master_port = launch.master_port,
                                   .job_key = key,
                                   .interface = config.interface},
                                  Deadline::after_ms(config.init_timeout_s * 1000));
}

Result<tutti_comm *> init(const tutti_bootstrap *given_bootstrap, const tutti_options *given_options) {
  tutti_options options = {};
  if (given_options != nullptr) {
    TUTTI_TRY(check_struct(given_options, "tutti_options"));
    options = known_part(given_options);
  }
  WorldOptions world_options = {.config = {},
                                .environment = process_environment(),
                                .threads = options.threads != 0,
                                .while_waiting = options.while_waiting,
                                .waiting_user = options.waiting_user};
  std::vector<std::string> unknown;
  TUTTI_TRY(world_options.config, read_config(world_options.environment, &unknown));
  for (const std::string &text : unknown) TUTTI_LOG(warn, "{}", text);
  if (options.timeout_ms < 0)
    return fail(Code::argument, "tutti_options.timeout_ms is {}: it has to be 0 (default) or positive",
                options.timeout_ms);
  if (options.timeout_ms > 0) world_options.config.init_timeout_s = (std::int64_t{options.timeout_ms} + 999) / 1000;
  if (options.operation_timeout_ms < 0)
    return fail(Code::argument, "tutti_options.operation_timeout_ms is {}: it has to be 0 (default) or positive",
                options.operation_timeout_ms);
  if (options.operation_timeout_ms > 0)
    world_options.config.timeout_s = (std::int64_t{options.operation_timeout_ms} + 999) / 1000;
  if (options.device != nullptr) world_options.config.device = options.device;

  std::unique_ptr<bootstrap::Bootstrap> bootstrap;
  if (given_bootstrap != nullptr) {
    TUTTI_TRY(check_struct(given_bootstrap, "tutti_bootstrap"));
    TUTTI_TRY(bootstrap, bootstrap::from_callback(known_part(given_bootstrap)));
  } else {
    TUTTI_TRY(bootstrap, environment_bootstrap(world_options.config, world_options.environment));
  }
  TUTTI_TRY(std::unique_ptr<World> world, World::create(std::move(bootstrap), world_options));
  return make_handle(std::move(world));
}

Result<> copy_text(const std::string &text, char *out, std::size_t *bytes, const char *function) {
  if (bytes == nullptr) return fail(Code::argument, "{}: bytes is null", function);
  const std::size_t room = *bytes;
  *bytes = text.size() + 1;
  if (out == nullptr || room == 0) return {};
  const std::size_t copied = std::min(text.size(), room - 1);
  std::memcpy(out, text.data(), copied);
  out[copied] = '\0';
  return {};
}

}  // namespace
}  // namespace tutti::api

using namespace tutti;       // NOLINT: this file only defines the C functions below
using namespace tutti::api;  // NOLINT

extern "C" {

tutti_result tutti_init(const tutti_bootstrap *bootstrap, const tutti_options *options, tutti_comm **world) noexcept {
  return guarded([&]() -> Result<> {
    if (world == nullptr) return fail(Code::argument, "tutti_init: world is null");
    *world = nullptr;
    TUTTI_TRY(*world, init(bootstrap, options));
    return {};
  });
}

tutti_result tutti_abort(tutti_comm *comm) noexcept {
  return guarded([&]() -> Result<> {
    if (!abort_world(comm)) return no_comm("tutti_abort");
    return {};
  });
}

tutti_result tutti_op_create(tutti_op_function function, int32_t commutative, size_t element_bytes, void *user,
                             tutti_op *op) noexcept {
  return guarded([&]() -> Result<> {
    if (op == nullptr) return fail(Code::argument, "tutti_op_create: op is null");
    *op = TUTTI_OP_NULL;
    TUTTI_TRY(*op, create_user_operator(function, commutative != 0, element_bytes, user));
    return {};
  });
}

tutti_result tutti_op_create_premul_sum(const void *factor, tutti_type type, tutti_op *op) noexcept {
  return guarded([&]() -> Result<> {
    if (op == nullptr) return fail(Code::argument, "tutti_op_create_premul_sum: op is null");
    *op = TUTTI_OP_NULL;
    TUTTI_TRY(*op, create_premul_sum(factor, type));
    return {};
  });
}

tutti_result tutti_op_free(tutti_op *op) noexcept {
  return guarded([&]() -> Result<> {
    if (op == nullptr) return fail(Code::argument, "tutti_op_free: op is null");
    TUTTI_TRY(free_operator(*op));
    *op = TUTTI_OP_NULL;
    return {};
  });
}

tutti_result tutti_alloc(tutti_comm *comm, size_t bytes, void **memory) noexcept {
  return guarded([&]() -> Result<> {
    const InsideComm found(comm);
    if (!found) return no_comm("tutti_alloc");
    if (memory == nullptr) return fail(Code::argument, "tutti_alloc: memory is null");
    *memory = nullptr;
    TUTTI_TRY(*memory, found->world->allocate(bytes));
    return {};
  });
}

tutti_result tutti_free(tutti_comm *comm, void *memory) noexcept {
  return guarded([&]() -> Result<> {
    const InsideComm found(comm);
    if (!found) return no_comm("tutti_free");
    return found->world->release(memory);
  });
}

tutti_result tutti_query(tutti_comm *comm, const char *what, char *json, size_t *bytes) noexcept {
  return guarded([&]() -> Result<> {
    const InsideComm found(comm);
    if (!found) return no_comm("tutti_query");
    if (what == nullptr) return fail(Code::argument, "tutti_query: what is null");
    TUTTI_TRY(const std::string text, found->world->query(what));
    return copy_text(text, json, bytes, "tutti_query");
  });
}

tutti_result tutti_describe(const char *what, char *json, size_t *bytes) noexcept {
  return guarded([&]() -> Result<> {
    if (what == nullptr) return fail(Code::argument, "tutti_describe: what is null");
    TUTTI_TRY(const std::string text, describe_process(what));
    return copy_text(text, json, bytes, "tutti_describe");
  });
}

tutti_result tutti_last_error(tutti_error *error) noexcept {
  return guarded([&]() -> Result<> {
    if (error == nullptr) return fail(Code::argument, "tutti_last_error: error is null");
    if (error->size < sizeof(error->size))
      return fail(Code::argument, "tutti_error.size is {}: set it with TUTTI_INIT_STRUCT(tutti_error)", error->size);
    tutti_error filled = {};
    filled.size = error->size;
    filled.peer = filled.wc_status = -1;
    if (const Error *last = last_error(); last != nullptr) {
      filled.result = static_cast<tutti_result>(last->code);
      filled.peer = last->peer;
      filled.sys_errno = last->sys_errno;
      filled.wc_status = last->wc_status;
      std::memcpy(filled.text, last->text.data(), std::min(last->text.size(), sizeof(filled.text) - 1));
    }
    std::memcpy(error, &filled, std::min(sizeof(filled), error->size));
    return {};
  });
}

const char *tutti_result_name(tutti_result result) noexcept { return code_name(result); }

size_t tutti_type_bytes(tutti_type type) noexcept { return reduce::type_bytes(type); }

const char *tutti_version(void) noexcept { return kLibraryVersion; }

}  // extern "C"
