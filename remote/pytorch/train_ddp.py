"""Trains an image network data-parallel, on one GPU or many nodes: a rewrite of the course's train_ddp.py.

    torchrun --nproc_per_node=2 train_ddp.py --model_name vit_ti_16 --dataset synthetic --resolution 32 \
        --batch_size 16 --num_epochs 3 --device cpu        # two processes on a laptop

--batch_size is per GPU. The options of the course's script keep their names and defaults.
Printed times: an epoch's throughput is the images of all ranks divided by the time of rank 0's training loop,
without validation; the last throughput excludes the first epoch; the complete time starts when data, model
and DDP are set up.
"""

import argparse
import contextlib
import math
import os
import pickle
import platform
import time

import datasets
import models
import schedules
import torch
import torch.distributed as dist
from distributed import EXIT_DATA, EXIT_USAGE, Problem, choose_device, run
from mllog import gpu_joules, joules_since
from step_times import StepTimes
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

PRECISIONS = {"fp16": torch.float16, "bf16": torch.bfloat16}


def parse_options(argv=None):
    """The options as a namespace; exits with code 2 and a sentence if they are invalid."""
    parser = argparse.ArgumentParser(description="Data-parallel training with PyTorch.", allow_abbrev=False)
    add_course_options(parser.add_argument)
    add_own_options(parser.add_argument_group("beyond the course's script").add_argument)
    args = parser.parse_args(argv)
    counts = "batch_size eval_batch_size num_epochs epochs_eval iteration_logging resolution"
    for name in counts.split():
        if getattr(args, name) < 1:
            parser.error(f"argument --{name}: must be at least 1, not {getattr(args, name)}")
    if not 0 < args.learning_rate < math.inf:
        parser.error(f"argument --learning_rate: must be a number above 0, not {args.learning_rate}")
    if args.warmup_epochs and args.lr_policy not in ("stepping", "gradual"):
        parser.error("argument --warmup_epochs: only the policies stepping and gradual warm up")
    if args.resume and not args.checkpoint:
        parser.error("argument --resume: needs --checkpoint FOLDER")
    return args


def add_course_options(add):
    """Adds the options of the course's script."""
    add(
        "--model_name",
        required=True,
        choices=models.NAMES,
        help="vit is ViT-H/14; custom an MLP on grey pixels",
    )
    add("--dataset", required=True, metavar="cifar10|synthetic|FOLDER")
    add("--data", metavar="FOLDER", help="the folder of cifar10 (else CIFAR10_DATA)")
    add("--batch_size", type=int, default=64, help="images per GPU per step")
    add("--eval_batch_size", type=int, default=64, help="the same in validation")
    add("--num_workers", type=int, default=0, help="loader processes per GPU")
    add("--num_epochs", type=int, default=5)
    add("--epochs_eval", type=int, default=5, help="validate every N epochs, and after the last one")
    add("--iteration_logging", type=int, default=500, help="print the loss every N steps")
    add("--mixed_precision", choices=["fp32", "tf32", "fp16", "bf16"], default="fp32")
    add("--compile", action="store_true", help="torch.compile, mode reduce-overhead")
    add("--optimizer", choices=["sgd", "adam", "adamw"], default="sgd")
    add("--learning_rate", type=float, default=5e-4)
    add("--resolution", type=int, default=224, help="pixels of each side, after resizing")
    add(
        "--intermidiate_dimensions", "--intermediate_dimensions", type=int, nargs="+", help="layers of custom"
    )


