"""Where the time of a training step goes, measured on one step in ten.

On the rank that is last to finish its backward pass a step is, one after the other: waiting for data,
computing, and the part of the gradients' all-reduce that no computing hides. All others wait for that rank.
"""

import time

import torch
import torch.distributed as dist

EVERY = 10
"""A step that is timed waits for the GPU at its start and at its end, so few are."""


class StepTimes:
    """Times the steps of the epochs of one process; `ddp` is None where it trains alone."""

    def __init__(self, ddp, device):
        self.ddp, self.device = ddp, device
        self.steps = []  # of each timed step: (seconds, seconds it waited for its batch, its number)
        self.exposed = {}  # seconds of all-reduce after the last gradient was ready, by the step's number
        self.number = 0  # of the step, from 1, through all epochs; DDP counts the same
        if ddp is not None:
            ddp._set_ddp_runtime_logging_sample_rate(EVERY)

    def batches(self, loader):
        """The loader's batches; times the steps that the caller makes of them."""
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
        """DDP tells of a step once the next one has begun."""
        if self.ddp is None or self.number % EVERY != 1 or self.number == 1:
            return
        said = self.ddp._get_ddp_logging_data()
        if "backward_comm_time" in said:
            seconds = (said["backward_comm_time"] - said["backward_compute_comm_overlap_time"]) / 1e9
            self.exposed[said["iteration"]] = max(0.0, seconds)

    def take(self, team):
        """Mean seconds of the timed steps since the last call, for the log; {} where there are too few."""
        if self.ddp is None and team.world > 1:  # no exchange: nothing to tell apart
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
    """The parts of a step from (seconds, waited, exposed) of each timed step of each rank.

    The last rank is the one that waits least in the all-reduce. `imbalance`: how much longer it computes
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
