// SPDX-License-Identifier: BSD-3-Clause
#include "communicators.h"

#include <array>
#include <memory>

#include "requests.h"
#include "state.h"

namespace tutti::mpi {
namespace {

int keyval = MPI_KEYVAL_INVALID;

// The last communicators that were looked for: asking the MPI takes longer than some collectives. For one thread only.
struct Recent {
  MPI_Comm comm = MPI_COMM_NULL;
  Communicator *found = nullptr;
};
std::array<Recent, 4> recent;
std::size_t next_recent = 0;

// MPI frees the communicator; so it goes, however it was freed. What Tutti has of it goes with the world, if
// free_comm() has not freed it before.
int forget(MPI_Comm, int, void *value, void *) {
  recent.fill({});
  delete static_cast<Communicator *>(value);
  return MPI_SUCCESS;
}

int attach(MPI_Comm comm, tutti_comm *tutti) {
  auto made = std::make_unique<Communicator>();
  made->tutti = tutti;
  PMPI_Comm_rank(comm, &made->rank);
  PMPI_Comm_size(comm, &made->ranks);
  const int status = PMPI_Comm_set_attr(comm, keyval, made.get());
  if (status == MPI_SUCCESS) static_cast<void>(made.release());  // the attribute's: forget() deletes it
  recent.fill({});
  return status;
}

// The rank in `of` of the first member of `comm`.
int first_of(MPI_Comm comm, MPI_Comm of) {
  MPI_Group group = MPI_GROUP_NULL, parent = MPI_GROUP_NULL;
  const int first = 0;
  int rank = MPI_UNDEFINED;
  PMPI_Comm_group(comm, &group);
  PMPI_Comm_group(of, &parent);
  PMPI_Group_translate_ranks(group, 1, &first, parent, &rank);
  PMPI_Group_free(&group);
  PMPI_Group_free(&parent);
  return rank;
}

// After all ranks of `parent` have made `*made` of it, each its own part of it or none: whoever is in one and the same
// communicator knows the same first member.
int adopt(int status, MPI_Comm parent, MPI_Comm *made) {
  if (status != MPI_SUCCESS) return status;
  Communicator *const from = find(parent);
  if (from == nullptr) return status;
  std::int32_t colour = TUTTI_UNDEFINED, key = 0;
  if (*made != MPI_COMM_NULL) {
    int rank = 0;
    PMPI_Comm_rank(*made, &rank);
    colour = first_of(*made, parent);
    key = rank;
  }
  tutti_comm *tutti = nullptr;
  const tutti_result result = tutti_comm_split(from->tutti, colour, key, &tutti);
  if (result != TUTTI_SUCCESS) return raise(parent, result);
  return *made == MPI_COMM_NULL ? status : attach(*made, tutti);
}

template <class Call>
int make(MPI_Comm parent, MPI_Comm *made, Call call) {
  const bool ours = !Inside::now();
  int status = MPI_SUCCESS;
  {
    const Accompanied accompanied;
    status = pass_on(call);
  }
  return ours && state().up ? adopt(status, parent, made) : status;
}

// Collective, like MPI's.
template <class Call>
int free_comm(MPI_Comm *comm, Call call) {
  if (!Inside::now() && state().up && comm != nullptr && *comm != MPI_COMM_NULL && *comm != MPI_COMM_WORLD) {
    if (Communicator *const found = find(*comm); found != nullptr && found->tutti != nullptr) {
      requests().finish(*found);
      const tutti_result result = tutti_comm_free(&found->tutti);
      if (result != TUTTI_SUCCESS) return raise(*comm, result);
    }
  }
  return pass_on(call);
}

}  // namespace

Communicator *find(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return nullptr;
  const bool alone = !state().threads;
  if (alone)
    for (const Recent &one : recent)
      if (one.comm == comm) return one.found;
  void *value = nullptr;
  int flag = 0;
  if (PMPI_Comm_get_attr(comm, keyval, static_cast<void *>(&value), &flag) != MPI_SUCCESS || flag == 0) value = nullptr;
  auto *const found = static_cast<Communicator *>(value);
  if (alone) recent[next_recent++ % recent.size()] = {comm, found};
  return found;
}

void begin_communicators() {
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &keyval, nullptr);
  attach(MPI_COMM_WORLD, state().world);
}

void end_communicators() {
  PMPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
  PMPI_Comm_free_keyval(&keyval);
}

}  // namespace tutti::mpi

using namespace tutti::mpi;  // NOLINT: this file only defines the C functions below

