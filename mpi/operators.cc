// SPDX-License-Identifier: BSD-3-Clause
#include "operators.h"

#include <limits>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "functions.h"

namespace tutti::mpi {
namespace {

constexpr std::size_t kMostElementBytes = 4096;  // tutti_op_create's

constexpr unsigned bit(TypeClass kind) { return 1u << static_cast<unsigned>(kind); }

struct Operator {
  tutti_op op;
  unsigned classes;  // of types that MPI's standard allows it for
};

const Operator *operator_of(MPI_Op op) {
  using enum TypeClass;
  constexpr unsigned numbers = bit(c_integer) | bit(fortran_integer) | bit(floating) | bit(address);
  constexpr unsigned bits = bit(c_integer) | bit(fortran_integer) | bit(byte) | bit(address);
  using Table = std::unordered_map<MPI_Op, Operator>;
  static const Table &table = *new Table{
      // as state()
      {MPI_SUM, {TUTTI_SUM, numbers | bit(complex)}},
      {MPI_PROD, {TUTTI_PROD, numbers | bit(complex)}},
      {MPI_MIN, {TUTTI_MIN, numbers}},
      {MPI_MAX, {TUTTI_MAX, numbers}},
      {MPI_LAND, {TUTTI_LAND, bit(c_integer) | bit(logical)}},
      {MPI_LOR, {TUTTI_LOR, bit(c_integer) | bit(logical)}},
      {MPI_LXOR, {TUTTI_LXOR, bit(c_integer) | bit(logical)}},
      {MPI_BAND, {TUTTI_BAND, bits}},
      {MPI_BOR, {TUTTI_BOR, bits}},
      {MPI_BXOR, {TUTTI_BXOR, bits}},
      {MPI_MINLOC, {TUTTI_MINLOC, bit(pair)}},
      {MPI_MAXLOC, {TUTTI_MAXLOC, bit(pair)}},
      {MPI_REPLACE, {TUTTI_OP_NULL, 0}},
      {MPI_NO_OP, {TUTTI_OP_NULL, 0}},
      {MPI_OP_NULL, {TUTTI_OP_NULL, 0}},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : &found->second;
}

// A handle of the program's that may have to outlive the program's freeing it.
template <class Handle>
struct Held {
  Handle handle;
  bool freed = false;  // by the program: the last user frees it
};

}  // namespace

class LocalReduction {
 public:
  LocalReduction(std::shared_ptr<Held<MPI_Op>> op, std::shared_ptr<Held<MPI_Datatype>> type, const Layout &layout)
      : op_(std::move(op)), type_(std::move(type)), layout_(layout) {}
  ~LocalReduction() {
    if (handle_ != TUTTI_OP_NULL) tutti_op_free(&handle_);
    if (op_.use_count() == 1 && op_->freed) own().Op_free(&op_->handle);
    if (type_.use_count() == 1 && type_->freed) own().Type_free(&type_->handle);
  }
  LocalReduction(const LocalReduction &) = delete;
  LocalReduction &operator=(const LocalReduction &) = delete;

  bool create(bool commutative) {
    return tutti_op_create(reduce, commutative ? 1 : 0, static_cast<std::size_t>(layout_.extent), this, &handle_) ==
           TUTTI_SUCCESS;
  }
  tutti_op handle() const { return handle_; }
  const Layout &layout() const { return layout_; }
  Held<MPI_Op> &op() { return *op_; }
  Held<MPI_Datatype> &type() { return *type_; }
  const std::shared_ptr<Held<MPI_Op>> &shared_op() const { return op_; }
  const std::shared_ptr<Held<MPI_Datatype>> &shared_type() const { return type_; }

 private:
  static void reduce(const void *in, void *in_out, std::size_t count, void *user) {
    const auto &self = *static_cast<const LocalReduction *>(user);
    const Inside inside;
    // MPI's pointers are to where the type's lower bound counts from, not to its first byte.
    const auto *from = static_cast<const char *>(in) - self.layout_.true_lb;
    auto *to = static_cast<char *>(in_out) - self.layout_.true_lb;
    while (count != 0) {
      const int now = static_cast<int>(std::min<std::size_t>(count, std::numeric_limits<int>::max()));
      PMPI_Reduce_local(from, to, now, self.type_->handle, self.op_->handle);
      from += now * self.layout_.extent;
      to += now * self.layout_.extent;
      count -= static_cast<std::size_t>(now);
    }
  }

