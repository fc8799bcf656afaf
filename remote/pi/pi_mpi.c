/* Estimates pi as the integral of 4 / (1 + x^2) from 0 to 1, by midpoints, on any number of MPI processes.
 *
 *     mpicc -O3 pi_mpi.c -o pi_mpi && mpirun -np 4 ./pi_mpi 4294967296            strong scaling: the same n
 *     mpicc -O3 -DWEAK pi_mpi.c -o pi_weak && mpirun -np 4 ./pi_weak 17179869184  weak scaling: n times as much
 *
 * Every process takes each size-th interval, and rank 0 adds up the results. The printed time is that between two
 * barriers, without the start of the processes. Written for labtui; the lines are those of chapter 4 of the course's
 * book.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size;
    long long n = argc > 1 ? atoll(argv[1]) : 1LL << 32;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (n < 1) {
        if (rank == 0)
            fprintf(stderr, "The number of intervals is at least 1.\n");
        MPI_Finalize();
        return 2;
    }

    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    double width = 1.0 / (double)n, sum = 0.0, pi = 0.0;
    for (long long i = rank; i < n; i += size) {
        double x = ((double)i + 0.5) * width;
        sum += 4.0 / (1.0 + x * x);
    }
    sum *= width;
    MPI_Reduce(&sum, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    double milliseconds = 1000.0 * (MPI_Wtime() - began);

    if (rank == 0) {
        printf("pi is about %.12f\n", pi);
#ifdef WEAK
        printf("Parallel execution time with %d processes and n = %lld: %.2f ms\n", size, n, milliseconds);
#else
        printf("Parallel execution time with %d processes: %.2f ms\n", size, milliseconds);
#endif
    }
    MPI_Finalize();
    return 0;
}
