// SPDX-License-Identifier: BSD-3-Clause
//
// Point-to-point calls that block: they are the MPI's, but while collectives of Tutti are under way they are made in
// their nonblocking forms, and waited for by polling both sides.
#include "requests.h"
#include "state.h"

namespace tutti::mpi {
namespace {

// Until `test` says that it is the end.
template <class Test>
int poll_until(Test test) {
  const Inside inside;
  for (Pause pause;; pause()) {
    int done = 0;
    const int status = test(&done);
    if (status != MPI_SUCCESS || done != 0) return status;
    requests().poll();
  }
}

template <class Start>
int complete(MPI_Status *status, Start start) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int started = start(&request);
  if (started != MPI_SUCCESS) return started;
  return poll_until([&](int *done) { return own().Test(&request, done, status); });
}

}  // namespace
}  // namespace tutti::mpi

using namespace tutti::mpi;  // NOLINT: this file only defines the C functions below

// NOLINTBEGIN: MPI's own declarations
#define TUTTI_MPI_SEND(Name, Iname)                                                                       \
  int MPI_##Name(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {      \
    if (nothing_of_tutti())                                                                               \
      return pass_on([&](const Functions &f) { return f.Name(buffer, count, type, to, tag, comm); });     \
    return complete(MPI_STATUS_IGNORE,                                                                    \
                    [&](MPI_Request *r) { return PMPI_##Iname(buffer, count, type, to, tag, comm, r); }); \
  }                                                                                                       \
  int PMPI_##Name(const void *, int, MPI_Datatype, int, int, MPI_Comm) TUTTI_MPI_ALIAS(MPI_##Name);

extern "C" {

TUTTI_MPI_SEND(Send, Isend)
TUTTI_MPI_SEND(Ssend, Issend)
TUTTI_MPI_SEND(Rsend, Irsend)

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status) {
  if (nothing_of_tutti())
    return pass_on([&](const Functions &f) { return f.Recv(buffer, count, type, from, tag, comm, status); });
  return complete(status, [&](MPI_Request *r) { return PMPI_Irecv(buffer, count, type, from, tag, comm, r); });
}
int PMPI_Recv(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *) TUTTI_MPI_ALIAS(MPI_Recv);

int MPI_Sendrecv(const void *data, int send_count, MPI_Datatype send_type, int to, int send_tag, void *buffer,
                 int recv_count, MPI_Datatype recv_type, int from, int recv_tag, MPI_Comm comm, MPI_Status *status) {
  if (nothing_of_tutti())
    return pass_on([&](const Functions &f) {
      return f.Sendrecv(data, send_count, send_type, to, send_tag, buffer, recv_count, recv_type, from, recv_tag, comm,
                        status);
    });
  MPI_Request receive = MPI_REQUEST_NULL;
  const int posted = PMPI_Irecv(buffer, recv_count, recv_type, from, recv_tag, comm, &receive);
  if (posted != MPI_SUCCESS) return posted;
  const int sent = complete(MPI_STATUS_IGNORE, [&](MPI_Request *r) {
    return PMPI_Isend(data, send_count, send_type, to, send_tag, comm, r);
  });
  if (sent != MPI_SUCCESS) return sent;
  return poll_until([&](int *done) { return own().Test(&receive, done, status); });
}
int PMPI_Sendrecv(const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype, int, int, MPI_Comm,
                  MPI_Status *) TUTTI_MPI_ALIAS(MPI_Sendrecv);

int MPI_Sendrecv_replace(void *buffer, int count, MPI_Datatype type, int to, int send_tag, int from, int recv_tag,
                         MPI_Comm comm, MPI_Status *status) {
  const Accompanied accompanied;
  return pass_on([&](const Functions &f) {
    return f.Sendrecv_replace(buffer, count, type, to, send_tag, from, recv_tag, comm, status);
  });
}
int PMPI_Sendrecv_replace(void *, int, MPI_Datatype, int, int, int, int, MPI_Comm, MPI_Status *)
    TUTTI_MPI_ALIAS(MPI_Sendrecv_replace);

int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status *status) {
  if (nothing_of_tutti()) return pass_on([&](const Functions &f) { return f.Probe(from, tag, comm, status); });
  return poll_until([&](int *found) { return PMPI_Iprobe(from, tag, comm, found, status); });
}
int PMPI_Probe(int, int, MPI_Comm, MPI_Status *) TUTTI_MPI_ALIAS(MPI_Probe);

int MPI_Mprobe(int from, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
  if (nothing_of_tutti())
    return pass_on([&](const Functions &f) { return f.Mprobe(from, tag, comm, message, status); });
  return poll_until([&](int *found) { return PMPI_Improbe(from, tag, comm, found, message, status); });
}
int PMPI_Mprobe(int, int, MPI_Comm, MPI_Message *, MPI_Status *) TUTTI_MPI_ALIAS(MPI_Mprobe);

int MPI_Mrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status) {
  if (nothing_of_tutti())
    return pass_on([&](const Functions &f) { return f.Mrecv(buffer, count, type, message, status); });
  return complete(status, [&](MPI_Request *r) { return PMPI_Imrecv(buffer, count, type, message, r); });
}
int PMPI_Mrecv(void *, int, MPI_Datatype, MPI_Message *, MPI_Status *) TUTTI_MPI_ALIAS(MPI_Mrecv);

}  // extern "C"
// NOLINTEND