  std::shared_ptr<Held<MPI_Op>> op_;
  std::shared_ptr<Held<MPI_Datatype>> type_;
  Layout layout_;
  tutti_op handle_ = TUTTI_OP_NULL;
};

namespace {

// Those that calls have used, until the program has freed operator or type and no call uses them any more.
struct Known {
  std::mutex mutex;
  std::vector<std::shared_ptr<LocalReduction>> reductions;
};

Known &known() {
  static Known &all = *new Known;  // as state()
  return all;
}

std::shared_ptr<LocalReduction> local_reduction(MPI_Op op, MPI_Datatype type, const Layout &layout, bool commutative) {
  Known &all = known();
  const std::lock_guard lock(all.mutex);
  std::shared_ptr<Held<MPI_Op>> held_op;
  std::shared_ptr<Held<MPI_Datatype>> held_type;
  for (std::size_t i = all.reductions.size(); i-- != 0;) {
    LocalReduction &one = *all.reductions[i];
    // A handle that was freed may come again, for something else.
    const bool same_op = one.op().handle == op && !one.op().freed;
    const bool same_type = one.type().handle == type && !one.type().freed;
    if (same_op && same_type) return all.reductions[i];
    if (same_op) held_op = one.shared_op();
    if (same_type) held_type = one.shared_type();
  }
  if (!held_op) held_op = std::make_shared<Held<MPI_Op>>(Held<MPI_Op>{op});
  if (!held_type) held_type = std::make_shared<Held<MPI_Datatype>>(Held<MPI_Datatype>{type});
  auto made = std::make_shared<LocalReduction>(std::move(held_op), std::move(held_type), layout);
  if (!made->create(commutative)) return nullptr;
  all.reductions.push_back(made);
  return made;
}

// The program frees what `held` finds in a reduction under this handle. True if a call still uses it: then it is freed
// with the last one.
template <class Handle, class Find>
bool release(Handle handle, Find held) {
  Known &all = known();
  std::vector<std::shared_ptr<LocalReduction>> gone;  // destroyed without the mutex
  const std::lock_guard lock(all.mutex);
  bool used = false;
  for (const auto &one : all.reductions)
    if (held(*one).handle == handle && !held(*one).freed) used |= one.use_count() > 1;
  if (used)
    for (const auto &one : all.reductions)
      if (held(*one).handle == handle) held(*one).freed = true;
  std::erase_if(all.reductions, [&](const std::shared_ptr<LocalReduction> &one) {
    const bool over = one->op().freed || one->type().freed || (!used && held(*one).handle == handle);
    if (!over || one.use_count() > 1) return false;
    gone.push_back(one);
    return true;
  });
  return used;
}

}  // namespace

Reason resolve(MPI_Op op, MPI_Datatype type, Reduction &reduction) {
  if (op == MPI_OP_NULL || type == MPI_DATATYPE_NULL) return Reason::arguments;
  const Operator *builtin = operator_of(op);
  const Predefined *base = predefined(type);
  if (builtin != nullptr) {
    if (base == nullptr) return Reason::type;
    if ((builtin->classes & bit(base->kind)) == 0) return Reason::op;
  }
  reduction.layout = layout_of(type);
  if (builtin != nullptr && base->type >= 0) {
    reduction.type = base->type;
    reduction.op = builtin->op;
    return Reason::none;
  }
  const Layout &layout = reduction.layout;
  if (layout.size == 0 || layout.extent <= 0 || layout.true_extent > layout.extent ||
      layout.extent > static_cast<std::ptrdiff_t>(kMostElementBytes))
    return Reason::type;
  int commutative = 1;
  if (builtin == nullptr) PMPI_Op_commutative(op, &commutative);
  reduction.spread = !layout.plain;
  reduction.local = local_reduction(op, type, layout, commutative != 0);
  if (reduction.local == nullptr) return Reason::op;
  reduction.op = reduction.local->handle();
  return Reason::none;
}

bool keeps_op(MPI_Op op) {
  return release(op, [](LocalReduction &one) -> Held<MPI_Op> & { return one.op(); });
}

bool keeps_type(MPI_Datatype type) {
  return release(type, [](LocalReduction &one) -> Held<MPI_Datatype> & { return one.type(); });
}

void forget_operators() {
  Known &all = known();
  const std::lock_guard lock(all.mutex);
  all.reductions.clear();
}

}  // namespace tutti::mpi