def add_own_options(add):
    add("--lr_policy", choices=schedules.POLICIES, default="constant", help="see schedules.py")
    add("--warmup_epochs", type=int, default=0)
    add("--momentum", type=float, default=0.0, help="of sgd")
    add("--weight_decay", type=float, help="default: the optimizer's own")
    add("--images", type=int, metavar="N", help="only the first N training images (synthetic: how many)")
    add("--seed", type=int, default=0)
    add("--checkpoint", metavar="FOLDER", help="save here after each epoch")
    add("--resume", action="store_true", help="continue from the checkpoint in that folder, if there is one")
    add("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: processes stand in for GPUs")
    add("--backend", choices=["nccl", "gloo"], help="default: nccl on GPUs, gloo on CPUs")
    add(
        "--rendezvous_timeout", type=float, default=300, metavar="SECONDS", help="how long to wait for others"
    )
    add(
        "--control",
        choices=["none", "independent", "one-batch"],
        default="none",
        help="to find what a step waits for: no exchange of gradients, or the first batch again and again",
    )
    add("--expect_world_size", type=int, metavar="N", help="refuse to train unless N processes take part")


class Training:
    """A training: model, data, optimizer, and the work of an epoch."""

    def __init__(self, args, team, log, device):
        self.args, self.team, self.log, self.device = args, team, log, device
        with team.together("data") as same:
            train, val, classes = datasets.open_dataset(args)
            same += [f"{len(train)} training images", f"{len(val)} validation images", f"{classes} classes"]
            self.loader, self.sampler, self.val_loader = datasets.make_loaders(train, val, args, team)
        if args.control == "one-batch":
            self.loader = datasets.OneBatch(self.loader)
        self.samples, self.val_samples = len(train), len(val)
        torch.manual_seed(args.seed)
        try:
            net = models.build(args.model_name, classes, args.resolution, args.intermidiate_dimensions)
        except ValueError as error:
            raise Problem(EXIT_USAGE, str(error)) from error
        self.net = net.to(device)
        self.parameters = models.count_parameters(self.net)
        self.optimizer = make_optimizer(args, self.net)
        self.half = PRECISIONS.get(args.mixed_precision)
        scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler  # moved in PyTorch 2.3
        self.scaler = scaler(enabled=args.mixed_precision == "fp16" and device.type == "cuda")
        self.done = 0  # finished epochs, including those of an earlier process
        self._resume()
        self.model = self.net
        exchanges = team.world > 1 and args.control != "independent"
        if exchanges:
            self.model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
        self.step_times = StepTimes(self.model if exchanges else None, device)
        if args.compile:
            self.model = torch.compile(self.model, mode="reduce-overhead")

    @property
    def images(self):
        """Images of all ranks in one epoch."""
        return len(self.loader) * self.args.batch_size * self.team.world

    def autocast(self):
        if self.half is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self.half)

    def train_epoch(self, epoch):
        """Trains epoch `epoch` (from 1); returns its seconds and metrics."""
        args, device = self.args, self.device
        self.sampler.set_epoch(epoch)  # a new order each epoch, and no image on two ranks
        rate = schedules.learning_rate(
            args.lr_policy, epoch - 1, args.num_epochs, args.learning_rate, args.batch_size, self.team.world,
            args.warmup_epochs,
        )  # fmt: skip
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        sums = torch.zeros(4, dtype=torch.float64 if device.type == "cpu" else torch.float32, device=device)
        gpu = [device.index] if device.type == "cuda" else []
        joules = gpu_joules(gpu)  # NVML may take seconds to start: not between stamp and clock
        self.log.line(f"[EPOCH: {epoch}] Starting training loop...")
        self.log.record("INTERVAL_START", "epoch_start", None, {"epoch_num": epoch})
        began = time.perf_counter()
        for step, batch in enumerate(self.step_times.batches(self.loader), start=1):
            images, labels = datasets.on_device(*batch, device, args.resolution)
            with self.autocast():
                outputs = self.model(images)
                loss = functional.cross_entropy(outputs, labels)
            self.optimizer.zero_grad(set_to_none=True)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            add_scores(sums, outputs, labels, loss)
            if step % args.iteration_logging == 0:
                self.log.line(f"[EPOCH: {epoch}] Loss at iteration {step}: {loss.item():.3f}")
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - began
        when = time.time()
        self.log.line(f"[EPOCH: {epoch}] Training throughput: {self.images / seconds:.3f} imgs/s")
        used = joules_since(joules, gpu)
        facts = {"epoch_num": epoch, "seconds": seconds, "steps": len(self.loader), "samples": self.images}
        self.log.record("INTERVAL_END", "epoch_stop", None, facts, when)
        return seconds, dict(scores(sums, self.team), learning_rate=rate, **energy_of_all(used, self.team))

    @torch.no_grad()
    def validate(self, epoch):
        """Validates the model; returns metrics over all validation images."""
        self.net.eval()
        self.log.line(f"[EPOCH: {epoch}] Starting validation loop...")
        sums = torch.zeros(
            4, dtype=torch.float64 if self.device.type == "cpu" else torch.float32, device=self.device
        )
        began = time.perf_counter()
        for batch in self.val_loader:
            images, labels = datasets.on_device(*batch, self.device, self.args.resolution)
            with self.autocast():
                outputs = self.net(images)
                loss = functional.cross_entropy(outputs, labels)
            add_scores(sums, outputs, labels, loss)
        found = scores(sums, self.team)
        rate = self.val_samples / (time.perf_counter() - began)
        accuracy = found["top1"] / 100
        self.log.line(f"[EPOCH: {epoch}] Accuracy: {accuracy:.3f} | Validation throughput: {rate:.3f} imgs/s")
        return {"val_" + name: value for name, value in found.items()}

    # ------------------------------------------------------------------------------------------ checkpoints

    @property
    def file(self):
        return os.path.join(self.args.checkpoint, "last.pt") if self.args.checkpoint else None

    def save(self, epoch):
        """Saves a checkpoint on rank 0: writes a new file and renames it, so that one is always complete."""
        if self.file is None or self.team.rank:
            return
        state = {"model_name": self.args.model_name, "epoch": epoch, "model": self.net.state_dict()}
        state.update(optimizer=self.optimizer.state_dict(), scaler=self.scaler.state_dict())
        try:
            os.makedirs(self.args.checkpoint, exist_ok=True)
            torch.save(state, self.file + ".new")
            os.replace(self.file + ".new", self.file)
        except OSError as error:
            raise Problem(
                EXIT_DATA, f"The checkpoint {self.file} cannot be written: {error.strerror}."
            ) from error

    def _resume(self):
        with self.team.together("checkpoint") as same:
            if self.args.resume and os.path.isfile(self.file):
                self._load()
            same.append(f"{self.done} epochs done")
        if self.done >= self.args.num_epochs:
            raise Problem(
                EXIT_USAGE,
                f"{self.file} has done {self.done} epochs already: --num_epochs {self.args.num_epochs}.",
            )
        if self.done:
            self.log.line(f"Resuming from checkpoint {self.file}: {self.done} epochs are done")

    def _load(self):
        try:
            state = torch.load(self.file, map_location=self.device, weights_only=True)
            if state["model_name"] != self.args.model_name:
                raise Problem(
                    EXIT_USAGE, f"{self.file} is of {state['model_name']}, not of {self.args.model_name}."
                )
            self.net.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.scaler.load_state_dict(state["scaler"])
        except (OSError, RuntimeError, LookupError, ValueError, EOFError, pickle.UnpicklingError) as error:
            why = str(error).strip().split("\n")[0][:200]
            raise Problem(
                EXIT_DATA, f"The checkpoint {self.file} does not fit or is damaged: {why}"
            ) from error
        self.done = state["epoch"]


