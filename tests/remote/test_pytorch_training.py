"""The PyTorch scripts, trained with gloo on this machine, and read by labtui; e2e/test_two_nodes has real torchrun."""

import json
import re
import runpy
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labtui.training_logs.diagnosis import join_streams
from labtui.training_logs.reader import parse_log
from labtui.training_logs.runs import ParsedRun
from tests.remote.torch_ranks import ROOT, SCRIPTS, SMALL, Ended, Ranks, run_code, trained

TRAINS = [pytest.mark.torch, pytest.mark.slow, pytest.mark.xdist_group("torch")]
SCHEDULES = SimpleNamespace(**runpy.run_path(str(SCRIPTS / "schedules.py")))
PAGE = ROOT / "docs" / "training-scripts.md"
COURSE_LINES = (
    r"### batch_size: 16", r"### AMP Enabled: False", r"### Total number of parameters \d+",
    r"### Total training samples \(batches\): 64 \(4\)", r"\[EPOCH: 1\] Starting training loop\.\.\.",
    r"\[EPOCH: 2\] Training throughput: \d+\.\d{3} imgs/s", r"\[EPOCH: 2\] Starting validation loop\.\.\.",
    r"\[EPOCH: 3\] Accuracy: \d\.\d{3} \| Validation throughput: \d+\.\d{3} imgs/s", r"Training finished!",
    r"Complete training Time: \d+ s ", r"Training throughput:    \d+ imgs/s",
)  # fmt: skip


def the_run(ended: Ended) -> ParsedRun:
    assert ended.code == 0, ended.err
    (found,) = parse_log(ended.out.encode()).runs
    return found


def metric(found: ParsedRun, name: str) -> list[float]:
    return [epoch.metrics[name] for epoch in found.epochs]


@pytest.mark.parametrize(
    ("gpus", "batch", "rate"),
    [(1, 128, 0.05), (8, 128, 0.4), (16, 128, 0.8), (24, 128, 1.2), (32, 128, 1.6), (32, 32, 0.4)],
)
def test_the_rates_of_the_study(gpus, batch, rate):
    """The published rate of each training, and its drops by ten after epochs 30, 60 and 80 of 90."""

    def at(epoch: int, policy: str = "linear", warmup: int = 0) -> float:
        return SCHEDULES.learning_rate(policy, epoch, 90, 0.1, batch, gpus, warmup)

    assert [at(epoch) for epoch in (0, 29)] == pytest.approx([rate, rate])
    assert [at(epoch) for epoch in (30, 59, 60, 79, 80, 89)] == pytest.approx(
        [rate / 10, rate / 10, rate / 100, rate / 100, rate / 1000, rate / 1000]
    )
    assert [at(epoch, "naive") for epoch in (0, 29, 30, 60, 89)] == pytest.approx(
        [0.1, 0.1, 0.01, 0.001, 0.001]
    )
    stepping = [at(epoch, "stepping", 5) for epoch in range(6)]
    assert stepping == pytest.approx([rate * part / 6 for part in (1, 2, 3, 4, 5, 6)])
    for warmup in (5, 10):
        alone = 0.05 * batch / 128
        gradual = [at(epoch, "gradual", warmup) for epoch in range(warmup + 1)]
        assert gradual == pytest.approx([alone + e * (rate - alone) / warmup for e in range(warmup + 1)])
    assert at(85, "constant") == 0.1
    short = [SCHEDULES.learning_rate("linear", epoch, 9, 0.1, 256, 1) for epoch in range(9)]
    assert short == pytest.approx([0.1] * 3 + [0.01] * 3 + [0.001] * 2 + [0.0001])


COUNT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch, models
def count(name, classes=1000, side=224):
    with torch.device("meta"):
        return models.count_parameters(models.build(name, classes, side))
found = {name: count(name) for name in models.NAMES if name not in ("custom", "vit")}
found["the course's ViT"] = count("vit", 200)
found["the course's MLP"] = count("custom", 200)
for name in ("resnet50", "vit_ti_16", "custom"):
    net = models.build(name, 7, 32, [16])
    found["shape of " + name] = list(net(torch.zeros(2, 3, 32, 32)).shape)
