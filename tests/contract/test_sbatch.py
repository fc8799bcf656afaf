"""`sbatch`: what it answers, what it keeps, what it refuses and in which words."""

import os
import re
import shlex

import pytest

from tests.contract.jobs import PINNED, REFUSALS, Jobs

SAID_BY_SBATCH = {"bad-time", "bad-option", "bad-directive", "no-shebang", "missing", "en-dash", "blank-gres"}
"""Refused by sbatch itself, before it speaks to the controller."""


TRIES = ("sbatch --parsable", f"{PINNED}sbatch --test-only")


@pytest.fixture(scope="module")
def refusals(jobs: Jobs) -> dict[tuple[str, str], tuple[int, str, str]]:
    """Status and both streams of each of `REFUSALS` in each way of `TRIES`; one login shell asks them all."""
    before = living(jobs)
    asked = [
        f"({way} {text.format_map(jobs.words)}) >said 2>wrong; "
        f"printf '%s\\037' {name} '{way}' $? \"$(cat said)\" \"$(cat wrong)\""
        for name, (text, _, _) in REFUSALS.items()
        for way in TRIES
    ]
    answer = jobs.run("; ".join(asked))
    words = answer.stdout.decode().split("\x1f")[:-1]
    assert living(jobs) <= before, "a refused submission lives in the queue"
    return {
        (words[i], words[i + 1]): (int(words[i + 2]), *words[i + 3 : i + 5]) for i in range(0, len(words), 5)
    }


def living(jobs: Jobs) -> set[str]:
    return {job for job, row in jobs.queue().items() if row["%T"] in ("PENDING", "RUNNING")}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(refusals, name):
    _, status, words = REFUSALS[name]
    for way in TRIES:
        found, out, err = refusals[name, way]
        assert (found, out) == (status, ""), err
        assert re.search(words, err), err
    if name not in SAID_BY_SBATCH and name != "bad-gres":
        assert re.search(r"^(sbatch: error: .*\n)*(sbatch: error: )?allocation failure: \S", err), err


def test_test_only_tells_when_and_where(jobs):
    before = set(jobs.queue())
    answer = jobs.run(f"{PINNED}sbatch --test-only {jobs.gpu(4)} ok.sh")
    assert (answer.status, answer.out) == (0, "")
    said = (
        r"sbatch: Job \d+ to start at (\d+) (?:a )?using (\d+) processors on nodes (\S+) in partition (\S+)"
    )
    found = re.fullmatch(said, answer.err)
    assert found, answer.err
    assert (found[2], found[4]) == ("80", jobs.site.gpu_partition)
    local = jobs.run(f"unset SLURM_TIME_FORMAT; sbatch --test-only {jobs.gpu(4)} ok.sh")
    assert re.search(r" at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d ", local.err), local.err
    assert set(jobs.queue()) == before, "a test submits nothing"


def test_command_line_beats_the_directives(jobs):
    found = "--no-requeue --comment=labtui:tok-77 --job-name=Named-77 --output=o.%j.txt --error=e.%j.txt -t 7"
    job = jobs.submit(f"{found} {jobs.cpu} ok.sh")
    row = jobs.wait_for(job, "COMPLETED")
    assert (row["%k"], row["%j"], row["%l"]) == ("labtui:tok-77", "Named-77", "7:00")
    assert jobs.run(f"cat o.{job}.txt").out == "hello"
    assert jobs.run(f"cat e.{job}.txt").out == "trouble"


def test_second_debug_job_is_refused_until_the_first_is_over(jobs):
    site = jobs.site
    debug = f"-A {site.account} -q {site.debug_qos} -c 20 --gres=gpu:1 -t 10"
    first = jobs.submit(f"{debug} long.sh")
    for flag, last in (("--parsable", "Batch job submission failed"), ("--test-only", "allocation failure")):
        second = jobs.run(f"sbatch {flag} {debug} ok.sh")
        assert second.status == 1
        lines = [line.removeprefix("sbatch: error: ") for line in second.err.splitlines()]
        assert lines[0] == "QOSMaxSubmitJobPerUserLimit"
        policy = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
        assert lines[-1] == f"{last}: {policy}"
    assert jobs.run(f"scancel {first}").status == 0
    jobs.wait_for(first, "CANCELLED")
    again = jobs.submit(f"{debug} ok.sh")
    jobs.wait_for(again, "COMPLETED")


