"""A stand-in for nvidia-smi: a table, or ``--query-gpu`` as CSV, with values that move as under load.

It shows the GPUs Slurm gave to the job (CUDA_VISIBLE_DEVICES) and none outside of one.
"""

import argparse
import datetime
import math
import os
import sys
import time

TOTAL_MIB = 65247
UNITS = {
    "utilization.gpu": " %", "utilization.memory": " %", "memory.total": " MiB", "memory.used": " MiB",
    "power.draw": " W", "clocks.sm": " MHz",
}  # fmt: skip
TITLES = {name: f"{name} [{unit.strip()}]" for name, unit in UNITS.items()}
TITLES["clocks.sm"] = "clocks.current.sm [MHz]"


def devices():
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [part for part in visible.split(",") if part.strip().isdigit()]


def reading(index):
    now = time.time()
    swing = 0.5 + 0.5 * math.sin(now / 3.0 + index)
    return {
        "timestamp": datetime.datetime.now().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3],
        "index": str(index), "name": "NVIDIA H100",
        "utilization.gpu": str(80 + int(19 * swing)), "utilization.memory": str(40 + int(30 * swing)),
        "memory.total": str(TOTAL_MIB), "memory.used": str(61000 + int(900 * swing)),
        "power.draw": f"{420 + 180 * swing:.2f}", "clocks.sm": "1755",
        "clocks_throttle_reasons.active": "0x0000000000000004",  # the power cap; newer drivers name it otherwise
    }  # fmt: skip


def print_csv(fields, style, heading):
    if heading:
        titles = (
            name if "nounits" in style and name not in UNITS else TITLES.get(name, name) for name in fields
        )
        print(", ".join(titles))
    for index, _ in enumerate(devices()):
        values = reading(index)
        for field in fields:
            if field not in values:
                sys.exit(f'Field "{field}" is not a valid field to query.\n')
        units = {} if "nounits" in style else UNITS
        print(", ".join(values[field] + units.get(field, "") for field in fields))
    sys.stdout.flush()


def print_table():
    print(time.strftime("%a %b %e %H:%M:%S %Y"))
    print("+" + "-" * 77 + "+")
    print("| NVIDIA-SMI 535.86.10    Driver Version: 535.86.10    CUDA Version: 12.2".ljust(78) + "|")
    print("+" + "-" * 77 + "+")
    for index, _ in enumerate(devices()):
        values = reading(index)
        row = (
            f"|   {index}  {values['name']:<22} 57C  P0"
            f" {values['power.draw']:>7}W / 700W |"
            f" {values['memory.used']:>6}MiB / {TOTAL_MIB}MiB | {values['utilization.gpu']:>3}% |"
        )
        print(row)
    print("+" + "-" * 77 + "+")


def main():
    parser = argparse.ArgumentParser(prog="nvidia-smi", allow_abbrev=False)
    parser.add_argument("--query-gpu", default="")
    parser.add_argument("--format", default="csv")
    parser.add_argument("--loop", type=int, default=0)
    options = parser.parse_args()
    if not devices():
        print("No devices were found")
        return 6
    fields = [name.strip() for name in options.query_gpu.split(",") if name.strip()]
    heading = True
    while True:
        if fields:
            print_csv(fields, options.format, heading)
        else:
            print_table()
        heading = False
        if not options.loop:
            return 0
        time.sleep(options.loop)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