def make_optimizer(args, net):
    options = {"lr": args.learning_rate}
    if args.weight_decay is not None:
        options["weight_decay"] = args.weight_decay
    if args.optimizer == "sgd":
        return torch.optim.SGD(net.parameters(), momentum=args.momentum, **options)
    kind = torch.optim.Adam if args.optimizer == "adam" else torch.optim.AdamW
    return kind(net.parameters(), **options)


def add_scores(sums, outputs, labels, loss):
    """Adds a batch to (images, correct, correct in top five, loss x images), without leaving the device."""
    outputs = outputs.detach()
    hits = outputs.topk(min(5, outputs.shape[1]), dim=1).indices == labels[:, None]
    count = len(labels)
    sums += torch.stack([loss.new_tensor(count), hits[:, 0].sum(), hits.sum(), loss.detach() * count]).to(
        sums.dtype
    )


def energy_of_all(used, team):
    """The energy of all ranks' GPUs for the log; {} if one of them does not know its own."""
    everyone = [used]
    if team.world > 1:
        everyone = [None] * team.world
        dist.all_gather_object(everyone, used)
    return {"energy_joules": sum(each["energy_joules"] for each in everyone)} if all(everyone) else {}


def scores(sums, team):
    """Top-1 and top-5 in percent and the mean loss, over all ranks."""
    if team.world > 1:
        dist.all_reduce(sums)
    count, first, five, loss = sums.tolist()
    return {"top1": 100 * first / count, "top5": 100 * five / count, "loss": loss / count}