print(json.dumps(found))
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.xdist_group("torch")
def test_parameter_counts(tmp_path):
    done = run_code(tmp_path, COUNT, str(SCRIPTS))
    assert done.code == 0, done.err
    assert json.loads(done.out) == {
        "resnet50": 25_557_032, "resnet101": 44_549_160, "resnet152": 60_192_808, "vit_ti_16": 5_717_416,
        "vit_s_16": 22_050_664, "vit_b_16": 86_567_656, "vit_l_16": 304_326_632, "vit_h_14": 632_045_800,
        "the course's ViT": 631_021_000, "the course's MLP": 455_807_624,
        **{f"shape of {name}": [2, 7] for name in ("resnet50", "vit_ti_16", "custom")},
    }  # fmt: skip


READS = """
import json, sys
from torch.distributed.run import get_args_parser
read = get_args_parser().parse_args()
print(json.dumps([read.nproc_per_node, read.training_script, read.training_script_args]))
"""


class TestThePagesCommand:
    """The command of docs/training-scripts.md, as torchrun reads it; its ranks are started here."""

    pytestmark = TRAINS

    @pytest.fixture(scope="class")
    def ended(self, tmp_path_factory: pytest.TempPathFactory) -> Ended:
        command = re.search(r"^\.venv-torch/bin/(torchrun .+) > train\.out$", PAGE.read_text("utf-8"), re.M)
        assert command is not None
        folder = tmp_path_factory.mktemp("page")
        processes, script, words = json.loads(run_code(folder, READS, *shlex.split(command[1])[1:]).out)
        first, second = Ranks(folder, int(processes), *words, script=str(ROOT / script)).ended()
        assert (second.code, second.out, second.err) == (0, "", "")
        return first

    def test_labtui_reads_it(self, ended):
        found = the_run(ended)
        assert (found.model, found.n_gpus, found.small) == ("vit_ti_16", 2, True)
        assert (found.batch_size, found.batch_per_gpu, found.images) == (32, 16, 128)
        assert (found.outcome, found.epochs_planned) == ("completed", 3)
        assert found.framework.split()[0] == "pytorch"
        epochs = [(number, 4, "mllog") for number in (1, 2, 3)]
        assert [(epoch.epoch, epoch.steps, epoch.source) for epoch in found.epochs] == epochs
        assert re.search('"train_samples".*"small": true', ended.out), "only some images"
        assert not found.contradictions and not found.notes and not found.interleaved
        for name in ("top1", "top5", "loss", "val_top1", "val_top5", "val_loss"):
            assert len(metric(found, name)) == 3
        assert all(value == 0.0005 for value in metric(found, "learning_rate"))
        both = join_streams(parse_log(ended.out.encode()), parse_log(ended.err.encode(), stream="err"))
        assert both.diagnosis == ()

    def test_the_courses_lines_alone_agree(self, ended):
        """A reader without MLPerf's records finds the same times, within what the lines round and cut off."""
        lines = [line for line in ended.out.splitlines() if not line.startswith(":::MLLOG")]
        assert all(re.match(r"\[\d\d/\d\d/\d{4} \d\d:\d\d:\d\d [AP]M\] INFO - ", line) for line in lines)
        said = [line.split(" - ", 1)[1] for line in lines]
        assert [sum(bool(re.fullmatch(pattern, line)) for line in said) for pattern in COURSE_LINES] == [
            1
        ] * 11
        exact = the_run(ended)
        for epoch in exact.epochs:
            printed = next(line for line in lines if f"[EPOCH: {epoch.epoch}] Training throughput" in line)
            rate = float(printed.split()[-2])
            assert epoch.seconds.lo - 1e-3 <= 128 / rate <= epoch.seconds.hi + 1e-3
        (course,) = parse_log("\n".join(lines).encode()).runs
        stalled = any("timestamps" in note for note in course.notes)  # between a stamp and the epoch's clock
        assert course.throughput == (None if stalled else exact.throughput)
        assert (
            course.total_seconds.contains(exact.total_seconds.value) and exact.total_seconds.half_width < 0.01
        )
        steady = exact.epochs[1:]
        assert stalled or course.throughput.contains(2 * 128 / sum(epoch.seconds.value for epoch in steady))


