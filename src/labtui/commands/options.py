"""Options that several commands share, and the types of their numbers."""

import argparse
import re
from collections.abc import Callable
from functools import partial

from labtui.domain.terminal_text import printable
from labtui.slurm.values import number


def add_json(parser: argparse._ActionsContainer) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_lab(parser: argparse.ArgumentParser) -> None:
    """Add the lab folder, by its path alone or as ``--folder DIR``."""
    words = "the lab folder (default: the one here)"
    parser.add_argument("folder", nargs="?", default=argparse.SUPPRESS, metavar="FOLDER", help=words)
    add_folder(parser)


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Add ``--folder DIR`` and ``--trust``."""
    parser.add_argument("--folder", metavar="DIR", help="the lab folder (default: here or above)")
    add_trust(parser)


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add ``--trust``, which answers the question about a folder that came from somebody else."""
    parser.add_argument("--trust", action="store_true", help="trust the lab folder from now on")


def add_pattern(parser: argparse.ArgumentParser) -> None:
    """Add ``--pattern`` and ``--lab``, which describe lines that labtui does not know."""
    words = "also read lines that match; groups are named epoch, seconds, rate ... (see docs/log-forms.md)"
    parser.add_argument("--pattern", action="append", default=[], metavar="REGEX", help=words)
    words = "also read the lines of this lab's programs (hpc4ai-ch4, mine.toml)"
    parser.add_argument("--lab", default="", metavar="ID|FILE", help=words)


def add_sbatch(parser: argparse.ArgumentParser) -> None:
    """Add what stands in place of the options in a job script."""
    parser.add_argument("--time", type=count, metavar="MINUTES", help="time limit of each job")
    for name, text in (("qos", "QoS"), ("partition", "partition"), ("account", "account")):
        parser.add_argument(f"--{name}", default="", help=f"{text} given to sbatch instead")


def add_input(parser: argparse.ArgumentParser) -> None:
    """Add the logs with what describes them, or the folder."""
    words = "a task, or training logs (default: all runs of the lab)"
    parser.add_argument("files", nargs="*", metavar="TASK|FILE", help=words)
    parser.add_argument("--images", type=count, metavar="N", help="images per epoch, if not logged")
    add_folder(parser)
    add_pattern(parser)


_CONNECTION = {
    "host": ("HOST", "login host, or its name in your SSH configuration"),
    "port": ("N", "its SSH port"),
    "user": ("USER", "your user name there"),
    "identity": ("FILE", "private key file; only its path is stored"),
    "host_key": ("SHA256:...", "the fingerprint the host must show"),
    "account": ("A", "the account jobs are charged to"),
    "qos": ("Q", "the QoS for GPU jobs"),
    "partition": ("P", "the partition for GPU jobs"),
    "root": ("DIR", "the remote folder to work under"),
}
CONNECTION_KEYS = tuple(_CONNECTION)
"""The options of `add_connection` that are also settings of lab.toml."""


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add an option for each thing that the wizard asks about the cluster."""
    group = parser.add_argument_group("the cluster")
    group.add_argument("--cluster", metavar="PROFILE", help="a profile's id or .toml file (or give --host)")
    for key, (metavar, text) in _CONNECTION.items():
        option, kind = f"--{key.replace('_', '-')}", _TYPES.get(key, str)
        default = None if key == "port" else ""
        group.add_argument(option, type=kind, default=default, metavar=metavar, help=text)


def fingerprint(text: str) -> str:
    """The type of a host key's fingerprint."""
    if text and not re.fullmatch(r"SHA256:[A-Za-z0-9+/]{43}", text):
        shape = "SHA256: and 43 characters, as `ssh-keygen -lf` shows it"
        raise argparse.ArgumentTypeError(f"{text!r} is not {shape}")
    return text


def python(text: str) -> str:
    """The type of what has Python's packages: a module, or the absolute path of a Python (jobs run elsewhere)."""
    if re.search(r"\A[~.]|\bbin/python", text) and not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is not an absolute path, which begins with /")
    return text


def is_task_id(word: str) -> bool:
    """Whether a word has the form of a task's number: ``6``, ``10.5``, ``5b``."""
    return re.fullmatch(r"\d+(\.\d+)*[a-z]?", word) is not None


def run_number(text: str) -> int:
    """The type of a run's number: ``3`` or ``#3``."""
    found = number(text.removeprefix("#"))
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a run number")
    return found


def count(text: str, most: int = 1_000_000_000) -> int:
    """The type of a whole number from 1 to `most`: epochs, images of a batch, minutes."""
    found = number(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    if found > most:
        raise argparse.ArgumentTypeError(f"{found:,} is more than {most:,}")
    return found


_TYPES: dict[str, Callable[[str], object]] = {"port": count, "host_key": fingerprint}
epochs = partial(count, most=10_000)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the number of a run."""
    parser.add_argument("run", type=run_number, metavar="RUN", help="as `labtui queue` shows it")


def add_runs(parser: argparse.ArgumentParser, nargs: str = "+") -> None:
    """Add the numbers of runs."""
    parser.add_argument(
        "runs", nargs=nargs, type=run_number, metavar="RUN", help="as `labtui queue` shows it"
    )


def add_show_commands(parser: argparse.ArgumentParser) -> None:
    """Add ``--show-commands``."""
    parser.add_argument("--show-commands", action="store_true", help="print shell commands; send nothing")


def add_sending(parser: argparse.ArgumentParser) -> None:
    """Add how far to go, and which findings are overridden."""
    parser.add_argument("--dry-run", action="store_true", help="show script, files, findings; send nothing")
    parser.add_argument("--offline", action="store_true", help="with --dry-run: ask no cluster either")
    words = "override the errors found; the reason is printed on the last page of the hand-in"
    parser.add_argument("--force", default="", type=printable, metavar="REASON", help=words)
    parser.add_argument("--yes", action="store_true", help="ask nothing, even in a terminal")
    add_show_commands(parser)
    parser.add_argument("--wait", action="store_true", help="wait until Slurm has accepted all of them")
    add_json(parser)
