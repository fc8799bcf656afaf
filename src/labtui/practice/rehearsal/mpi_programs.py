"""A program that the practice cluster "compiled": `python -I -S mpi_programs.py SOURCE FLAGS -- ARGUMENTS...`.

It prints what the program of that source prints, after the time that the course's book gives for it (tables 4.2, 4.3
and 6.1), on the practice cluster's clock. SLURM_NTASKS says on how many processes; the standard library alone.
"""

from __future__ import annotations

import math
import os
import random
import sys
import time

PI_MS = {2: 2394.17, 4: 1198.30, 8: 601.04, 16: 308.02, 32: 160.61, 64: 216.27}
"""Table 4.2: milliseconds for 2^32 intervals."""
PI_SEQUENTIAL_MS = 4430.33
PI_WEAK_MS = (4215.08, 4221.51)
"""Table 4.3: the times for 2^32 intervals on each process lie between these, whatever their number."""
JACOBI_S = {
    32768: {1: 735.2762, 2: 368.7384, 4: 186.6551, 8: 95.7559, 16: 50.1935, 32: 27.9415},
    16384: {1: 186.0001, 2: 94.8350, 4: 49.5587, 8: 26.6790, 16: 15.5745, 32: 10.1108},
    8192: {1: 47.8084, 2: 25.8286, 4: 14.9914, 8: 9.3924, 16: 6.6131, 32: 4.9353},
}
"""Table 6.1: seconds for 100,000 iterations on a square grid, by its side."""
JACOBI_BUILT = {"default": {1: 648.9119, 4: 165.7268}, "optimized": {1: 191.3045, 4: 50.8229}}
"""The same on 16384 x 16384 as other targets build it (tasks 6.3 and 6.5)."""
NOISE = 0.001
"""Spread between runs, as a fraction (standard deviation)."""


def between(table: dict[int, float], count: int) -> float:
    """The table's value for a number of processes; between and beyond its rows along lines of the logarithms."""
    if count in table:
        return table[count]
    known = sorted(table)
    low = max((n for n in known if n < count), default=known[0])
    high = min((n for n in known if n > count), default=known[-1])
    if low == high:
        low, high = (known[0], known[1]) if count < known[0] else (known[-2], known[-1])
    slope = math.log(table[high] / table[low]) / math.log(high / low)
    return table[low] * math.exp(slope * math.log(count / low))


def wait(seconds: float) -> None:
    """Let so much of the cluster's time pass."""
    time.sleep(seconds / max(1e-6, float(os.environ.get("LABTUI_PRACTICE_FACTOR", "1"))))


def noisy(value: float) -> float:
    return value * math.exp(random.gauss(0.0, NOISE))


def pi(source: str, flags: list[str], arguments: list[str], count: int) -> None:
    """pi_seq.c and pi_mpi.c."""
    n = int(arguments[0]) if arguments else 1 << 32
    share = n / (1 << 32)
    if source == "pi_seq.c":
        milliseconds = noisy(PI_SEQUENTIAL_MS * share)
    elif "-DWEAK" in flags:
        milliseconds = random.uniform(*PI_WEAK_MS) * share / count
    else:
        milliseconds = noisy(share * (between(PI_MS, count) if count > 1 else 2 * PI_MS[2]))
    wait(milliseconds / 1000)
    print(f"pi is about {math.pi:.12f}")
    if source == "pi_seq.c":
        print(f"Sequential execution time: {milliseconds:.2f} ms")
    elif "-DWEAK" in flags:
        print(f"Parallel execution time with {count} processes and n = {n}: {milliseconds:.2f} ms")
    else:
        print(f"Parallel execution time with {count} processes: {milliseconds:.2f} ms")


def jacobi(flags: list[str], arguments: list[str], count: int) -> None:
    """jacobi.c, as if each process had a GPU."""
    build = next((flag.partition("=")[2] for flag in flags if flag.startswith("-DBUILD=")), "cub")
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    nx, ny, niter = (int(options.get(name, "1024")) for name in ("-nx", "-ny", "-niter"))
    side = min(JACOBI_S, key=lambda known: abs(math.log(known * known / (nx * ny))))
    share = nx * ny / side**2 * niter / 100_000
    slower = JACOBI_BUILT.get(build, JACOBI_S[16384])
    ratio = {n: seconds / JACOBI_S[16384][n] for n, seconds in slower.items() if n in JACOBI_S[16384]}
    one = noisy(JACOBI_S[side][1] * share * ratio[1])
    many = one if count == 1 else noisy(between(JACOBI_S[side], count) * share * ratio.get(count, ratio[4]))
    wait(one + many)
    speedup = one / many
    print(
        f"{nx}x{ny}: 1 GPU: {one:8.4f}s, {count} GPUs: {many:8.4f}s, speedup: {speedup:8.2f}, "
        f"efficiency: {100 * speedup / count:8.2f}"
    )


def main() -> None:
    mark = sys.argv.index("--")
    source, flags, arguments = sys.argv[1], sys.argv[2:mark], sys.argv[mark + 1 :]
    count = 1 if source == "pi_seq.c" else int(os.environ.get("SLURM_NTASKS", "1"))
    if source in ("pi_seq.c", "pi_mpi.c"):
        pi(source, flags, arguments, count)
    elif source == "jacobi.c":
        jacobi(flags, arguments, count)
    else:
        sys.exit(
            f"The practice cluster cannot rehearse {source}: only programs that come with labtui have times."
        )


if __name__ == "__main__":
    main()
