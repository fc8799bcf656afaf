"""From sbatch's command line and ``#SBATCH`` lines to a job, or to the refusal MareNostrum would print.

The order of precedence is Slurm's: the command line over ``SBATCH_*`` variables over the script's lines. The checks
come in Slurm's order: the file, the options, the site's own rules, then account, QoS and limits.
"""

from __future__ import annotations

import os.path
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labtui.practice.slurm.job import Call, Node, Qos, Site, time_limit

# name: (short form, takes a value: yes / no / optional)
KNOWN: dict[str, tuple[str, str]] = {
    "account": ("A", "yes"),
    "begin": ("b", "yes"),
    "chdir": ("D", "yes"),
    "comment": ("", "yes"),
    "constraint": ("C", "yes"),
    "cpus-per-gpu": ("", "yes"),
    "cpus-per-task": ("c", "yes"),
    "dependency": ("d", "yes"),
    "error": ("e", "yes"),
    "exclude": ("x", "yes"),
    "exclusive": ("", "optional"),
    "export": ("", "yes"),
    "gpus": ("G", "yes"),
    "gpus-per-node": ("", "yes"),
    "gres": ("", "yes"),
    "hold": ("H", "no"),
    "input": ("i", "yes"),
    "job-name": ("J", "yes"),
    "mail-type": ("", "yes"),
    "mail-user": ("", "yes"),
    "mem": ("", "yes"),
    "mem-per-cpu": ("", "yes"),
    "no-requeue": ("", "no"),
    "nodelist": ("w", "yes"),
    "nodes": ("N", "yes"),
    "ntasks": ("n", "yes"),
    "ntasks-per-node": ("", "yes"),
    "open-mode": ("", "yes"),
    "output": ("o", "yes"),
    "parsable": ("", "no"),
    "partition": ("p", "yes"),
    "qos": ("q", "yes"),
    "quiet": ("Q", "no"),
    "requeue": ("", "no"),
    "reservation": ("", "yes"),
    "signal": ("", "yes"),
    "tasks-per-node": ("", "yes"),
    "test-only": ("", "no"),
    "time": ("t", "yes"),
    "verbose": ("v", "no"),
    "version": ("V", "no"),
    "wait": ("W", "no"),
    "workdir": ("", "yes"),
    "wrap": ("", "yes"),
}
_SAME = {"tasks-per-node": "ntasks-per-node"}
"""Other spellings of an option."""
_FROM_ENVIRONMENT = (
    "account",
    "partition",
    "qos",
    "comment",
    "job-name",
    "error",
    "output",
    "open-mode",
    "reservation",
)
_FROM_ENVIRONMENT_TIME = "SBATCH_TIMELIMIT"


class OptionProblem(Exception):
    """What sbatch prints on stderr before it exits with 255."""


@dataclass(slots=True)
class Parsed:
    """Options by their long names, and what was left over."""

    options: dict[str, str] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)


def parse_words(
    words: Sequence[str], program: str = "sbatch", known: Mapping[str, tuple[str, str]] = KNOWN
) -> Parsed:
    """Options up to the first plain word; the rest is the script and its arguments. Raises OptionProblem."""
    parsed = Parsed()
    letters = {letter: name for name, (letter, _) in known.items() if letter}
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--":
            parsed.rest = list(words[position:])
            break
        if word.startswith("--"):
            position = _long(word[2:], words, position, parsed, known, program)
        elif word.startswith("-") and len(word) > 1:
            position = _short(word[1:], words, position, parsed, known, letters, program)
        else:
            parsed.rest = [word, *words[position:]]
            break
    return parsed


def _long(
    text: str,
    words: Sequence[str],
    position: int,
    parsed: Parsed,
    known: Mapping[str, tuple[str, str]],
    program: str,
) -> int:
    name, equals, value = text.partition("=")
    matches = [name] if name in known else sorted(full for full in known if full.startswith(name))
    advice = f'\nTry "{program} --help" for more information'
    if len(matches) > 1:
        them = " ".join(f"'--{full}'" for full in matches)
        raise OptionProblem(f"{program}: option '--{text}' is ambiguous; possibilities: {them}{advice}")
    if not matches:
        raise OptionProblem(f"{program}: unrecognized option '--{text}'{advice}")
    name = matches[0]
    takes = known[name][1]
    if takes == "no" and equals:
        raise OptionProblem(f"{program}: option '--{name}' doesn't allow an argument{advice}")
    if takes == "yes" and not equals:
        if position >= len(words):
            raise OptionProblem(f"{program}: option '--{name}' requires an argument{advice}")
        value = words[position]
        position += 1
    parsed.options[_SAME.get(name, name)] = value
    return position


def _short(
    text: str,
    words: Sequence[str],
    position: int,
    parsed: Parsed,
    known: Mapping[str, tuple[str, str]],
    letters: Mapping[str, str],
    program: str,
) -> int:
    while text:
        letter, text = text[0], text[1:]
        name = letters.get(letter)
        if name is None:
            raise OptionProblem(
                f"{program}: invalid option -- '{letter}'\nTry \"{program} --help\" for more information"
            )
        if known[name][1] == "optional":
            parsed.options[name] = text  # only what is glued to the letter is its value
            return position
        if known[name][1] == "no":
            parsed.options[name] = ""
            continue
        value = text
        if not value:
            if position >= len(words):
                raise OptionProblem(
                    f"{program}: option requires an argument -- '{letter}'\nTry \"{program} "
                    f'--help" for more information'
                )
            value = words[position]
            position += 1
        parsed.options[name] = value
        return position
    return position


