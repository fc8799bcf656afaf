"""Time and memory of `labtui export` for a whole lab, on two cores.

    python -m benchmarks.export_lab [--edition sa-miri-2025-pg] [--repeat 3]

Makes a temporary lab folder with every run that the edition plans, an answer to every question and the scripts that its
reference declares; then exports it in a process of its own, limited to two cores if the system allows it, with and
without charts, deck and report, so that the ratio shows what these cost. Seconds do not compare across machines; the
budget is 10 s on two cores, and 250 MB. Exit status 1 if it is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT_S, LIMIT_MB = 10.0, 250
ANSWER = "The efficiency falls because the last batch is short and the all-reduce does not shrink. " * 4

CHILD = """
import json, resource, sys, time
began = time.perf_counter()
from pathlib import Path
from tests.lab.published import published_lab
from labtui.session.labs import load_edition
from labtui.export import REPORTS, export_lab
full = sys.argv[3] == "full"
state = published_lab(load_edition(sys.argv[2])).state
decks, reports = (("pptx", "pdf"), REPORTS) if full else ((), ())
report = export_lab(Path(sys.argv[1]), state=state, formats=decks, reports=reports, plots=full)
used = resource.getrusage(resource.RUSAGE_SELF)
peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
spent = {"seconds": time.perf_counter() - began, "cpu": used.ru_utime + used.ru_stime}
print(json.dumps(spent | {"peak": peak, "files": len(report.files)}))
"""


def make_folder(path: Path, name: str) -> None:
    """A lab folder with answers and changed scripts."""
    from labtui.session.folder import LabFolder
    from labtui.session.labs import load_edition, open_answers
    from labtui.session.settings import Settings
    from tests.lab.proof import own_script_texts

    edition = load_edition(name)
    folder = LabFolder.create(path, Settings(edition=name, profile="mn5", group="Group 1"))
    for name, text in own_script_texts(edition).items():
        (folder.scripts / name).write_text(text, encoding="utf-8")
    for task in edition.tasks:
        if task.questions:
            sheet = open_answers(folder, task)
            text = sheet.read_text(encoding="utf-8").replace("<!-- your answer -->", ANSWER)
            sheet.write_text(text, encoding="utf-8")


def two_cores() -> None:
    """Limit this process to two cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:2]))


def measure(folder: Path, edition: str, what: str) -> dict[str, float]:
    """Export once, in a process of its own; return its figures."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder), edition, what],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=two_cores if os.name == "posix" else None,
    )
    return json.loads(done.stdout)


def main() -> int:
    """Measure and print the figures; return 1 if the budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edition", default="sa-miri-2025-pg", help="the longest of the four by default")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="labtui-bench-") as name:
        folder = Path(name) / "lab"
        make_folder(folder, options.edition)
        full = [measure(folder, options.edition, "full") for _ in range(options.repeat)]
        bare = [measure(folder, options.edition, "bare") for _ in range(options.repeat)]
    seconds = statistics.median(each["seconds"] for each in full)
    without = statistics.median(each["seconds"] for each in bare)
    peak = max(each["peak"] for each in full)
    print(f"{options.edition}: {full[0]['files']:.0f} files, median of {options.repeat}")
    cpu = statistics.median(each["cpu"] for each in full)
    print(
        f"  whole export   {seconds:6.2f} s   computing for {cpu:.2f} s   (promised: below {LIMIT_S:.0f} s)"
    )
    print(f"  peak memory    {peak / 1e6:6.0f} MB   (promised: below {LIMIT_MB} MB)")
    print(f"  tables alone   {without:6.2f} s   the rest costs {seconds / without:.1f} times as much")
    return 0 if seconds < LIMIT_S and peak < LIMIT_MB * 1e6 else 1


if __name__ == "__main__":
    sys.exit(main())
