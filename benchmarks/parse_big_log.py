"""How fast a large log is read, compared with a regular expression on each line and with `wc -l`, in one run.

    python benchmarks/parse_big_log.py [--megabytes 1000] [--variant lines joined lines3 joined3 pytorch pytorch-ranks]

Each variant's file is made in a temporary folder. `lines` has one update of Keras 2's bar per line, `joined` one epoch
per line, whose updates are joined by backspaces and carriage returns as in real files; `lines3` and `joined3` are the
same with Keras 3's bars. `pytorch` has one ImageNet progress line per batch; `pytorch-ranks` (only on request) the same
with short epochs, validations and the prefix of a rank.

Each reader runs in a process of its own and reports its peak resident memory. Only the ratios compare across machines.
Exit status 0 if in all variants labtui read every epoch, and faster than the plain loop (PyTorch's lines: in at most
`MOST` times its time).
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CHUNK = 1 << 20
STEPS = 2000
PLAIN = {
    "2": re.compile(rb"\s*(\d+)/(\d+) \[[=>.]*\] - (\d+)s (\d+)(s|ms|us)/step(.*)"),
    "3": re.compile(rb"\s*\x1b\[1m *(\d+)/(\d+)\x1b.* \x1b\[1m(\d+)s\x1b\[0m (\d+)(s|ms|us)/step(.*)"),
}
PLAIN_PYTORCH = re.compile(
    rb"(?:\d+: )?Epoch: \[(\d+)\]\[ *(\d+)/(\d+)\]\s+Time +([\d.]+) \( *([\d.]+)\)(.*)"
)


VARIANTS = ("lines", "joined", "lines3", "joined3", "pytorch")
MOST = {"pytorch": 2.0}
"""How many times the loop's time labtui may take; 1 for other variants."""


def old_bar(done: int, total: int, last: bool) -> bytes:
    filled = done * 30 // total
    bar = "=" * 30 if last else "=" * max(0, filled - 1) + ">" + "." * (30 - max(1, filled))
    left = total - done
    time_field = "412s 206ms/step" if last else f"ETA: {left // 5 // 60}:{left // 5 % 60:02d}"
    metrics = f"loss: {2.3 - done / total / 3:.4f} - accuracy: 0.1{done:04d}"
    return f"{done:4d}/{total} [{bar}] - {time_field} - {metrics}".encode()


def new_bar(done: int, total: int, last: bool) -> bytes:
    width = 20 * done // total
    bar = f"\x1b[32m{chr(0x2501) * width}\x1b[0m\x1b[37m{chr(0x2501) * (20 - width)}\x1b[0m"
    left = total - done
    time_field = "412s" if last else f"{left // 5 // 60}:{left // 5 % 60:02d}"
    metrics = f"accuracy: 0.1{done:04d} - loss: 2.1{done:03d}"
    return f"\x1b[1m{done:4d}/{total}\x1b[0m {bar} \x1b[1m{time_field}\x1b[0m 206ms/step - {metrics}".encode()


def pytorch_line(done: int, total: int, last: bool) -> bytes:
    return (
        f"Epoch: [0][{done - 1:4d}/{total}]\tTime  0.5{done % 100:02d} ( 0.633)\tData  0.273 ( 0.283)\t"
        f"Loss 6.9{done % 100:02d}e+00 (6.9e+00)\tAcc@1   0.00 (  0.12)\tAcc@5   0.78 (  0.61)\n"
    ).encode()


def epoch(variant: str) -> bytes:
    """The bytes of one epoch, without its header."""
    if variant == "pytorch-ranks":  # short epochs and validations, as `srun -l` marks them
        training = [pytorch_line(done, 50, done == 50) for done in range(1, 51)]
        validation = [line.replace(b"Epoch: [0]", b"Test: ") for line in training[:20]]
        return b"".join(
            b"0: " + line for line in (*training, *validation, b" *   Acc@1 10.130 Acc@5 30.862\n")
        )
    if variant == "pytorch":
        return b"".join(pytorch_line(done, STEPS, done == STEPS) for done in range(1, STEPS + 1))
    bar = new_bar if variant.endswith("3") else old_bar
    pieces = [bar(done, STEPS, last=False) for done in range(1, STEPS)] + [bar(STEPS, STEPS, last=True)]
    if variant.startswith("lines"):
        return b"\n".join(pieces) + b"\n"
    return b"\r" + b"".join(piece + b"\b" * len(piece) + b"\r" for piece in pieces[:-1]) + pieces[-1] + b"\n"


