/* Estimates pi as the integral of 4 / (1 + x^2) from 0 to 1, by midpoints, in one process without MPI.
 *
 *     cc -O3 pi_seq.c -o pi_seq && ./pi_seq 4294967296
 *
 * The baseline of strong scaling. Written for labtui; the line is that of chapter 4 of the course's book.
 */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    long long n = argc > 1 ? atoll(argv[1]) : 1LL << 32;
    if (n < 1) {
        fprintf(stderr, "The number of intervals is at least 1.\n");
        return 2;
    }
    double began = now(), width = 1.0 / (double)n, sum = 0.0;
    for (long long i = 0; i < n; i++) {
        double x = ((double)i + 0.5) * width;
        sum += 4.0 / (1.0 + x * x);
    }
    printf("pi is about %.12f\n", sum * width);
    printf("Sequential execution time: %.2f ms\n", 1000.0 * (now() - began));
    return 0;
}
