! SPDX-License-Identifier: BSD-3-Clause
!
! Case 47: collectives from Fortran with its own MPI_IN_PLACE and MPI_BOTTOM, through mpif.h, the module mpi or mpi_f08, as
! TUTTI_MPIF, TUTTI_MPI or TUTTI_F08 says.
#if defined(TUTTI_F08)
#define HANDLE(kind) type(kind)
#else
#define HANDLE(kind) integer
#endif

#if defined(TUTTI_F08)
subroutine add(in, in_out, count, kind)
  use mpi_f08
  use, intrinsic :: iso_c_binding, only : c_ptr, c_f_pointer
  type(c_ptr), value :: in, in_out
  integer :: count
  type(MPI_Datatype) :: kind
  integer, pointer :: a(:), b(:)
  call c_f_pointer(in, a, [count])
  call c_f_pointer(in_out, b, [count])
  b = a + b
end subroutine
#else
subroutine add(in, in_out, count, kind)
  integer :: count, kind
  integer :: in(count), in_out(count)
  in_out = in + in_out
end subroutine
#endif

program fortran
#if defined(TUTTI_F08)
  use mpi_f08
  implicit none
#elif defined(TUTTI_MPI)
  use mpi
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
#if defined(TUTTI_F08)
  procedure(MPI_User_function) :: add
#else
  external :: add
#endif
  integer :: rank, ranks, ierr, i, failures, all
  integer :: one(3), total(3), expected
  integer, allocatable :: gathered(:)
  double precision :: value
  logical :: yes
  integer(kind=MPI_ADDRESS_KIND) :: address(1)
  integer :: length(1)
  HANDLE(MPI_Op) :: op
  HANDLE(MPI_Datatype) :: absolute, kinds(1)
  HANDLE(MPI_Request) :: requests(2)
  HANDLE(MPI_Comm) :: half
  ! At a place of its own in memory, as MPI_BOTTOM needs it.
  integer, save, volatile, target :: somewhere(4)

  failures = 0
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  expected = ranks * (ranks + 1) / 2

  one = rank + 1
  call MPI_Allreduce(one, total, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (any(total /= expected)) call wrong('MPI_Allreduce')
  call MPI_Allreduce(MPI_IN_PLACE, one, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (any(one /= expected)) call wrong('MPI_Allreduce in place')

  value = 1.5d0 * (rank + 1)
  if (rank == ranks - 1) then
    call MPI_Reduce(MPI_IN_PLACE, value, 1, MPI_DOUBLE_PRECISION, MPI_SUM, ranks - 1, MPI_COMM_WORLD, ierr)
    if (value /= 1.5d0 * expected) call wrong('MPI_Reduce in place')
  else
    call MPI_Reduce(value, value, 1, MPI_DOUBLE_PRECISION, MPI_SUM, ranks - 1, MPI_COMM_WORLD, ierr)
  end if

  yes = rank == 0
  call MPI_Allreduce(MPI_IN_PLACE, yes, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierr)
  if (.not. yes) call wrong('MPI_LOR of MPI_LOGICAL')

  allocate(gathered(ranks))
  gathered = -1
  gathered(rank + 1) = rank * 10
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, gathered, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  do i = 1, ranks
    if (gathered(i) /= (i - 1) * 10) call wrong('MPI_Allgather in place')
  end do

  ! A type of absolute addresses, from MPI_BOTTOM.
  somewhere = 0
  if (rank == 0) somewhere(3) = 33
  call MPI_Get_address(somewhere(3), address(1), ierr)
  length = 1
  kinds = MPI_INTEGER
  call MPI_Type_create_struct(1, length, address, kinds, absolute, ierr)
  call MPI_Type_commit(absolute, ierr)
  call MPI_Bcast(MPI_BOTTOM, 1, absolute, 0, MPI_COMM_WORLD, ierr)
  if (somewhere(3) /= 33 .or. somewhere(2) /= 0) call wrong('MPI_Bcast from MPI_BOTTOM')
  call MPI_Type_free(absolute, ierr)

  ! An operator that is a Fortran subroutine, and requests.
  call MPI_Op_create(add, .true., op, ierr)
  one = rank + 1
  total = 0
  call MPI_Iallreduce(one, total, 3, MPI_INTEGER, op, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Ibarrier(MPI_COMM_WORLD, requests(2), ierr)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
  if (any(total /= expected)) call wrong('an operator of its own')
  call MPI_Op_free(op, ierr)

  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half, ierr)
  one = 1
  call MPI_Allreduce(MPI_IN_PLACE, one, 3, MPI_INTEGER, MPI_SUM, half, ierr)
  if (one(1) /= (ranks + 1 - mod(rank, 2)) / 2) call wrong('a part')
  call MPI_Comm_free(half, ierr)

  call MPI_Reduce(failures, all, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a,i0,a)', 'fortran: ', all, ' failures'
  call MPI_Finalize(ierr)
  if (failures /= 0) stop 1

contains
  subroutine wrong(what)
    character(len=*), intent(in) :: what
    failures = failures + 1
    print *, 'FAILED on rank', rank, ': ', what
  end subroutine
end program