def write(path: Path, variant: str, size: int) -> int:
    """Write about `size` bytes; return the number of epochs."""
    body = epoch(variant)
    if variant.startswith("joined"):  # one epoch may be hundreds of megabytes long
        inner, final = body[: body.rindex(b"\r") + 1], body[body.rindex(b"\r") + 1 :]
        body = inner * max(1, size // 4 // len(inner)) + final
    count = max(1, size // len(body))
    with path.open("wb") as out:
        for number in range(1, count + 1):
            if variant.startswith("pytorch"):
                out.write(body.replace(b"Epoch: [0]", b"Epoch: [%d]" % (number - 1)))
            else:
                out.write(b"Epoch %d/%d\n" % (number, count) + body)
    return count


# --------------------------------------------------------------------------- the readers, each in a process of its own


def read_labtui(path: Path) -> int:
    from labtui.training_logs.reader import parse_log

    def chunks() -> Iterator[bytes]:
        with path.open("rb") as source:
            while chunk := source.read(CHUNK):
                yield chunk

    return sum(len(run.epochs) for run in parse_log(chunks()).runs)


def read_plain(path: Path) -> int:
    """The obvious ten lines: a regular expression on each line, or on the last piece of a joined epoch.

    It looks at the beginning to choose one expression for the whole file.
    """
    with path.open("rb") as source:
        head = source.read(4000)
    pattern = PLAIN["3" if b"\x1b" in head else "2"]
    pytorch = b"Epoch: [" in head
    found = 0
    with path.open("rb") as source:
        for raw in source:
            if pytorch:
                match = PLAIN_PYTORCH.match(raw)
                found += bool(match and int(match[2]) + 1 == int(match[3]))
                continue
            line = raw[raw.rindex(b"\r") + 1 :] if b"\r" in raw else raw
            match = pattern.match(line)
            found += bool(match and match[1] == match[2])
    return found


def read_wc(path: Path) -> int:
    return int(subprocess.run(["wc", "-l", str(path)], capture_output=True, check=True).stdout.split()[0])


READERS = {"labtui": read_labtui, "plain loop": read_plain, "wc -l": read_wc}


def child(reader: str, path: Path) -> None:
    READERS[reader](Path("/dev/null"))  # so that imports and start-up are not measured
    start = time.perf_counter()
    found = READERS[reader](path)
    seconds = time.perf_counter() - start
    print(json.dumps({"found": found, "seconds": seconds, "peak_mb": peak_megabytes()}))


def peak_megabytes() -> float:
    """Peak resident memory of this process in MB (getrusage would include the process it was forked from)."""
    status = Path("/proc/self/status")
    if status.exists():
        match = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        if match:
            return int(match[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << 20 if sys.platform == "darwin" else 1 << 10
    )


def measure(reader: str, path: Path, rounds: int) -> dict[str, float]:
    """The fastest of some rounds, because other load only adds time."""
    command = [sys.executable, __file__, "--child", reader, str(path)]
    answers = [
        json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(rounds)
    ]
    return min(answers, key=lambda answer: answer["seconds"])


def report(variant: str, megabytes: int, rounds: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.out"
        epochs = write(path, variant, megabytes * 1_000_000)
        size = path.stat().st_size / 1e6
        answers = {name: measure(name, path, rounds) for name in READERS}
    plain = answers["plain loop"]["seconds"]
    print(f"\n{variant}: {size:,.0f} MB, {epochs} epochs")
    for name, answer in answers.items():
        rate = size / answer["seconds"]
        ratio = plain / answer["seconds"]
        print(f"  {name:<11}{rate:10,.0f} MB/s {ratio:8.2f} x plain loop   peak {answer['peak_mb']:7.1f} MB")
    complete = answers["labtui"]["found"] == epochs
    print(f"  labtui read {answers['labtui']['found']:.0f} of {epochs} epochs")
    return complete and answers["labtui"]["seconds"] < plain * MOST.get(variant, 1.0)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--variant", nargs="*", default=list(VARIANTS))
    parser.add_argument("--child", nargs=2, metavar=("READER", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], Path(options.child[1]))
        return 0
    answers = [report(variant, options.megabytes, options.rounds) for variant in options.variant]
    return 0 if all(answers) else 1


if __name__ == "__main__":
    sys.exit(main())