def parse_script(text: str) -> dict[str, str]:
    """The options of the ``#SBATCH`` lines before the first command. Raises OptionProblem for a stray word."""
    options: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("#SBATCH"):
            try:
                words = shlex.split(line[len("#SBATCH") :], comments=True)
            except ValueError:
                words = line[len("#SBATCH") :].split()
            parsed = parse_words(words)
            if parsed.rest:
                raise OptionProblem(
                    f"sbatch: error: Invalid directive found in batch script: {parsed.rest[0]}"
                )
            options.update(parsed.options)
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return options


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Options from the ``SBATCH_*`` variables, by their long names."""
    options = {}
    for name in _FROM_ENVIRONMENT:
        value = environment.get("SBATCH_" + name.upper().replace("-", "_"))
        if value:
            options[name] = value
    if environment.get(_FROM_ENVIRONMENT_TIME):
        options["time"] = environment[_FROM_ENVIRONMENT_TIME]
    return options


POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
BAD_ACCOUNT = "Invalid account or account/partition combination specified"
CPUS_PER_GPU = 20


class Refused(Exception):
    """sbatch's stderr, without the ``sbatch: error:`` before each line, and its exit status.

    `final` is the reason the controller gave, empty when sbatch itself refused before asking it.
    """

    def __init__(self, lines: tuple[str, ...], final: str = "", status: int = 1) -> None:
        super().__init__("; ".join((*lines, final)))
        self.lines = lines
        self.final = final
        self.status = status

    def text(self, *, test_only: bool) -> str:
        """What sbatch prints to stderr."""
        lines = [f"sbatch: error: {line}" for line in self.lines]
        if self.final:
            head = "allocation failure" if test_only else "sbatch: error: Batch job submission failed"
            lines.append(f"{head}: {self.final}")
        return "".join(line + "\n" for line in lines)


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A submission that passed all checks that need no queue. Numbers are None where no option gave them."""

    name: str
    account: str
    qos: Qos
    partition: str
    cpus: int
    gpus: int
    gres: str
    tasks: int | None
    tasks_per_node: int | None
    nodes: int
    cpus_per_task: int | None
    time_limit_s: int
    work_dir: str
    output: str
    error: str
    comment: str
    requeue: bool
    append: bool
    held: bool
    begin_after_s: float


def read_script(call: Call, parsed: Parsed) -> tuple[bytes, str, str]:
    """(script, default job name, command) from --wrap, the named file, or standard input."""
    if "wrap" in parsed.options:
        return (
            f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{parsed.options['wrap']}\n".encode(),
            "wrap",
            "(null)",
        )
    if not parsed.rest:
        script, name, command = call.stdin, "sbatch", "(null)"
    else:
        path = Path(call.folder) / parsed.rest[0]
        name, command = path.name, str(path)
        try:
            script = path.read_bytes()
        except OSError:
            raise Refused((f"Unable to open file {parsed.rest[0]}",)) from None
    check_script(script)
    return script, name, command


def check_script(script: bytes) -> None:
    """Sbatch's checks of the script file. Raises Refused."""
    if not script:
        raise Refused(("Batch script is empty!",))
    if not script.strip():
        raise Refused(("Batch script contains only whitespace!",))
    if not script.startswith(b"#!"):
        raise Refused(
            (
                "This does not look like a batch script.  The first",
                "line must start with #! followed by the path to an interpreter.",
                "For instance: #!/bin/sh",
            )
        )
    if b"\0" in script:
        raise Refused(("The Slurm controller does not allow scripts that", "contain a NULL character '\\0'."))
    if b"\r\n" in script:
        raise Refused(
            ("Batch script contains DOS line breaks (\\r\\n)", "instead of expected UNIX line breaks (\\n).")
        )


