// SPDX-License-Identifier: BSD-3-Clause
//
// A Tutti allreduce and broadcast in C++, without MPI: tutti-run -n 4 allreduce
#include <cstdio>
#include <tutti/tutti.hpp>
#include <vector>

int main() try {
  tutti::Comm world = tutti::Comm::world();

  std::vector<double> values(3, world.rank() + 1.0);
  world.allreduce(values);

  std::vector<int> number = {world.rank() == 0 ? 42 : 0};
  world.broadcast(number, 0);

  if (world.rank() == 0)
    std::printf("sum over %d ranks: %g %g %g; the root says %d\n", world.size(), values[0], values[1], values[2],
                number[0]);
  return 0;
} catch (const tutti::Error &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