def test_missing_directory_fails_after_it_was_accepted(jobs):
    job = jobs.submit(f"{jobs.cpu} --chdir /gpfs/none ok.sh")
    assert jobs.wait_for(job, "FAILED")["%Z"] == "/gpfs/none"


WAITS = (
    "srun: Job JOB step creation temporarily disabled, retrying (Requested nodes are busy)",
    "srun: Step created for job JOB",
)
MORE_WAITS = {WAITS[0].replace("temporarily", "still"), "srun: Step created for StepId=JOB.STEP"}
"""After a longer wait, and the second of `WAITS` in the words of Slurm 24.11."""
TASK = "sh -c 'exit $SLURM_PROCID'"
TOO_MANY = "srun: error: Unable to create step for job JOB: More processors requested than permitted"

CASES: dict[str, tuple[str, int, list[str]]] = {
    # name: (what is run in a job of four tasks, its exit status, all its lines in alphabetical order)
    "all-tasks": ("srun echo hi", 0, ["hi"] * 4),
    "numbered": (
        "srun --ntasks=3 sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS; echo err >&2'", 0,
        ["0 of 3", "1 of 3", "2 of 3", "err", "err", "err"],
    ),
    "exported": ("MINE=1 srun -n 1 --export=ALL,WORD=said sh -c 'echo $WORD $MINE'", 0, ["said 1"]),
    "exported-alone": ("MINE=1 srun -n 1 --export=WORD=said /bin/sh -c 'echo $WORD $MINE'", 0, ["said"]),
    "per-node-alone": ("unset SLURM_NTASKS SLURM_NPROCS; srun -N 1 --tasks-per-node=2 echo x", 0, ["x", "x"]),
    "one-fails": (
        "srun -n 3 sh -c '[ $SLURM_PROCID != 1 ] || exit 3'", 3,
        ["srun: error: NODE: task 1: Exited with exit code 3"],
    ),
    "all-fail": ("srun sh -c 'exit 3'", 3, ["srun: error: NODE: tasks 0-3: Exited with exit code 3"]),
    "the-worst-counts": (
        f"srun -n 3 {TASK}", 2,
        [f"srun: error: NODE: task {number}: Exited with exit code {number}" for number in (1, 2)],
    ),
    "killed": (
        "srun -n 2 sh -c 'kill -9 $$'", 137,
        ["srun: Force Terminated StepId=JOB.STEP", "srun: error: NODE: tasks 0-1: Killed"],
    ),
    "no-program": (
        "srun -n 2 no-such-program", 2,
        [
            "slurmstepd-NODE: error: execve(): no-such-program: No such file or directory",
            "slurmstepd-NODE: error: execve(): no-such-program: No such file or directory",
            "srun: error: NODE: tasks 0-1: Exited with exit code 2",
        ],
    ),
    "too-many-tasks": ("srun -n 5 echo x", 1, [TOO_MANY]),
}  # fmt: skip


@pytest.fixture(scope="module")
def answers(jobs: Jobs) -> dict[str, tuple[int, list[str]]]:
    """What each case left: its exit status and its lines, sorted; all of them run in one job, one after another."""
    parts = [
        f"echo '=== {name}'; bash -c {shlex.quote(command)} 2>&1; status=$?; echo; echo \"=== status $status\""
        for name, (command, _, _) in CASES.items()
    ]
    text = "#!/bin/bash\n#SBATCH -n 4 -t 60 --output srun.%j.out\n" + "\n".join(parts) + "\n"
    jobs.site.write(f"{jobs.directory}/srun.sh", text.encode())
    job = jobs.submit(f"{jobs.cpu} srun.sh")
    node = jobs.wait_for(job, "COMPLETED", deadline_s=900)["%N"]
    log = jobs.run(f"cat srun.{job}.out").stdout.decode()
    log = re.sub(rf"\b{job}\.\d+\b", "JOB.STEP", log.replace(node, "NODE"))
    log = re.sub(rf"\bjob {job}\b", "job JOB", re.sub(rf"\bJob {job}\b", "Job JOB", log))
    pieces = re.findall(r"^=== (\S+)\n(.*?)\n=== status (\d+)$", log, re.MULTILINE | re.DOTALL)
    return {
        name: (int(status), sorted(line for line in text.split("\n") if line))
        for name, text, status in pieces
    }


