"""How the processes of a training find each other, agree and end; one sentence from one of them per failure.

They are started by torchrun, by `srun python` (a task per GPU, MASTER_ADDR exported), or by python alone.

Exit codes: 0 done, 2 wrong options, 3 no usable data, 4 wrong devices or number of processes,
5 out of memory, 6 the processes did not find each other, 7 a process is gone,
143 terminated from outside, 1 anything else.
A process that ends because another one has ended returns 1, so the cause is the one with another code.
"""

import contextlib
import itertools
import json
import os
import re
import socket
import sys
import threading
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
from course_log import CourseLog
from mllog import EXIT_TERMINATED, TERMINATED, Problem, on_sigterm

EXIT_USAGE, EXIT_DATA, EXIT_DEVICES, EXIT_MEMORY, EXIT_RENDEZVOUS, EXIT_LOST = 2, 3, 4, 5, 6, 7
EXIT_FOLLOWS = 1
REASONS = {EXIT_MEMORY: "out of memory", EXIT_TERMINATED: "terminated", EXIT_DATA: "no data"}
PATIENCE = 3
"""Seconds that the others have to send a heartbeat, after a process has lost its connection."""
_MEMORY = re.compile("out of memory|can't allocate memory|not enough memory", re.IGNORECASE)
_CONNECTION = re.compile(
    "gloo|nccl|connection (?:closed|reset|refused)|broken pipe|timed? ?out|store", re.IGNORECASE
)


def open_store(rank, world, host, seconds):
    """Returns the store by which the processes communicate, and whether this one hosts it. Raises Problem."""
    if world == 1:
        return dist.HashStore(), False
    address = os.environ.get("MASTER_ADDR")
    port = int(os.environ.get("MASTER_PORT") or 20000 + int(os.environ.get("SLURM_JOB_ID", 9500)) % 10000)
    if not address:
        hint = 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
        raise Problem(EXIT_RENDEZVOUS, f"MASTER_ADDR is not set; in the job script: {hint}")
    agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # torchrun has opened it
    owns, wait = rank == 0 and not agents, timedelta(seconds=seconds)
    try:
        return dist.TCPStore(address, port, None, owns, wait, wait_for_workers=False), owns
    except (RuntimeError, ValueError) as error:
        why = f"found no rank 0 at {address}:{port} within {seconds:g} s"
        if owns:
            why = f"cannot listen on port {port} (a program of another job may hold it)"
        raise Problem(EXIT_RENDEZVOUS, f"Rank {rank} on {host} {why}: {_first_line(error)}") from error


