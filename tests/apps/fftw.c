/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A transform of FFTW over MPI and back: says its largest coefficients and how far the way back is from the start. */
#include <complex.h>
#include <fftw3-mpi.h>
#include <math.h>
#include <stdio.h>

int main(int argc, char **argv) {
  enum { kRows = 240, kColumns = 200 };
  MPI_Init(&argc, &argv);
  fftw_mpi_init();
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  ptrdiff_t rows, first;
  const ptrdiff_t size = fftw_mpi_local_size_2d(kRows, kColumns, MPI_COMM_WORLD, &rows, &first);
  fftw_complex *data = fftw_alloc_complex((size_t)size);
  fftw_plan forward = fftw_mpi_plan_dft_2d(kRows, kColumns, data, data, MPI_COMM_WORLD, FFTW_FORWARD, FFTW_ESTIMATE);
  fftw_plan back = fftw_mpi_plan_dft_2d(kRows, kColumns, data, data, MPI_COMM_WORLD, FFTW_BACKWARD, FFTW_ESTIMATE);
  for (int turn = 0; turn < 3; ++turn) {
    for (ptrdiff_t row = 0; row < rows; ++row)
      for (ptrdiff_t column = 0; column < kColumns; ++column)
        data[row * kColumns + column] =
            sin(0.1 * (double)((first + row) * (turn + 1))) + I * cos(0.03 * (double)column);
    fftw_execute(forward);
    double sums[2] = {0, 0}, all[2];
    for (ptrdiff_t i = 0; i < rows * kColumns; ++i) sums[0] = fmax(sums[0], cabs(data[i]));
    fftw_execute(back);
    for (ptrdiff_t row = 0; row < rows; ++row)
      for (ptrdiff_t column = 0; column < kColumns; ++column) {
        const double complex start = sin(0.1 * (double)((first + row) * (turn + 1))) + I * cos(0.03 * (double)column);
        sums[1] = fmax(sums[1], cabs(data[row * kColumns + column] / (kRows * kColumns) - start));
      }
    MPI_Allreduce(sums, all, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0) printf("fftw: largest %.6f, back %s\n", all[0], all[1] < 1e-12 ? "right" : "WRONG");
  }
  fftw_destroy_plan(forward);
  fftw_destroy_plan(back);
  fftw_free(data);
  MPI_Finalize();
  return 0;
}
