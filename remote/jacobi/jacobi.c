/* Jacobi's iteration for Laplace's equation on a grid, in rows shared by MPI processes: plain C on CPU cores.
 *
 *     mpicc -O3 jacobi.c -o jacobi -lm && mpirun -np 4 ./jacobi -niter 1000 -nx 1024 -ny 1024
 *
 * A stand-in to try the lab with: chapter 6 of the course's book uses a CUDA program whose source only the course has.
 * Replace this file and the Makefile beside it by that program; nothing else changes, as long as it prints the same line.
 * Each run first times process 0 alone, then all processes; the speedup is the ratio of these times.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds for `niter` iterations on nx x ny points by the processes of `team`. */
static double jacobi(MPI_Comm team, long niter, long nx, long ny)
{
    int rank, size;
    MPI_Comm_rank(team, &rank);
    MPI_Comm_size(team, &size);
    long rows = ny / size + (rank < ny % size);
    double *old = calloc((size_t)(rows + 2) * (size_t)nx, sizeof *old);
    double *new = calloc((size_t)(rows + 2) * (size_t)nx, sizeof *new);
    if (old == NULL || new == NULL) {
        fprintf(stderr, "A grid of %ldx%ld does not fit into memory.\n", nx, ny);
        MPI_Abort(MPI_COMM_WORLD, 3);
        return 0.0;
    }
    for (long y = 0; y < rows + 2; y++)
        old[y * nx] = new[y * nx] = old[y * nx + nx - 1] = new[y * nx + nx - 1] = 1.0;
    int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    MPI_Barrier(team);
    double began = MPI_Wtime();
    for (long i = 0; i < niter; i++) {
        MPI_Sendrecv(old + nx, (int)nx, MPI_DOUBLE, above, 0, old + (rows + 1) * nx, (int)nx, MPI_DOUBLE, below, 0,
                     team, MPI_STATUS_IGNORE);
        MPI_Sendrecv(old + rows * nx, (int)nx, MPI_DOUBLE, below, 1, old, (int)nx, MPI_DOUBLE, above, 1, team,
                     MPI_STATUS_IGNORE);
        double change = 0.0, most;
        for (long y = 1; y <= rows; y++)
            for (long x = 1; x < nx - 1; x++) {
                long at = y * nx + x;
                new[at] = 0.25 * (old[at - 1] + old[at + 1] + old[at - nx] + old[at + nx]);
                change += (new[at] - old[at]) * (new[at] - old[at]);
            }
        MPI_Allreduce(&change, &most, 1, MPI_DOUBLE, MPI_SUM, team);
        double *swap = old;
        old = new;
        new = swap;
        if (sqrt(most) < 1e-12)
            break;
    }
    MPI_Barrier(team);
    double seconds = MPI_Wtime() - began;
    free(old);
    free(new);
    return seconds;
}

int main(int argc, char **argv)
{
    long niter = 1000, nx = 1024, ny = 1024;
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "-niter") == 0)
            niter = atol(argv[i + 1]);
        else if (strcmp(argv[i], "-nx") == 0)
            nx = atol(argv[i + 1]);
        else if (strcmp(argv[i], "-ny") == 0)
            ny = atol(argv[i + 1]);
    }
    if (niter < 1 || nx < 3 || ny < size) {
        if (rank == 0)
            fprintf(stderr, "At least one iteration, three columns, and a row for each process.\n");
        MPI_Finalize();
        return 2;
    }
    double one = rank == 0 ? jacobi(MPI_COMM_SELF, niter, nx, ny) : 0.0;
    MPI_Barrier(MPI_COMM_WORLD);
    double all = jacobi(MPI_COMM_WORLD, niter, nx, ny);
    if (rank == 0)
        printf("%ldx%ld: 1 GPU: %8.4fs, %d GPUs: %8.4fs, speedup: %8.2f, efficiency: %8.2f\n", nx, ny, one, size, all,
               one / all, 100.0 * one / (size * all));
    MPI_Finalize();
    return 0;
}