def build_request(options: Mapping[str, str], *, name: str, work_dir: str, site: Site) -> JobRequest:
    """Check everything that does not depend on other jobs. Raises Refused."""
    limit = time_limit(options["time"]) if "time" in options else None
    if "time" in options and limit is None:
        raise Refused(("Invalid --time specification",), status=255)
    gpus, gres = _gpus(options)
    tasks, places = _tasks(options)
    per_task = _number(options, "cpus-per-task", 1)
    cpus = places * per_task
    qos_name, account, partition = _site_rules(options, gpus, (tasks or 1) * per_task)
    if partition not in site.partitions:
        raise Refused((f"invalid partition specified: {partition}",), "Invalid partition name specified")
    if account != site.account:
        raise Refused((), BAD_ACCOUNT)
    qos = site.find_qos(qos_name)
    if qos is None:
        raise Refused((), "Invalid qos specification")
    limit = qos.max_wall_s if limit is None else limit
    _check_size(options, site.nodes_of(partition), cpus, gpus, gres)
    _check_time(limit, qos, site)
    if options.get("reservation"):
        raise Refused((), "Requested reservation is invalid")
    folder = os.path.join(work_dir, options.get("chdir", options.get("workdir", "")) or ".")  # noqa: PTH118  remote paths are texts
    output = options.get("output", "slurm-%j.out")
    return JobRequest(
        name=options.get("job-name", name),
        account=account,
        qos=qos,
        partition=partition,
        cpus=max(1, cpus),
        gpus=gpus,
        gres=gres,
        tasks=tasks,
        tasks_per_node=_number(options, "ntasks-per-node", 0) or None,
        nodes=_number(options, "nodes", 1),
        cpus_per_task=per_task if "cpus-per-task" in options else None,
        time_limit_s=limit,
        work_dir=os.path.normpath(folder),
        output=output,
        error=options.get("error", output),
        comment=options.get("comment", ""),
        requeue="no-requeue" not in options,
        append=options.get("open-mode") == "append",
        held="hold" in options,
        begin_after_s=_begin(options.get("begin", "")),
    )


def _check_time(limit_s: int, qos: Qos, site: Site) -> None:
    """Raise Refused when partition or QoS allow less time."""
    if limit_s > site.max_partition_s:
        raise Refused((), "Requested time limit is invalid (missing or exceeds some limit)")
    if limit_s > qos.max_wall_s:
        raise Refused(("QOSMaxWallDurationPerJobLimit",), POLICY)


def _check_size(options: Mapping[str, str], nodes: tuple[Node, ...], cpus: int, gpus: int, gres: str) -> None:
    """Raise Refused when no node of the partition is large enough."""
    wanted = _number(options, "nodes", 1)
    if wanted > len(nodes):
        raise Refused((), "Node count specification invalid")
    if re.match(r"gres:gpu:[A-Za-z]", gres) and ":hopper" not in gres:
        raise Refused((), "Requested node configuration is not available")
    if cpus > sum(node.cpus for node in nodes):
        raise Refused((), "More processors requested than permitted")
    if gpus > max(node.gpus for node in nodes):
        raise Refused(
            ("CPU count per node can not be satisfied",), "Requested node configuration is not available"
        )
    if cpus > max(node.cpus for node in nodes) * wanted:
        raise Refused((), "Requested node configuration is not available")


def _begin(text: str) -> float:
    """Seconds to wait, from ``--begin=now+1hour`` and the like; moments by date are not kept back."""
    match = re.fullmatch(r"now(?:\+(\d+)(seconds?|minutes?|hours?|days?|weeks?)?)?", text.strip())
    if not text:
        return 0.0
    if not match:
        raise Refused((f"Invalid --begin specification: {text}",), status=255)
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[(match[2] or "s")[0]]
    return float(int(match[1] or 0) * unit)


def _gpus(options: Mapping[str, str]) -> tuple[int, str]:
    """GPUs per node, and the text squeue shows for them."""
    gres = options.get("gres", "")
    if not gres and ("gpus" in options or "gpus-per-node" in options):
        gres = "gpu:" + (options.get("gpus-per-node") or options["gpus"])
    if gres in ("", "none"):
        return 0, ""
    match = re.fullmatch(r"gpu(?::([A-Za-z][\w-]*))?(?:[:=](\d+))?", gres)
    if not match:
        raise Refused(("Invalid generic resource (gres) specification",))
    return int(match[2] or 1), f"gres:{gres}"


def _tasks(options: Mapping[str, str]) -> tuple[int | None, int]:
    """The requested tasks (None without an option), and for how many the job gets CPUs."""
    nodes, on_each = _number(options, "nodes", 1), _number(options, "ntasks-per-node", 0)
    tasks = _number(options, "ntasks", 0) or nodes * on_each
    return tasks or None, max(tasks or nodes, nodes * on_each)


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    match = re.fullmatch(r"(\d+)(?:-\d+)?", text.strip())
    if not match or int(match[1]) < 1:
        raise Refused((f'Invalid numeric value "{text}" for --{name}.',), status=255)
    return int(match[1])


def _site_rules(options: Mapping[str, str], gpus: int, cpus: int) -> tuple[str, str, str]:
    """MareNostrum's submit plugin: account and QoS are named, no memory, 20 CPUs per GPU; QoS picks the partition."""

    def refuse(sentence: str) -> Refused:
        return Refused((sentence,), "Unspecified error")

    account, qos = options.get("account"), options.get("qos")
    if not account:
        raise refuse("No account specified, please specify an account")
    if not qos:
        raise refuse("No QoS specified, please specify a QoS")
    if "mem" in options or "mem-per-cpu" in options:
        raise refuse(
            "Memory cannot be requested (--mem, --mem-per-cpu): it is set automatically per requested core"
        )
    if gpus and cpus < _number(options, "nodes", 1) * gpus * CPUS_PER_GPU:
        raise refuse("Minimum cpus requested should be (nodes * gpus/node * 20)")
    return qos, account, options.get("partition") or ("acc" if qos.startswith("acc_") else "gpp")