REWORDED = {"no-program"}
"""Slurm 24.11 or 26.05 says these in other words (seen); labtui reads none of them. What a task prints is the same."""


def _of_tasks(lines: list[str]) -> list[str]:
    return sorted(line for line in lines if "srun:" not in line and "error:" not in line)


@pytest.mark.parametrize("name", CASES)
def test_srun(answers, name):
    _, status, lines = CASES[name]
    if name in REWORDED and os.environ.get("LABTUI_TEST_CLUSTER_ROOT"):
        assert (answers[name][0], _of_tasks(answers[name][1])) == (status, _of_tasks(lines))
        return
    # On the real cluster a step may be told of before its CPUs are free again: then the next one waits a moment.
    by_chance = {*MORE_WAITS, *WAITS} - set(lines)
    assert (answers[name][0], [line for line in answers[name][1] if line not in by_chance]) == (
        status, sorted(lines),
    )  # fmt: skip


ASKED = r"SLURM_(NTASKS|NPROCS|NTASKS_PER_NODE|TASKS_PER_NODE|CPUS_PER_TASK|CPUS_ON_NODE|STEP_NUM_TASKS)"
SHAPES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    # sbatch's words: (what the script is told, what a task of `srun` is told more or otherwise)
    "-c 4": (
        {"TASKS_PER_NODE": "1", "CPUS_PER_TASK": "4", "CPUS_ON_NODE": "4"},
        {"NTASKS": "1", "NPROCS": "1", "STEP_NUM_TASKS": "1"},
    ),
    "-n 2 -c 3": (
        {"NTASKS": "2", "NPROCS": "2", "TASKS_PER_NODE": "2", "CPUS_PER_TASK": "3", "CPUS_ON_NODE": "6"},
        {"STEP_NUM_TASKS": "2"},
    ),
    "--ntasks-per-node=3 -c 2": (
        {
            "NTASKS": "3", "NPROCS": "3", "NTASKS_PER_NODE": "3", "TASKS_PER_NODE": "3", "CPUS_PER_TASK": "2",
            "CPUS_ON_NODE": "6",
        },
        {"STEP_NUM_TASKS": "3"},
    ),
    "": ({"TASKS_PER_NODE": "1", "CPUS_ON_NODE": "1"}, {"NTASKS": "1", "NPROCS": "1", "STEP_NUM_TASKS": "1"}),
}  # fmt: skip


def test_a_job_and_its_tasks_know_their_shape(jobs):
    show = f"env | grep -E '^{ASKED}=' | sort"
    first = f"[ $SLURM_PROCID != 0 ] || {{ {show}; }}"
    text = f"#!/bin/bash\n#SBATCH -t 5 --output shape.%j.out\n{show}\necho ===\nsrun sh -c {shlex.quote(first)}\n"
    jobs.site.write(f"{jobs.directory}/shape.sh", text.encode())
    sent = {words: jobs.submit(f"{jobs.cpu} {words} shape.sh") for words in SHAPES}
    for words, (expected, more) in SHAPES.items():
        jobs.wait_for(sent[words], "COMPLETED")
        script, _, tasks = jobs.run(f"cat shape.{sent[words]}.out").out.partition("===\n")
        assert _variables(script) == expected, words
        assert _variables(tasks) == expected | more, words


def _variables(text: str) -> dict[str, str]:
    return dict(line.removeprefix("SLURM_").split("=", 1) for line in text.splitlines() if line)
