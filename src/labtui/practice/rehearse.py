"""`python ResNet50.py ...` inside a practice job: the script really runs, only the training is simulated.

The student's script runs unchanged, with recording stand-ins for the frameworks (`stand_in/`): a wrong path, a pasted
dash, a curly quote, a missing file fail as on the cluster. A training takes as long as on MareNostrum 5 (`pace.py`), on
a clock that runs faster. Of PyTorch's processes only rank 0 runs, for all.
"""

import builtins
import os
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

IMAGES_FILE = "rehearsal.json"
"""A file in a data set's folder: the number of images of each part (``train``, ``val``)."""
_WALK = os.walk
_IN_RANK_0 = "LABTUI_PRACTICE_FOR_ALL"
"""Set in the process of rank 0."""


def _walk_data_set(top: str, *arguments: Any, **options: Any) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk`, except that a class folder of a practice data set seems to hold its share of the images."""
    folder = Path(top)
    if not (shares := _shares(folder.parent)):
        yield from _WALK(top, *arguments, **options)
        return
    yield str(top), [], [f"{number:05d}.JPEG" for number in range(shares[folder.name])]


@cache
def _shares(part: Path) -> dict[str, int]:
    """The number of images by class, of one part of a practice data set; empty for other folders."""
    import json

    notes = part.parent / IMAGES_FILE
    if not notes.is_file() or part.name not in (images := json.loads(notes.read_text(encoding="ascii"))):
        return {}
    classes = sorted(each.name for each in part.iterdir())
    share, more = divmod(images[part.name], len(classes))
    return {name: share + (place < more) for place, name in enumerate(classes)}


def torchrun(argv: list[str]) -> int:
    """PyTorch's launcher: rank 0 runs on the first node, the other nodes wait for its end. Returns the exit status."""
    options, at = {"nnodes": "1", "nproc_per_node": "1"}, 0
    while at < len(argv) and argv[at].startswith("-"):
        name, equals, value = argv[at].lstrip("-").replace("-", "_").partition("=")
        takes = not equals and name not in ("standalone", "no_python") and at + 1 < len(argv)
        options[name] = value if equals else argv[at + 1] if takes else ""
        at += 2 if takes else 1
    if at == len(argv):
        print("torchrun: error: the following arguments are required: training_script", file=sys.stderr)
        return 2
    counts = (options["nnodes"], options["nproc_per_node"])
    nodes, each = (int(count) if count.isdecimal() else 1 for count in counts)
    here = int(os.environ.get("SLURM_NODEID", "0"))
    environment = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(nodes * each)}
    environment |= {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    ended = _run_rank_0(argv[at:], environment, here * each)
    if ended and not here:
        host = os.environ.get("SLURMD_NODENAME", "localhost")
        text = (
            f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n{argv[at]} FAILED\n"
            f"Root Cause (first observed failure):\n[0]:\n  host      : {host}\n  rank      : 0 (local_rank: 0)\n"
            f"  exitcode  : {ended} (pid: 40000)"
        )
        print(text, file=sys.stderr, flush=True)
    return 1 if ended else 0


def _run_rank_0(argv: list[str], environment: dict[str, str], rank: int) -> int:
    """Run rank 0 in a process of its own if `rank` is 0, else wait for it. Returns its exit status."""
    folder = Path(os.environ.get("LABTUI_PRACTICE_JOB", "."))
    done = folder / f"rank-0.{os.environ.get('SLURM_STEP_ID', '0')}"
    if rank:
        while not done.exists() or not (ended := done.read_text(encoding="ascii")):
            time.sleep(0.1)
        return int(ended)
    import subprocess  # not needed by the waiting ranks

    environment = {**os.environ, **environment, _IN_RANK_0: "yes"}
    status = subprocess.call([sys.executable, "-u", __file__, *argv], env=environment)
    done.write_text(str(status), encoding="ascii")
    return status


def run_script(arguments: list[str]) -> int:
    """Run ``[options] script.py arguments`` as python would; return the exit status."""
    while arguments and arguments[0].startswith("-"):
        arguments = arguments[1:]
    script = arguments[0]
    if not Path(script).is_file():
        reason = "[Errno 2] No such file or directory"
        print(f"python: can't open file '{Path.cwd() / script}': {reason}", file=sys.stderr)
        return 2
    import socket
    import traceback

    sys.argv = arguments
    # The script's own folder first, then labtui's code, then what is installed here.
    sys.path[:1] = [str(Path(script).resolve().parent), str(Path(__file__).parents[2])]
    from labtui.practice.programs import PracticeClock, RehearsedTime, account, unaccounted_s
    from labtui.practice.stand_in import install

    RehearsedTime(PracticeClock.from_environment(), unaccounted_s()).install()
    install()
    socket.gethostname = lambda: os.environ.get("SLURMD_NODENAME", "localhost")  # the practice cluster's node
    os.walk = _walk_data_set  # type: ignore[assignment]  # takes a str only, as the scripts call it
    try:
        code = compile(Path(script).read_bytes(), script, "exec")
        module = type(sys)("__main__")
        module.__dict__.update(__file__=script, __builtins__=builtins)
        sys.modules["__main__"] = module
        exec(code, module.__dict__)  # noqa: S102  running the student's script is this process's purpose
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stdout.flush()
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:  # as the interpreter does at the top level
        sys.stdout.flush()
        # Without labtui's own frames, as if python itself had run the script with the frameworks.
        told, ours = traceback.TracebackException.from_exception(error), str(Path(__file__).parent)
        frames = [frame for frame in told.stack if not frame.filename.startswith(ours)]
        told.stack = traceback.StackSummary.from_list(frames)
        sys.stderr.writelines(told.format())
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        account()
    return 0


def main(argv: list[str]) -> int:
    """Run a script or torchrun; a rank that srun started beside rank 0 waits for rank 0. Returns the exit status."""
    if argv[:1] == ["torchrun"]:
        return torchrun(argv[1:])
    rank = os.environ.get("RANK", "")
    if rank and _IN_RANK_0 not in os.environ:  # srun has started a process for each rank
        status = _run_rank_0(argv, {}, int(rank))
        return 1 if status and rank != "0" else status
    return run_script(argv)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # as in the course's container
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # skips the interpreter's slow shutdown
