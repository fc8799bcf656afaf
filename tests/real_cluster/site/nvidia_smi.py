"""A stand-in for nvidia-smi: a table, or ``--query-gpu`` as CSV, with values that move as under load.

It shows the GPUs Slurm gave to the job (CUDA_VISIBLE_DEVICES) and none outside of one.
"""

import argparse
import datetime
import math
import os
import sys
import time
from pathlib import Path

TOTAL_MIB = 65247
UNITS = {
    "utilization.gpu": " %", "utilization.memory": " %", "memory.total": " MiB", "memory.used": " MiB",
    "memory.free": " MiB", "power.draw": " W", "power.limit": " W", "clocks.sm": " MHz", "clocks.mem": " MHz",
}  # fmt: skip
TITLES = {name: f"{name} [{unit.strip()}]" for name, unit in UNITS.items()}
TITLES["clocks.sm"] = "clocks.current.sm [MHz]"


def devices():
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [part for part in visible.split(",") if part.strip().isdigit()]


def reading(index):
    now = time.time()
    swing = 0.5 + 0.5 * math.sin(now / 3.0 + index)
    used = 61000 + int(900 * swing)
    return {
        "timestamp": datetime.datetime.now().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3],
        "index": str(index), "gpu_uuid": f"GPU-00000000-0000-0000-0000-{index:012d}",
        "uuid": f"GPU-00000000-0000-0000-0000-{index:012d}",
        "name": "NVIDIA H100", "gpu_name": "NVIDIA H100", "count": str(len(devices())),
        "driver_version": "535.86.10", "pstate": "P0", "pci.bus_id": f"00000000:{0x1B + index:02X}:00.0",
        "utilization.gpu": str(80 + int(19 * swing)), "utilization.memory": str(40 + int(30 * swing)),
        "memory.total": str(TOTAL_MIB), "memory.used": str(used), "memory.free": str(TOTAL_MIB - used),
        "temperature.gpu": str(48 + int(9 * swing)), "power.draw": f"{420 + 180 * swing:.2f}",
        "power.limit": "700.00", "clocks.sm": "1755", "clocks.mem": "2619",
        "clocks_throttle_reasons.active": "0x0000000000000004",  # the power cap; newer drivers name it otherwise
    }  # fmt: skip


def print_csv(fields, style, heading):
    if heading and "noheader" not in style:
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
            f"|   {index}  {values['name']:<22} {values['temperature.gpu']}C  P0"
            f" {values['power.draw']:>7}W / 700W |"
            f" {values['memory.used']:>6}MiB / {TOTAL_MIB}MiB | {values['utilization.gpu']:>3}% |"
        )
        print(row)
    print("+" + "-" * 77 + "+")


def main():
    parser = argparse.ArgumentParser(prog="nvidia-smi", allow_abbrev=False)
    parser.add_argument("--query-gpu", default="")
    parser.add_argument("--format", default="csv")
    parser.add_argument("-l", "--loop", type=int, default=0)
    parser.add_argument("-lms", "--loop-ms", type=int, default=0)
    parser.add_argument("-f", "--filename", default="")
    parser.add_argument("-L", "--list-gpus", action="store_true")
    parser.add_argument("-i", "--id", default="")
    options = parser.parse_args()
    if options.filename:
        sys.stdout = Path(options.filename).open("w", encoding="utf-8")  # noqa: SIM115 - as long as the program
    if not devices():
        print("No devices were found")
        return 6
    if options.list_gpus:
        for index, _ in enumerate(devices()):
            print(f"GPU {index}: NVIDIA H100 (UUID: {reading(index)['uuid']})")
        return 0
    pause = options.loop or options.loop_ms / 1000
    fields = [name.strip() for name in options.query_gpu.split(",") if name.strip()]
    heading = True
    while True:
        if fields:
            print_csv(fields, options.format, heading)
        else:
            print_table()
        heading = False
        if not pause:
            return 0
        time.sleep(pause)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
