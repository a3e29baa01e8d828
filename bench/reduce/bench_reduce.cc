// SPDX-License-Identifier: BSD-3-Clause
//
// The reduction kernels next to memcpy. bytes_per_second counts the bytes of the result in both, so a kernel, which
// reads two operands where memcpy reads one, reaches at most 2/3 of memcpy where memory is the limit.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "reduce/kernels.h"

namespace {

using namespace tutti::reduce;

// From one element, through L1 and L2, to memory.
const std::vector<std::int64_t> kBytes = {8, 64, 1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20};

void copy(benchmark::State &state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<char> from(bytes, 1), to(bytes, 2);
  while (state.KeepRunning()) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

// As the executor uses it most: what arrived is reduced onto what is here.
void reduce(benchmark::State &state, Type type, Op op) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::size_t count = bytes / std::max<std::size_t>(1, type_bytes(static_cast<std::int32_t>(type)));
  // Zeros: no result leaves the range where arithmetic has one speed.
  std::vector<char> received(bytes, 0), result(bytes, 0);
  const Kernel run = kernel(type, op);
  while (state.KeepRunning()) {
    run(result.data(), received.data(), result.data(), count);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

}  // namespace

int main(int argc, char **argv) {
  benchmark::RegisterBenchmark("memcpy", copy)->ArgsProduct({kBytes});
  for (std::int32_t type = 0; type < kSizedTypes; ++type)
    for (std::int32_t op = 0; op < kBuiltinOps; ++op) {
      if (!takes_builtin(type, op) || op == TUTTI_AVG) continue;  // avg combines as sum does
      const std::string name = std::string(type_name(type)) + "/" + op_name(op);
      benchmark::RegisterBenchmark(name.c_str(), reduce, static_cast<Type>(type), static_cast<Op>(op))
          ->ArgsProduct({kBytes});
    }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
