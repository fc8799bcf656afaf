"""How the processes of a training meet, agree, and end: every failure is one sentence from one of them.

Started by torchrun, by `srun python` (a task for each GPU, MASTER_ADDR exported), or by python alone.

Exit codes: 0 done, 2 wrong options, 3 no usable data, 4 wrong devices or number of processes,
5 out of memory, 6 the processes did not find each other, 7 a process is gone,
143 terminated from outside, 1 anything else.
A process that ends because of another one ends with 1, so the cause is the one with another code.
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
from mllog import EXIT_TERMINATED, TERMINATED, on_sigterm

EXIT_USAGE, EXIT_DATA, EXIT_DEVICES, EXIT_MEMORY, EXIT_RENDEZVOUS, EXIT_LOST = 2, 3, 4, 5, 6, 7
EXIT_FOLLOWS = 1
REASONS = {EXIT_MEMORY: "out of memory", EXIT_TERMINATED: "terminated", EXIT_DATA: "no data"}
PATIENCE = 3
"""Seconds in which the other processes say that they are alive, after one has lost its connection."""
_MEMORY = re.compile("out of memory|can't allocate memory|not enough memory", re.IGNORECASE)
_CONNECTION = re.compile(
    "gloo|nccl|connection (?:closed|reset|refused)|broken pipe|timed? ?out|store", re.IGNORECASE
)


class Problem(Exception):
    """Something that can be put right: a sentence, and the exit code that goes with it."""

    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code = code


class Team:
    """The processes of one training as one of them sees them. They talk through a store that rank 0 holds."""

    cure = "Try a smaller batch."

    def __init__(self, seconds):
        """Reads who we are from the launcher's variables; `seconds` is how long we wait for the others."""
        env = os.environ
        self.by_srun = "RANK" not in env and int(env.get("SLURM_STEP_NUM_TASKS", 1)) > 1
        names = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS") if self.by_srun else ()
        rank, local_rank, world = names or ("RANK", "LOCAL_RANK", "WORLD_SIZE")
        self.rank, self.local_rank = int(env.get(rank, 0)), int(env.get(local_rank, 0))
        self.world = int(env.get(world, 1))
        self.host, self.seconds = socket.gethostname(), seconds
        self.store, self.owns_store = None, False
        self.on_end = lambda reason: None  # called once before this process ends badly
        self._ending = threading.RLock()

    def meet(self, expected=None):
        """Waits until all processes are here. Raises Problem."""
        if expected and expected != self.world:
            if self.rank:  # rank 0 speaks for all; torchrun would end it as soon as another has ended
                time.sleep(min(self.seconds, 30))
            started = f"{self.world} process{'es' * (self.world > 1)}"
            raise Problem(
                EXIT_DEVICES,
                f"--expect_world_size is {expected}, but the launcher started {started}: "
                "compare --nodes, --nproc_per_node (torchrun) or --ntasks (srun) with it.",
            )
        attempt = "try" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self.store = dist.PrefixStore(attempt, self._open())
        on_sigterm(lambda: self._lost("", terminated=True), self._follow)
        self._tell("here", self.host)
        if self.rank:
            if self._answer("start", self.seconds + PATIENCE) != b"go":
                self._leave(EXIT_FOLLOWS)
            return
        missing = self._missing("here", self.seconds)
        self.store.set("start", "missing" if missing else "go")
        if missing:
            text = f"{len(missing)} of {self.world} processes did not join within {self.seconds:g} s: "
            text += f"rank {_listed(missing)}. Joined: {self._others(missing)}."
            raise Problem(EXIT_RENDEZVOUS, text)

    def _open(self):
        if self.world == 1:
            return dist.HashStore()
        address = os.environ.get("MASTER_ADDR")
        port = int(os.environ.get("MASTER_PORT") or 20000 + int(os.environ.get("SLURM_JOB_ID", 9500)) % 10000)
        if not address:
            hint = 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
            raise Problem(EXIT_RENDEZVOUS, f"MASTER_ADDR is not set; in the job script: {hint}")
        agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # torchrun has opened it
        self.owns_store = self.rank == 0 and not agents
        wait = timedelta(seconds=self.seconds)
        try:
            return dist.TCPStore(address, port, None, self.owns_store, wait, wait_for_workers=False)
        except (RuntimeError, ValueError) as error:
            why = f"found no rank 0 at {address}:{port} within {self.seconds:g} s"
            if self.owns_store:
                why = f"cannot listen on port {port} (a program of another job may hold it)"
            here = f"Rank {self.rank} on {self.host}"
            raise Problem(EXIT_RENDEZVOUS, f"{here} {why}: {_first_line(error)}") from error

    def init(self, backend, device):
        """The process group for DDP, on the store where all have met."""
        wait = timedelta(seconds=max(self.seconds, 60))
        store = dist.PrefixStore("group", self.store)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.world, timeout=wait)

    @contextlib.contextmanager
    def together(self, topic):
        """What is done inside succeeds on all ranks, or fails on all with the first rank's Problem.

        Yields a list; values put into it have to be the same on all ranks.
        """
        problem, values = None, []
        try:
            yield values
        except Problem as found:
            problem = [found.code, str(found)]
        self._tell(topic, json.dumps([problem, values]))
        if self.rank == 0:
            self.store.set(f"{topic}/verdict", json.dumps(self._verdict(topic, values)))
        verdict = json.loads(self._answer(f"{topic}/verdict", 2 * self.seconds))
        if verdict and self.rank == 0:
            raise Problem(*verdict)
        if verdict:
            self._answer("cause", self.seconds)  # rank 0 has said why before torchrun sees us end
            self._leave(problem[0] if problem else EXIT_FOLLOWS)

    def _verdict(self, topic, values):
        missing = self._missing(topic, self.seconds)
        if missing:
            text = f"Rank {_listed(missing)} did not answer within {self.seconds:g} s about its {topic}."
            return [EXIT_LOST, f"{text} Here: {self._others(missing)}."]
        answers = [json.loads(self.store.get(f"{topic}/{rank}")) for rank in range(self.world)]
        bad = [rank for rank, (problem, _) in enumerate(answers) if problem]
        if bad:
            code, sentence = answers[bad[0]][0]
            also = f" (the same or another problem on rank {_listed(bad[1:])})" if bad[1:] else ""
            where = "" if self.world == 1 else f"Rank {bad[0]} on {self._host(bad[0])}: "
            return [code, where + sentence + also]
        for rank, (_, other) in enumerate(answers):
            if other != values:
                where = f"Rank {rank} on {self._host(rank)} has other {topic} than rank 0 on {self.host}"
                return [EXIT_DATA, f"{where}: {other} and {values}."]
        return None

    # ------------------------------------------------------------------------------------------ ending

    def end(self, error):
        """Ends this process after an exception: gives the first cause, or is silent if another rank has."""
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
        """The connection broke, or SIGTERM came: who is gone? Gives that, unless the cause is known."""
        self._alone()
        try:
            self.store.set("alarm", "1")
            self._tell("alive")
            missing = self._missing("alive", PATIENCE, unless="cause")
            if self.store.check(["cause"]):
                code = EXIT_TERMINATED if terminated else EXIT_FOLLOWS
                self._leave(code, self.store.get("cause").decode())
            gone = "; ".join(f"rank {rank} on {self._host(rank)}" for rank in missing)
        except RuntimeError:
            gone = "" if terminated else "rank 0, where the processes meet"
        if gone:
            who = f"{gone[0].upper()}{gone[1:]} exited without an error message (killed, or its node failed)"
            self._fail(EXIT_LOST, f"{who}; reported by rank {self.rank} on {self.host}.")
        if terminated:
            self._fail(EXIT_TERMINATED, TERMINATED)
        self._fail(EXIT_LOST, f"{self._here()}lost the other processes, though all are alive: {text}")

    def _follow(self):
        """Called twice a second: ends this process when another one has said why it ends."""
        with contextlib.suppress(RuntimeError):  # the store is gone: the main thread will find out
            if self.world > 1 and self.store.check(["alarm"]):
                self._tell("alive")
                if self.store.check(["cause"]):
                    self._leave(EXIT_FOLLOWS, self.store.get("cause").decode())

    def _fail(self, code, sentence):
        """Says why the training ends, unless another rank has, and leaves with `code`."""
        self._alone()
        reason = REASONS.get(code, "aborted")
        try:
            first = self.store is None or self.store.add("causes", 1) == 1
        except RuntimeError:  # the store went with its process
            first = code != EXIT_TERMINATED or self.rank == 0
        if not first and code == EXIT_LOST:
            code = EXIT_FOLLOWS
        # before they have met, all ranks see the same and rank 0 speaks, if it has come
        if first and (self.store is not None or self.rank == 0 or code == EXIT_RENDEZVOUS):
            print("error: " + " ".join(sentence.split()), file=sys.stderr, flush=True)
        with contextlib.suppress(RuntimeError, AttributeError):
            self.store.set("cause", reason)
            self.store.set("alarm", "1")
        self._leave(code, reason)

    def _leave(self, code, reason="aborted"):
        self._alone()
        self.on_end(reason)
        with contextlib.suppress(RuntimeError, AttributeError):
            self._tell("alive")
            self._wave()
        sys.stdout.flush()
        os._exit(code)  # no destructor may wait for a process that is gone

    def finish(self):
        """Ends this process well: nothing that happens now is a failure, no destructor waits for a thread."""
        self._alone()
        with contextlib.suppress(RuntimeError):
            self._wave()
        if dist.is_initialized():
            dist.destroy_process_group()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _alone(self):
        """One thread ends the process; another that comes here waits for that."""
        if not self._ending.acquire(blocking=False):
            time.sleep(4 * PATIENCE)

    # ------------------------------------------------------------------------------------------ the store

    def _tell(self, topic, value="1"):
        self.store.set(f"{topic}/{self.rank}", value)

    def _wave(self):
        """Leaves word of going; whoever holds the store waits for the others, who still want to read why."""
        self._tell("left")
        if self.owns_store:
            self._missing("left", PATIENCE)

    def _missing(self, topic, seconds, unless=None):
        """Ranks that have not told it within so many seconds, or until the key `unless` is there."""
        until = time.monotonic() + seconds
        waiting = list(range(self.world))
        while True:
            waiting = [rank for rank in waiting if not self.store.check([f"{topic}/{rank}"])]
            if not waiting or time.monotonic() > until or (unless and self.store.check([unless])):
                return waiting
            time.sleep(0.05)

    def _answer(self, key, seconds):
        try:
            self.store.wait([key], timedelta(seconds=seconds))
            return self.store.get(key)
        except RuntimeError:
            self._fail(EXIT_LOST, f"{self._here()}rank 0 did not answer within {seconds:g} s.")

    def _host(self, rank):
        key = f"here/{rank}"
        return self.store.get(key).decode() if self.store.check([key]) else "unknown node"

    def _others(self, missing):
        """Who is there, by node."""
        ranks = sorted((self._host(rank), rank) for rank in range(self.world) if rank not in missing)
        by_host = itertools.groupby(ranks, lambda pair: pair[0])
        return "; ".join(f"rank {_listed([rank for _, rank in group])} on {host}" for host, group in by_host)

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
    """This rank's device. Raises Problem."""
    if args.device == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if not count:
        hint = "ask Slurm for GPUs and start the container with --nv; to train on the CPU add --device cpu"
        raise Problem(EXIT_DEVICES, f"PyTorch sees no GPU: {hint}.")
    local = 0 if team.by_srun and count == 1 else team.local_rank  # one task per GPU sees its own only
    if local >= count:
        raise Problem(
            EXIT_DEVICES,
            f"{local + 1} processes on {team.host} want a GPU each, but PyTorch sees {count}: "
            "lower --nproc_per_node, or ask Slurm for as many (#SBATCH --gres=gpu:N counts per node).",
        )
    return torch.device("cuda", local)


def run(train, args, cure):
    """`train(args, team, log)` from the meeting to the end; `cure` is what helps against a lack of memory."""
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