# ------------------------------------------------------------------------------------------ the main program


def print_head(training):
    args, log, team, loader = training.args, training.log, training.team, training.loader
    cpu = training.device.type == "cpu"
    name = platform.processor() or platform.machine() if cpu else torch.cuda.get_device_name(training.device)
    log.point("model_name", args.model_name, parameters=training.parameters)
    log.point("device", training.device.type, names=[name], small=cpu, host=team.host)
    log.point("n_gpus", team.world)
    log.point("global_batch_size", args.batch_size * team.world, per_replica=args.batch_size)
    samples = {"dataset": training.samples, "small": bool(args.images)}  # only some images
    log.point("train_samples", training.images, image_size=args.resolution, **samples)
    log.point(
        "opt_name",
        args.optimizer,
        policy=args.lr_policy,
        precision=args.mixed_precision,
        compile=args.compile,
    )
    log.point(
        "framework",
        f"pytorch {torch.__version__}",
        python=platform.python_version(),
        workers=args.num_workers,
    )
    log.line("############# Config #############")
    for flag, value in vars(args).items():
        log.line(f"### {flag}: {value}")
    log.line(
        "### Device: " + (f"cpu ({team.world} processes stand in for GPUs)" if cpu else str(training.device))
    )
    log.line(f"### AMP Enabled: {training.half is not None}")
    log.line(f"### Total number of parameters {training.parameters}")
    log.line(f"### Total training samples (batches): {len(loader) * args.batch_size} ({len(loader)})")


def train(args, team, log):
    with team.together("device"):
        device = choose_device(args, team)
    team.init(args.backend or ("gloo" if device.type == "cpu" else "nccl"), device)
    full = args.mixed_precision == "fp32"  # by default PyTorch uses TF32 in convolutions
    torch.set_float32_matmul_precision("highest" if full else "high")
    torch.backends.cudnn.allow_tf32 = not full
    training = Training(args, team, log, device)
    print_head(training)
    began = time.perf_counter()
    log.run_start()
    times = []
    for epoch in range(training.done + 1, args.num_epochs + 1):
        seconds, metrics = training.train_epoch(epoch)
        times.append(seconds)
        if epoch % args.epochs_eval == 0 or epoch == args.num_epochs:
            metrics.update(training.validate(epoch))
        metrics.update(training.step_times.take(team))
        log.record("POINT_IN_TIME", "tracked_stats", metrics, {"epoch_num": epoch})
        training.save(epoch)
    steady = times[1:] or times  # the first epoch includes compiling and reading the data for the first time
    log.line("Training finished!")
    log.line(f"Complete training Time: {int(time.perf_counter() - began)} s ")
    log.line(f"Training throughput:    {int(training.images * len(steady) / sum(steady))} imgs/s")
    memory = {}
    if device.type == "cuda":
        memory = {
            "reserved_bytes": torch.cuda.memory_reserved(),
            "peak_bytes": torch.cuda.max_memory_reserved(),
        }
        log.line(f"GPU memory reserved:    {int(memory['reserved_bytes'] / 2**30)} GB")
    log.run_stop("success", **memory)


def main():
    args = parse_options()
    run(train, args, cure=f"{args.batch_size} images per GPU do not fit: give a smaller --batch_size.")


if __name__ == "__main__":
    main()