class TestCifar:
    """CIFAR-10's own files: a warm-up, and a training that is broken off and resumed on two."""

    pytestmark = TRAINS

    @pytest.fixture(scope="class")
    def words(self, data: Path) -> list[str]:
        return [
            *SMALL,
            *("--dataset", "cifar10", "--data", str(data), "--learning_rate", "0.1", "--momentum", "0.9"),
            *("--images", "40", "--batch_size", "5", "--epochs_eval", "1"),
        ]

    def test_two_ranks_and_a_warm_up(self, words, tmp_path):
        policy = ["--lr_policy", "gradual", "--warmup_epochs", "2", "--num_epochs", "4", "--num_workers", "1"]
        ended = trained(tmp_path, 2, *words, *policy, "--mixed_precision", "bf16", "--expect_world_size", "2")
        found = the_run(ended)
        assert (found.n_gpus, found.batch_size, found.images) == (2, 10, 40)
        expected = [SCHEDULES.learning_rate("gradual", epoch, 4, 0.1, 5, 2, 2) for epoch in range(4)]
        assert metric(found, "learning_rate") == pytest.approx(expected)
        # 8 validation images on 2 ranks: each counts once, so a percentage is a whole number of eighths
        assert all(value / 12.5 == int(value / 12.5) for value in metric(found, "val_top1"))
        assert "### AMP Enabled: True" in ended.out

    def test_resumed_it_goes_on_as_if_never_broken_off(self, words, tmp_path):
        kept = ["--checkpoint", str(tmp_path / "kept"), "--resume"]
        whole = the_run(trained(tmp_path, 2, *words, "--num_epochs", "4"))
        first = the_run(trained(tmp_path, 2, *words, "--num_epochs", "2", *kept))
        resumed = trained(tmp_path, 2, *words, "--num_epochs", "4", *kept)
        second = the_run(resumed)
        assert [epoch.epoch for epoch in (*first.epochs, *second.epochs)] == [1, 2, 3, 4]
        for name in ("loss", "val_loss", "top1", "val_top5"):
            assert metric(first, name) + metric(second, name) == pytest.approx(metric(whole, name), abs=1e-9)
        assert len(set(metric(whole, "loss"))) == 4
        assert "Resuming from checkpoint" in resumed.out and second.outcome == "completed"

        over = trained(tmp_path, 1, *words, "--num_epochs", "4", *kept)
        assert len(over.errors) == 1 and "has done 4 epochs already" in over.errors[0], over.err

        (tmp_path / "kept" / "last.pt").write_bytes(b"cut off")
        damaged = trained(tmp_path, 1, *words, "--num_epochs", "9", *kept)
        assert len(damaged.errors) == 1 and "does not fit or is damaged" in damaged.errors[0], damaged.err


