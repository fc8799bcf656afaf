"""How the processes of a training meet, agree, and end: every failure is one sentence from one of them.

Started by torchrun, by `srun python` (a task for each GPU, MASTER_ADDR exported), or by python alone.

Exit codes: 0 done, 2 wrong options, 3 no usable data, 4 wrong devices or number of processes,
5 out of memory, 6 the processes did not find each other, 7 a process is gone,
143 terminated from outside, 1 anything else.
A process that ends because of another one ends with 1, so the cause is the one with another code.
"""

import contextlib
import json
import os
import re
import select
import signal
import socket
import sys
import threading
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
from course_log import CourseLog

EXIT_USAGE, EXIT_DATA, EXIT_DEVICES, EXIT_MEMORY, EXIT_RENDEZVOUS, EXIT_LOST = 2, 3, 4, 5, 6, 7
EXIT_FOLLOWS = 1
EXIT_TERMINATED = 128 + signal.SIGTERM
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
    """The processes of one training as one of them sees them."""

    def __init__(self, seconds):
        """Reads who we are from the launcher's variables; `seconds` is how long we wait for the others."""
        env = os.environ
        self.by_srun = "RANK" not in env and int(env.get("SLURM_STEP_NUM_TASKS", 1)) > 1
        names = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS") if self.by_srun else ()
        rank, local_rank, world = names or ("RANK", "LOCAL_RANK", "WORLD_SIZE")
        self.rank, self.local_rank = int(env.get(rank, 0)), int(env.get(local_rank, 0))
        self.world = int(env.get(world, 1))
        self.host = socket.gethostname()
        self.seconds = seconds
        self.owns_store = False
        self.store = None
        self.on_end = lambda reason: None  # called once before this process ends badly
        self._ending = threading.RLock()

    # ------------------------------------------------------------------------------------------ meeting

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
        self.store = dist.PrefixStore("try" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), self._open())
        self._watch()
        self.store.set(f"here/{self.rank}", self.host)
        if self.rank == 0:
            missing = self._missing("here", self.seconds)
            self.store.set("start", "missing" if missing else "go")
            if missing:
                raise Problem(
                    EXIT_RENDEZVOUS,
                    f"{len(missing)} of {self.world} processes did not join within {self.seconds:g} s: "
                    f"rank {_listed(missing)}. Joined: {self._present(missing)}.",
                )
        elif self._wait("start", self.seconds + PATIENCE) != b"go":
            self._leave(EXIT_FOLLOWS)

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
            here = f"Rank {self.rank} on {self.host}"
            why = f"{here} found no rank 0 at {address}:{port} within {self.seconds:g} s"
            if self.owns_store:
                why = f"{here} cannot listen on port {port} (a program of another job may hold it)"
            raise Problem(EXIT_RENDEZVOUS, f"{why}: {_first_line(error)}") from error

    def init(self, backend, device):
        """The process group for DDP, on the store where all have met."""
        wait = timedelta(seconds=max(self.seconds, 60))
        store = dist.PrefixStore("group", self.store)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.world, timeout=wait)

    # ------------------------------------------------------------------------------------------ agreeing

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
        self.store.set(f"{topic}/{self.rank}", json.dumps([problem, values]))
        if self.rank == 0:
            self.store.set(f"{topic}/verdict", json.dumps(self._verdict(topic, values)))
        verdict = json.loads(self._wait(f"{topic}/verdict", 2 * self.seconds))
        if verdict and self.rank == 0:
            raise Problem(*verdict)
        if verdict:
            self._wait("cause", self.seconds)  # rank 0 has said why before torchrun sees us end
            self._leave(EXIT_FOLLOWS if problem is None else problem[0])

    def _verdict(self, topic, values):
        missing = self._missing(topic, self.seconds)
        if missing:
            text = f"Rank {_listed(missing)} did not answer within {self.seconds:g} s about its {topic}."
            return [EXIT_LOST, f"{text} Here: {self._present(missing)}."]
        answers = [json.loads(self.store.get(f"{topic}/{rank}")) for rank in range(self.world)]
        bad = [rank for rank, (problem, _) in enumerate(answers) if problem]
        if bad:
            code, sentence = answers[bad[0]][0]
            also = "" if len(bad) == 1 else f" (the same or another problem on rank {_listed(bad[1:])})"
            where = "" if self.world == 1 else f"Rank {bad[0]} on {self._host_of(bad[0])}: "
            return [code, where + sentence + also]
        for rank, (_, other) in enumerate(answers):
            if other != values:
                where = f"Rank {rank} on {self._host_of(rank)} has other {topic} than rank 0 on {self.host}"
                return [EXIT_DATA, f"{where}: {other} and {values}."]
        return None

    # ------------------------------------------------------------------------------------------ ending

    def end(self, error):
        """Ends this process after an exception: gives the first cause, or is silent if another rank has."""
        if isinstance(error, Problem):
            self.fall(error.code, str(error), where=False)
        text = str(error)
        out_of_memory = isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
        if out_of_memory or _MEMORY.search(text):
            self.fall(EXIT_MEMORY, f"out of memory. {self.cure} PyTorch says: {_first_line(error)}")
        if isinstance(error, RuntimeError) and self.world > 1 and _CONNECTION.search(text):
            self.lost(_first_line(error))
        traceback.print_exception(type(error), error, error.__traceback__)
        self.fall(1, f"{type(error).__name__}: {_first_line(error)}")

    cure = "Try a smaller batch."

    def fall(self, code, sentence, where=True):
        """Says why the training ends, unless another rank has, and leaves with `code`."""
        self._alone()
        if where and self.world > 1:
            sentence = f"Rank {self.rank} on {self.host}: {sentence}"
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

    def lost(self, text, terminated=False):
        """The connection broke, or SIGTERM came: who is gone? Gives that, unless the cause is known."""
        self._alone()
        try:
            self.store.set("alarm", "1")
            self.store.set(f"alive/{self.rank}", "1")
            missing = self._missing("alive", PATIENCE, unless="cause")
            if self.store.check(["cause"]):
                self._leave(EXIT_TERMINATED if terminated else EXIT_FOLLOWS, self.store.get("cause").decode())
            gone = "; ".join(f"rank {rank} on {self._host_of(rank)}" for rank in missing)
        except RuntimeError:
            gone = "rank 0, where the processes meet"
        if gone and not (terminated and gone.startswith("rank 0,")):
            who = f"{gone} exited without an error message (killed, or its node failed)"
            self.fall(
                EXIT_LOST, f"{who[0].upper()}{who[1:]}; reported by rank {self.rank} on {self.host}.", False
            )
        if terminated:
            text = "The training was terminated from outside (cancelled, or out of time)."
            self.fall(EXIT_TERMINATED, text, where=False)
        self.fall(EXIT_LOST, f"lost the other processes, though all are alive: {text}")

    def _alone(self):
        """One thread ends the process; another that comes here waits for that."""
        if not self._ending.acquire(blocking=False):
            time.sleep(4 * PATIENCE)

    def _leave(self, code, reason="aborted"):
        self._alone()
        self.on_end(reason)
        with contextlib.suppress(RuntimeError, AttributeError):
            self.store.set(f"alive/{self.rank}", "1")
            self.store.set(f"left/{self.rank}", "1")
            if self.owns_store:
                self._missing("left", PATIENCE)  # the others still want to read why
        sys.stdout.flush()
        os._exit(code)  # no destructor may wait for a process that is gone

    def finish(self):
        """The training is over: nothing that happens now is a failure."""
        self._alone()
        with contextlib.suppress(RuntimeError):
            self.store.set(f"left/{self.rank}", "1")
            if self.owns_store:
                self._missing("left", PATIENCE)

    @staticmethod
    def leave():
        """Ends this process well, without destructors: the watching thread may be inside the store."""
        if dist.is_initialized():
            dist.destroy_process_group()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _watch(self):
        """Starts a thread for SIGTERM and another rank's alarm: the main one may sit in a collective."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

        def watch():
            while True:
                ready, _, _ = select.select([reader], [], [], 0.5)
                if ready and signal.SIGTERM in os.read(reader, 1):
                    self.lost("", terminated=True)
                with contextlib.suppress(RuntimeError):  # the store is gone: the main thread will find out
                    if self.world > 1 and self.store.check(["alarm"]):
                        self.store.set(f"alive/{self.rank}", "1")
                        if self.store.check(["cause"]):
                            self._leave(EXIT_FOLLOWS, self.store.get("cause").decode())

        threading.Thread(target=watch, name="watch", daemon=True).start()

    # ------------------------------------------------------------------------------------------ the store

    def _missing(self, topic, seconds, unless=None):
        """Ranks that have not set their key within so many seconds, or until the key `unless` is there."""
        until = time.monotonic() + seconds
        waiting = list(range(self.world))
        while True:
            waiting = [rank for rank in waiting if not self.store.check([f"{topic}/{rank}"])]
            if not waiting or time.monotonic() > until or (unless and self.store.check([unless])):
                return waiting
            time.sleep(0.05)

    def _wait(self, key, seconds):
        try:
            self.store.wait([key], timedelta(seconds=seconds))
            return self.store.get(key)
        except RuntimeError:
            sentence = f"rank 0 did not answer within {seconds:g} s."
            self.fall(EXIT_LOST, sentence)

    def _host_of(self, rank):
        return (
            self.store.get(f"here/{rank}").decode() if self.store.check([f"here/{rank}"]) else "unknown node"
        )

    def _present(self, missing):
        hosts = {}
        for rank in range(self.world):
            if rank not in missing:
                hosts.setdefault(self._host_of(rank), []).append(rank)
        return "; ".join(f"rank {_listed(ranks)} on {host}" for host, ranks in hosts.items())


def _listed(numbers):
    """0, 1, 2, 5 as "0-2, 5"."""
    parts = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


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
    team.leave()
