"""Tokens per second of a language model on synthetic tokens, from one GPU to many nodes.

    torchrun --nproc_per_node=4 benchmark_lm.py --model llama-1b --sequence_length 1024 --max_steps 50

The model is a decoder like LLaMA's, written out here: `llama-1b` has the shape of LLaMA 3.2 1B
(1,235,814,400 parameters), `tiny` fits a laptop. Options of the course's benchmark.py keep their names.
The rate is steps x batch x sequence length divided by the time of all steps, *per GPU*, including the slow
first steps.
"""

import argparse
import contextlib
import math
import platform
import time

import torch
from distributed import EXIT_USAGE, Problem, choose_device, run
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

# layers, width, heads, heads of keys and values, width of the MLP, words
MODELS = {"tiny": (2, 64, 4, 2, 192, 512), "llama-1b": (16, 2048, 32, 8, 8192, 128256)}


def parse_options(argv=None):
    parser = argparse.ArgumentParser(description="Tokens per second of a language model.", allow_abbrev=False)
    add = parser.add_argument
    add("--model", choices=sorted(MODELS), default="llama-1b")
    add("--per_device_train_batch_size", type=int, default=8, metavar="N", help="sequences per GPU per step")
    add("--sequence_length", type=int, default=8192, metavar="TOKENS")
    add("--max_steps", type=int, default=50)
    add("--attn", choices=["eager", "sdpa"], default="sdpa", help="eager writes out the attention matrix")
    add("--model_precision", choices=["fp32", "bf16"], default="fp32", help="of the weights")
    add("--mixed_precision", choices=["no", "bf16"], default="no", help="of the arithmetic")
    add("--use_liger_kernel", action="store_true", help="loss from the package liger-kernel (needs a GPU)")
    add("--compile", action="store_true")
    add("--seed", type=int, default=0)
    add("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: processes stand in for GPUs")
    add("--rendezvous_timeout", type=float, default=300, metavar="SECONDS")
    add("--expect_world_size", type=int, metavar="N")
    args = parser.parse_args(argv)
    for name in ("per_device_train_batch_size", "sequence_length", "max_steps"):
        if getattr(args, name) < 1:
            parser.error(f"argument --{name}: must be at least 1, not {getattr(args, name)}")
    return args


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, values):
        scale = torch.rsqrt(values.float().pow(2).mean(-1, keepdim=True) + 1e-5)
        return (values * scale).to(values.dtype) * self.weight


class Layer(nn.Module):
    """Attention with rotary positions and shared keys, then a gated MLP; each with a norm and a shortcut."""

    def __init__(self, width, heads, shared, inner, eager):
        super().__init__()
        self.heads, self.shared, self.size, self.eager = heads, shared, width // heads, eager
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, shared * self.size, bias=False)
        self.value = nn.Linear(width, shared * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, values, turns):
        batch, length, width = values.shape
        normed = self.norm1(values)
        query = _turned(self.query(normed).view(batch, length, self.heads, -1).transpose(1, 2), turns)
        key = _turned(self.key(normed).view(batch, length, self.shared, -1).transpose(1, 2), turns)
        value = self.value(normed).view(batch, length, self.shared, -1).transpose(1, 2)
        repeat = self.heads // self.shared
        key, value = key.repeat_interleave(repeat, 1), value.repeat_interleave(repeat, 1)
        if self.eager:
            scores = query @ key.transpose(2, 3) / math.sqrt(self.size)
            ahead = torch.ones(length, length, dtype=torch.bool, device=values.device).triu(1)
            mixed = scores.masked_fill(ahead, -math.inf).softmax(-1) @ value
        else:
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        values = values + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        normed = self.norm2(values)
        return values + self.down(functional.silu(self.gate(normed)) * self.up(normed))


def _turned(values, turns):
    first, second = values.chunk(2, -1)
    cos, sin = (turn.to(values.dtype) for turn in turns)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class LanguageModel(nn.Module):
    """Returns the loss of predicting each next token; embedding and output share one matrix."""

    def __init__(self, name, eager=False, fused_loss=None):
        super().__init__()
        self.fused_loss = fused_loss
        depth, width, heads, shared, inner, words = MODELS[name]
        self.size = width // heads
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads, shared, inner, eager) for _ in range(depth))
        self.norm = RMSNorm(width)
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device, dtype=torch.float32)
        speeds = 500000.0 ** (-torch.arange(0, self.size, 2, device=tokens.device) / self.size)
        angles = places[:, None] * speeds
        values = self.words(tokens)
        for layer in self.layers:
            values = layer(values, (angles.cos(), angles.sin()))
        if self.fused_loss is not None:  # never holds the logits of all tokens at once
            return self.fused_loss(
                self.words.weight, self.norm(values)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
            )
        guesses = self.norm(values)[:, :-1] @ self.words.weight.t()
        return functional.cross_entropy(guesses.flatten(0, 1).float(), tokens[:, 1:].flatten())


def liger_loss():
    """The fused linear layer and cross-entropy of liger-kernel. Raises Problem."""
    try:
        from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss
    except ImportError as error:
        raise Problem(
            EXIT_USAGE, "--use_liger_kernel needs the package liger-kernel, which this Python lacks."
        ) from error
    return LigerFusedLinearCrossEntropyLoss()


def train(args, team, log):
    with team.together("device"):
        device = choose_device(args, team)
        fused_loss = liger_loss() if args.use_liger_kernel else None
    team.init("gloo" if device.type == "cpu" else "nccl", device)
    torch.manual_seed(args.seed)
    kind = torch.bfloat16 if args.model_precision == "bf16" else torch.float32
    net = LanguageModel(args.model, args.attn == "eager", fused_loss).to(device, kind)
    parameters = sum(parameter.numel() for parameter in net.parameters())
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-5)
    cards = [device] if device.type == "cuda" else None
    model = DistributedDataParallel(net, device_ids=cards) if team.world > 1 else net
    if args.compile:
        model = torch.compile(model)
    shape = (args.per_device_train_batch_size, args.sequence_length)
    cpu = device.type == "cpu"
    log.point("model_name", args.model, parameters=parameters, sequence_length=args.sequence_length)
    log.point("device", device.type, small=cpu, host=team.host)
    log.point("n_gpus", team.world)
    log.point("framework", f"pytorch {torch.__version__}", python=platform.python_version())
    half = contextlib.nullcontext
    if args.mixed_precision == "bf16":
        half = lambda: torch.autocast(device.type, dtype=torch.bfloat16)  # noqa: E731
    chance = torch.Generator().manual_seed(args.seed + team.rank)
    log.run_start()
    began = time.perf_counter()
    for _ in range(args.max_steps):
        tokens = torch.randint(MODELS[args.model][-1], shape, generator=chance).to(device)
        with half():
            loss = model(tokens)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    loss = loss.item()  # waits for the GPU
    seconds = time.perf_counter() - began
    rate = args.max_steps * shape[0] * shape[1] / seconds
    log.line(f"> Training throughput:     {rate:.2f} Tokens/s/GPU")
    if not cpu:
        log.line(f"> Max reserved GPU Memory: {torch.cuda.max_memory_reserved() / 2**30:.2f}")
    facts = {"tokens_per_second_per_gpu": rate, "loss": loss, "seconds": seconds}
    log.point("tracked_stats", facts)
    log.run_stop("success")


def main():
    args = parse_options()
    half = max(1, args.per_device_train_batch_size // 2)
    run(
        train,
        args,
        cure=f"Try a smaller batch (--per_device_train_batch_size {half}) or shorter sequences.",
    )


if __name__ == "__main__":
    main()