class Team:
    """The processes of a training, seen from one of them. They communicate through a store on rank 0."""

    cure = "Try a smaller batch."

    def __init__(self, seconds):
        """Reads rank and world size from the launcher's variables; waits `seconds` for the others later."""
        env = os.environ
        self.by_srun = "RANK" not in env and int(env.get("SLURM_STEP_NUM_TASKS", 1)) > 1
        names = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS") if self.by_srun else ()
        rank, local_rank, world = names or ("RANK", "LOCAL_RANK", "WORLD_SIZE")
        self.rank, self.local_rank = int(env.get(rank, 0)), int(env.get(local_rank, 0))
        self.world = int(env.get(world, 1))
        self.host, self.seconds = socket.gethostname(), seconds
        self.store, self.owns_store = None, False
        self.hosts = {}  # by rank, of the processes that have joined
        self.on_end = lambda reason: None  # called once before this process ends with an error
        self._ending = threading.RLock()

    def meet(self, expected=None):
        """Waits until all processes have joined. Raises Problem."""
        if expected and expected != self.world:
            if self.rank:  # rank 0 reports for all, and torchrun would end it as soon as another one ends
                time.sleep(min(self.seconds, 30))
            started = f"{self.world} process{'es' * (self.world > 1)}"
            raise Problem(
                EXIT_DEVICES,
                f"--expect_world_size is {expected}, but the launcher started {started}: "
                "compare --nodes, --nproc_per_node (torchrun) or --ntasks (srun) with it.",
            )
        attempt = "try" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store, self.owns_store = open_store(self.rank, self.world, self.host, self.seconds)
        self.store = dist.PrefixStore(attempt, store)
        self._show_life()
        self._tell("here", self.host)
        on_sigterm(lambda: self._lost("", terminated=True), self._look)
        until = time.monotonic() + self.seconds + PATIENCE * (self.rank > 0)  # rank 0 reports first
        missing = list(range(self.world))
        while missing and time.monotonic() < until:
            missing = [rank for rank in missing if not self.store.check([f"here/{rank}"])]
            time.sleep(0.05)
        here = [rank for rank in range(self.world) if rank not in missing]
        self.hosts = {rank: self.store.get(f"here/{rank}").decode() for rank in here}
        if missing:
            text = f"{len(missing)} of {self.world} processes did not join within {self.seconds:g} s: "
            places = ", ".join(sorted(set(self.hosts.values())))
            text += f"rank {_listed(missing)}. Joined: rank {_listed(here)} on {places}."
            raise Problem(EXIT_RENDEZVOUS, text)

    def init(self, backend, device):
        """Initializes the process group for DDP, on the same store."""
        wait = timedelta(seconds=max(self.seconds, 60))
        store = dist.PrefixStore("group", self.store)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.world, timeout=wait)

    @contextlib.contextmanager
    def together(self, topic):
        """A context that succeeds on all ranks or fails on all, with the Problem of the first that has one.

        Yields a list; the values put into it must be the same on all ranks.
        """
        problem, values = None, []
        try:
            yield values
        except Problem as found:
            problem = [found.code, str(found)]
        self._tell(topic, json.dumps([problem, values]))
        keys = [f"{topic}/{rank}" for rank in range(self.world)]
        self.store.wait(keys, timedelta(seconds=2 * self.seconds))
        answers = [json.loads(self.store.get(key)) for key in keys]
        bad = [rank for rank, (wrong, other) in enumerate(answers) if wrong or other != answers[0][1]]
        if bad and bad[0] != self.rank:
            self.store.wait(["cause"], timedelta(seconds=self.seconds))  # that rank reports the cause
            self._fail(EXIT_FOLLOWS, "")
        if bad:
            differs = f"{topic} differs from rank 0's on {self.hosts[0]}: {values} and {answers[0][1]}"
            code, sentence = problem or [EXIT_DATA, differs]
            raise Problem(code, self._here() + sentence)

    # ------------------------------------------------------------------------------------------ ending

    def end(self, error):
        """Ends this process after an exception; prints the cause unless another rank already has."""
        text, line = str(error), _first_line(error)
        if isinstance(error, Problem):
            self._fail(error.code, text)
        if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__ or _MEMORY.search(text):
            self._fail(EXIT_MEMORY, f"{self._here()}out of memory. {self.cure} PyTorch says: {line}")
        if isinstance(error, RuntimeError) and self.world > 1 and _CONNECTION.search(text):
            self._lost(line)
        traceback.print_exception(type(error), error, error.__traceback__)
        self._fail(1, f"{self._here()}{type(error).__name__}: {line}")

    def _lost(self, text, terminated=False):
        """Ends this process after a lost connection or SIGTERM; reports lost ranks if no cause is known."""
        self._alone()
        try:
            gone = self._silent()
        except RuntimeError:  # the store is gone with its process
            gone = [] if terminated else [0]
        if gone:
            who = "; ".join(f"rank {rank} on {self.hosts.get(rank, 'unknown node')}" for rank in gone)
            what = "exited without an error message (killed, or its node failed)"
            by = f"reported by rank {self.rank} on {self.host}"
            self._fail(EXIT_LOST, f"{who[0].upper()}{who[1:]} {what}; {by}.")
        if terminated:
            self._fail(EXIT_TERMINATED, TERMINATED)
        self._fail(EXIT_LOST, f"{self._here()}lost the other processes, though all are alive: {text}")

    def _silent(self):
        """Ranks that send no heartbeat for PATIENCE seconds; none once the cause is known."""
        last = {rank: self.store.get(f"alive/{rank}") for rank in self.hosts if rank != self.rank}
        until = time.monotonic() + PATIENCE
        while last and time.monotonic() < until and not self.store.check(["cause"]):
            self._show_life()  # the others may be checking, too
            time.sleep(0.1)
            now = {rank: self.store.get(f"alive/{rank}") for rank in last}
            last = {rank: said for rank, said in last.items() if now[rank] == said != b"left"}
        return [] if self.store.check(["cause"]) else list(last)

    def _look(self):
        """Called twice a second: ends this process once another one has stored a cause."""
        with contextlib.suppress(RuntimeError):  # the store is gone: the main thread will notice
            self._show_life()
            if self.store.check(["cause"]):
                self._fail(EXIT_FOLLOWS, "")

    def _fail(self, code, sentence):
        """Reports why the training ends, unless another rank has, and exits with `code`."""
        self._alone()
        reason = REASONS.get(code, "aborted")
        try:
            first = self.store is None or self.store.add("causes", 1) == 1
        except RuntimeError:  # the store is gone with its process
            first = code != EXIT_TERMINATED or self.rank == 0
        if not first and code != EXIT_TERMINATED:
            code = EXIT_FOLLOWS
        # Before they have joined, all ranks see the same problem, and only rank 0 reports it.
        if first and (self.store is not None or self.rank == 0 or code == EXIT_RENDEZVOUS):
            print("error: " + " ".join(sentence.split()), file=sys.stderr, flush=True)
        with contextlib.suppress(RuntimeError, AttributeError):
            if first:
                self.store.set("cause", reason)
            self.store.wait(["cause"], timedelta(seconds=PATIENCE))
            reason = self.store.get("cause").decode()
        self.on_end(reason)
        self._leave(code)

    def finish(self):
        """Ends this process with success: later errors do not count, and no destructor waits for a thread."""
        self._alone()
        self._leave(0)

    def _leave(self, code):
        """Exits with `code`; the host of the store first waits for the others, which still read the cause."""
        with contextlib.suppress(RuntimeError, AttributeError):
            self._tell("alive", "left")
            until = time.monotonic() + PATIENCE
            others = [f"alive/{rank}" for rank in self.hosts if self.owns_store]
            while time.monotonic() < until and any(self.store.get(key) != b"left" for key in others):
                time.sleep(0.05)
        if code == 0 and dist.is_initialized():
            dist.destroy_process_group()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # no destructor may wait for a process that is gone

    def _alone(self):
        """Lets only one thread end the process; any other waits here for the end."""
        if not self._ending.acquire(blocking=False):
            time.sleep(4 * PATIENCE)

    def _tell(self, topic, value):
        self.store.set(f"{topic}/{self.rank}", value)

    def _show_life(self):
        self._tell("alive", str(time.monotonic()))

    def _here(self):
        return f"Rank {self.rank} on {self.host}: " if self.world > 1 else ""


