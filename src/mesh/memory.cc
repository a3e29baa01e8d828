// SPDX-License-Identifier: BSD-3-Clause
#include "mesh/memory.h"

namespace tutti::mesh {

Result<Memory> Memory::allocate(const MemorySource &source, std::size_t bytes, int access) {
  Memory memory;
  TUTTI_TRY(memory.pages_, verbs::Memory::allocate(*source.device, bytes));
  if (source.topology != nullptr && source.numa_node >= 0)
    source.topology->place_memory(memory.data(), memory.bytes(), source.numa_node);
  TUTTI_TRY(memory.region_, verbs::reg_mr(*source.device, source.pd, memory.data(), memory.bytes(), access));
  return memory;
}

}  // namespace tutti::mesh
