"""Where the time of a training step goes, measured on one step in ten.

On the rank that finishes its backward pass last, a step consists of waiting for data, computing, and the part
of the gradients' all-reduce that does not overlap with computing. All other ranks wait for that one.
"""

import time

import torch
import torch.distributed as dist

EVERY = 10
"""One step in ten is timed, because a timed step waits for the GPU at its start and at its end."""


class StepTimes:
    """Times the steps of one process; `ddp` is its DDP model, None if it trains alone."""

    def __init__(self, ddp, device):
        self.ddp, self.device = ddp, device
        self.steps = []  # for each timed step: (seconds, seconds waiting for its batch, step number)
        self.exposed = {}  # by step number: seconds of all-reduce after the last gradient was ready
        self.number = 0  # of the step, from 1, across epochs, as DDP counts
        if ddp is not None:
            ddp._set_ddp_runtime_logging_sample_rate(EVERY)

    def batches(self, loader):
        """Yields the loader's batches, and times the caller's steps with them."""
        batches = iter(loader)
        while True:
            timed = (self.number + 1) % EVERY == 0
            began = self._now() if timed else 0.0
            try:
                batch = next(batches)
            except StopIteration:
                return
            waited = time.perf_counter() - began
            self.number += 1
            yield batch
            if timed:
                self.steps.append((self._now() - began, waited, self.number))
            self._read_ddp()

    def _now(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def _read_ddp(self):
        """Reads DDP's times of a timed step, which are there once the next step has begun."""
        if self.ddp is None or self.number % EVERY != 1 or self.number == 1:
            return
        said = self.ddp._get_ddp_logging_data()
        if "backward_comm_time" in said:
            seconds = (said["backward_comm_time"] - said["backward_compute_comm_overlap_time"]) / 1e9
            self.exposed[said["iteration"]] = max(0.0, seconds)

    def take(self, team):
        """Mean seconds of the parts of the steps timed since the last call; {} if there are too few steps."""
        if self.ddp is None and team.world > 1:  # no exchange of gradients: nothing to split
            return {}
        steps, self.steps = self.steps, []
        if team.world > 1:
            known = [step for step in steps if step[2] in self.exposed]
            steps = [(seconds, waited, self.exposed.pop(number)) for seconds, waited, number in known]
        else:
            steps = [(seconds, waited, 0.0) for seconds, waited, _ in steps]
        everyone = [steps]
        if team.world > 1:
            everyone = [None] * team.world
            dist.all_gather_object(everyone, steps)
        return summary(everyone) if steps else {}


def summary(ranks):
    """The mean parts of a step, from (seconds, waited, exposed) of each timed step of each rank.

    The last rank is the one that waits least in the all-reduce. The imbalance is how much longer it computes
    than the fastest rank does on average.
    """
    count = len(ranks[0])
    computing = [[seconds - waited - exposed for seconds, waited, exposed in steps] for steps in ranks]
    fastest = min(sum(each) / count for each in computing)
    last = [min(range(len(ranks)), key=lambda rank: ranks[rank][step][2]) for step in range(count)]
    chosen = [ranks[rank][step] for step, rank in enumerate(last)]
    seconds, waited, exposed = (sum(part) / count for part in zip(*chosen))
    slowest = max(set(last), key=last.count)
    return {
        "step_seconds": seconds,
        "step_data_seconds": waited,
        "step_compute_seconds": fastest,
        "step_imbalance_seconds": seconds - waited - exposed - fastest,
        "step_allreduce_seconds": exposed,
        "last_rank": slowest,
        "last_rank_share": last.count(slowest) / count,
    }