def _listed(numbers):
    """0, 1, 2, 5 as "0-2, 5"."""
    runs = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    parts = [[number for _, number in run] for _, run in runs]
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _first_line(error):
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


def choose_device(args, team):
    """The device of this rank. Raises Problem."""
    if args.device == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if not count:
        hint = "ask Slurm for GPUs and start the container with --nv; to train on the CPU add --device cpu"
        raise Problem(EXIT_DEVICES, f"PyTorch sees no GPU: {hint}.")
    local = 0 if team.by_srun and count == 1 else team.local_rank  # a task per GPU sees only its own
    if local >= count:
        raise Problem(
            EXIT_DEVICES,
            f"{local + 1} processes on {team.host} want a GPU each, but PyTorch sees {count}: "
            "lower --nproc_per_node, or ask Slurm for as many (#SBATCH --gres=gpu:N counts per node).",
        )
    return torch.device("cuda", local)


def run(train, args, cure):
    """Joins the team, calls `train(args, team, log)` and ends; `cure` is the advice if memory runs out."""
    team = Team(args.rendezvous_timeout)
    team.cure = cure
    log = CourseLog(team.rank)
    team.on_end = lambda reason: log.run_stop("aborted", reason=reason)
    try:
        team.meet(args.expect_world_size)
        train(args, team, log)
    except Exception as error:
        team.end(error)
    team.finish()