CHECKS = """
import argparse, json, os, sys
sys.path.insert(0, sys.argv[1])
import datasets, torch, train_ddp
from distributed import Problem, Team
from PIL import Image

def problem(call, *values):
    try:
        return call(*values) and None
    except Problem as found:
        return [found.code, str(found)]
    except SystemExit as end:
        return [end.code, ""]

def options(*words):
    return train_ddp.parse_options(["--model_name", "custom", "--device", "cpu", "--dataset", *words])

for part, number in (("train", 3), ("val", 2)):
    for color in ("red", "blue"):
        os.makedirs(f"pictures/{part}/{color}/images")
        for index in range(number):
            Image.new("RGB", (40, 60), color).save(f"pictures/{part}/{color}/images/{index}.png")
train, val, classes = datasets.open_dataset(options("pictures", "--resolution", "24"))
image, label = train[0]
pixels, labels = datasets.on_device(image[None], torch.tensor([label]), torch.device("cpu"), 48)
team = argparse.Namespace(world=4, rank=1)
orders = []
loader, sampler, _ = datasets.make_loaders(range(41), range(9), options("synthetic", "--batch_size", "5"), team)
for epoch in (1, 2):
    sampler.set_epoch(epoch)
    orders.append([value for batch in loader for value in batch.tolist()])
os.mkdir("empty")
print(json.dumps({
    "pictures": [len(train), len(val), classes, list(image.shape), image[:, 0, 0].tolist(), label],
    "on device": [list(pixels.shape), pixels[0, :, 0, 0].tolist()],
    "orders": orders,
    "no folder": problem(datasets.open_dataset, options("/nowhere")),
    "no pictures": problem(datasets.open_dataset, options("empty")),
    "too many": problem(datasets.open_dataset, options("pictures", "--images", "99")),
    "too few": problem(datasets.make_loaders, range(9), range(9), options("synthetic"), team),
    "no gpu": problem(train_ddp.choose_device, argparse.Namespace(device="cuda"), Team(1)),
    "typing error": problem(options, "synthetic", "--batchsize", "5"),
    "no warm-up": problem(options, "synthetic", "--lr_policy", "linear", "--warmup_epochs", "5"),
}))
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.xdist_group("torch")
def test_data_and_options(tmp_path):
    done = run_code(tmp_path, CHECKS, str(SCRIPTS), CUDA_VISIBLE_DEVICES="")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    assert found["pictures"] == [6, 4, 2, [3, 24, 24], [0, 0, 255], 0], "blue comes before red"
    assert found["on device"] == [[1, 3, 48, 48], [-1, -1, 1]]
    one, two = found["orders"]
    assert len(one) == len(two) == 10 and set(one) != set(two), "another share each epoch"
    assert found["no folder"] == [3, "The data folder /nowhere does not exist."]
    assert found["no pictures"][0] == 3 and "a folder train/" in found["no pictures"][1]
    assert found["too many"][0] == 3 and "holds only 6" in found["too many"][1]
    assert found["too few"][0] == 2 and "9 images leave only 2 to each of 4" in found["too few"][1]
    assert found["no gpu"][0] == 4 and "--device cpu" in found["no gpu"][1]
    assert found["typing error"][0] == 2 and found["no warm-up"][0] == 2


LANGUAGE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
from benchmark_lm import LanguageModel, liger_loss, parse_options
from distributed import Problem
from torch.nn.functional import cross_entropy
with torch.device("meta"):
    large = sum(parameter.numel() for parameter in LanguageModel("llama-1b").parameters())
torch.manual_seed(3)
plain, eager = LanguageModel("tiny"), LanguageModel("tiny", eager=True)
eager.load_state_dict(plain.state_dict())
tokens = torch.randint(512, (2, 24))
changed = tokens.clone()
changed[:, -1] = 0  # the last token is only ever predicted, so it moves the loss and nothing before it
with torch.no_grad():
    losses = [float(model(tokens)) for model in (plain, eager)]
    plain.fused_loss = lambda words, values, wanted: cross_entropy(values @ words.t(), wanted)
    losses.append(float(plain(tokens)))
    plain.fused_loss = None
    ahead = [model.layers[0](model.words(text), (torch.ones(24, 8), torch.zeros(24, 8)))[:, :-1]
             for model in (plain, eager) for text in (tokens, changed)]
same = [bool(torch.allclose(ahead[i], ahead[i + 1])) for i in (0, 2)]
try:
    missing = str(liger_loss())
except Problem as problem:
    missing = f"{problem.code} {problem}"
print(json.dumps([large, losses, same, parse_options([]).sequence_length, missing]))
"""


class TestLanguageModel:
    pytestmark = TRAINS

    def test_the_model(self, tmp_path):
        done = run_code(tmp_path, LANGUAGE, str(SCRIPTS))
        assert done.code == 0, done.err
        large, losses, same, length, missing = json.loads(done.out)
        assert (large, length) == (1_235_814_400, 8192)
        assert losses[1:] == pytest.approx([losses[0]] * 2, rel=1e-5) and same == [True, True]
        assert missing == "2 --use_liger_kernel needs the package liger-kernel, which this Python lacks."

    def test_tokens_per_second_of_two_ranks(self, tmp_path):
        words = ["--model", "tiny", "--sequence_length", "32", "--per_device_train_batch_size", "2"]
        words += ["--max_steps", "4", "--device", "cpu"]
        ended = Ranks(tmp_path, 2, *words, script=str(SCRIPTS / "benchmark_lm.py")).ended()[0]
        assert ended.code == 0, ended.err
        (line,) = [line for line in ended.out.splitlines() if "Tokens/s/GPU" in line]
        printed = re.fullmatch(
            r"\[\S+ \S+ [AP]M\] INFO - > Training throughput:     (\d+\.\d\d) Tokens/s/GPU", line
        )
        stats = next(
            json.loads(line.split(" ", 1)[1])["value"] for line in ended.out.splitlines() if "tracked" in line
        )
        assert printed is not None and float(printed[1]) == pytest.approx(
            4 * 2 * 32 / stats["seconds"], rel=1e-3, abs=0.01
        )
        (found,) = parse_log(ended.out.encode()).runs
        assert (found.n_gpus, found.small, found.unit, found.outcome) == (2, True, "tokens", "completed")
        assert found.throughput.value == pytest.approx(2 * float(printed[1]))  # of both
        assert (found.sequence_length, found.model) == (32, "tiny")