// NOLINTBEGIN: MPI's own declarations
extern "C" {

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm) {
  return make(comm, newcomm, [&](const Functions &f) { return f.Comm_dup(comm, newcomm); });
}
int PMPI_Comm_dup(MPI_Comm, MPI_Comm *) TUTTI_MPI_ALIAS(MPI_Comm_dup);

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm) {
  return make(comm, newcomm, [&](const Functions &f) { return f.Comm_dup_with_info(comm, info, newcomm); });
}
int PMPI_Comm_dup_with_info(MPI_Comm, MPI_Info, MPI_Comm *) TUTTI_MPI_ALIAS(MPI_Comm_dup_with_info);

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *newcomm) {
  return make(comm, newcomm, [&](const Functions &f) { return f.Comm_split(comm, color, key, newcomm); });
}
int PMPI_Comm_split(MPI_Comm, int, int, MPI_Comm *) TUTTI_MPI_ALIAS(MPI_Comm_split);

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *newcomm) {
  return make(comm, newcomm, [&](const Functions &f) { return f.Comm_split_type(comm, type, key, info, newcomm); });
}
int PMPI_Comm_split_type(MPI_Comm, int, int, MPI_Info, MPI_Comm *) TUTTI_MPI_ALIAS(MPI_Comm_split_type);

int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *newcomm) {
  return make(comm, newcomm, [&](const Functions &f) { return f.Comm_create(comm, group, newcomm); });
}
int PMPI_Comm_create(MPI_Comm, MPI_Group, MPI_Comm *) TUTTI_MPI_ALIAS(MPI_Comm_create);

int MPI_Cart_create(MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder, MPI_Comm *newcomm) {
  return make(comm, newcomm,
              [&](const Functions &f) { return f.Cart_create(comm, ndims, dims, periods, reorder, newcomm); });
}
int PMPI_Cart_create(MPI_Comm, int, const int[], const int[], int, MPI_Comm *) TUTTI_MPI_ALIAS(MPI_Cart_create);

int MPI_Cart_sub(MPI_Comm comm, const int remain[], MPI_Comm *newcomm) {
  return make(comm, newcomm, [&](const Functions &f) { return f.Cart_sub(comm, remain, newcomm); });
}
int PMPI_Cart_sub(MPI_Comm, const int[], MPI_Comm *) TUTTI_MPI_ALIAS(MPI_Cart_sub);

int MPI_Graph_create(MPI_Comm comm, int nodes, const int index[], const int edges[], int reorder, MPI_Comm *newcomm) {
  return make(comm, newcomm,
              [&](const Functions &f) { return f.Graph_create(comm, nodes, index, edges, reorder, newcomm); });
}
int PMPI_Graph_create(MPI_Comm, int, const int[], const int[], int, MPI_Comm *) TUTTI_MPI_ALIAS(MPI_Graph_create);

int MPI_Dist_graph_create(MPI_Comm comm, int n, const int nodes[], const int degrees[], const int targets[],
                          const int weights[], MPI_Info info, int reorder, MPI_Comm *newcomm) {
  return make(comm, newcomm, [&](const Functions &f) {
    return f.Dist_graph_create(comm, n, nodes, degrees, targets, weights, info, reorder, newcomm);
  });
}
int PMPI_Dist_graph_create(MPI_Comm, int, const int[], const int[], const int[], const int[], MPI_Info, int, MPI_Comm *)
    TUTTI_MPI_ALIAS(MPI_Dist_graph_create);

int MPI_Dist_graph_create_adjacent(MPI_Comm comm, int indegree, const int sources[], const int sourceweights[],
                                   int outdegree, const int destinations[], const int destweights[], MPI_Info info,
                                   int reorder, MPI_Comm *newcomm) {
  return make(comm, newcomm, [&](const Functions &f) {
    return f.Dist_graph_create_adjacent(comm, indegree, sources, sourceweights, outdegree, destinations, destweights,
                                        info, reorder, newcomm);
  });
}
int PMPI_Dist_graph_create_adjacent(MPI_Comm, int, const int[], const int[], int, const int[], const int[], MPI_Info,
                                    int, MPI_Comm *) TUTTI_MPI_ALIAS(MPI_Dist_graph_create_adjacent);

int MPI_Comm_free(MPI_Comm *comm) {
  return free_comm(comm, [&](const Functions &f) { return f.Comm_free(comm); });
}
int PMPI_Comm_free(MPI_Comm *) TUTTI_MPI_ALIAS(MPI_Comm_free);

int MPI_Comm_disconnect(MPI_Comm *comm) {
  return free_comm(comm, [&](const Functions &f) { return f.Comm_disconnect(comm); });
}
int PMPI_Comm_disconnect(MPI_Comm *) TUTTI_MPI_ALIAS(MPI_Comm_disconnect);

}  // extern "C"
// NOLINTEND
