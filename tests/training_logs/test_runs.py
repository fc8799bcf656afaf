# ruff: noqa: E501 (lines of logs)
"""Several runs in one log: where each begins, what is known of it, how it ended."""

import pytest

from labtui.training_logs.reader import LogReader, parse_log
from labtui.training_logs.run_headers import read_command
from tests.training_logs import samples

COMMANDS = {
    "python ResNet50.py --epochs 5 --batch_size 4096 --n_gpus 2": ("ResNet50", "gpu", 2, 4096, 5),
    "+ singularity exec --nv $C python ResNet50_seq.py --epochs 1 --batch_size 256": ("ResNet50", "gpu", 1, 256, 1),
    "+ singularity exec /x.sif python ResNet50_seq.py --epochs 1 --batch_size 256": ("ResNet50", "cpu", 0, 256, 1),
    "+ singularity exec /x.sif python ResNet50.py --epochs 1 --n_gpus 2": ("ResNet50", "cpu", 0, None, 1),
    "++ python3 /home/u/ResNet152.py --epochs=3 --batch-size=64": ("ResNet152", None, None, 64, 3),
    "+ python -u ResNet101_seq.py --device cpu --epochs 2": ("ResNet101", "cpu", 0, None, 2),
    "+ python ResNet50.py --device cpu --n_gpus 4 --epochs 2 --batch_size 64": ("ResNet50", "gpu", 4, 64, 2),
    "mpirun -np 4 -bind-to none python3.6 scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py --model resnet50 --batch_size 32": ("ResNet50", "gpu", 4, 128, None),
    "mpirun -np 8 python3.6 pytorch-horovod-imagenet.py --bs 128 --lr 0.4 --epochs 1": (None, "gpu", 8, 1024, 1),
    "srun python ./main.py -a resnet50 --print-freq 1 --batch-size 128 --epochs 1 $TMPDIR/x/": ("ResNet50", None, None, 128, 1),
    "torchrun --nproc_per_node=4 --nnodes 2 train_ddp.py --batch_size 32 --epochs 5": (None, "gpu", 8, 256, 5),
    "torchrun --nproc_per_node=4 --nnodes 1:4 train_ddp.py --batch_size 32": (None, None, None, None, None),
    "deepspeed --num_gpus 4 train.py --batch_size 32 --epochs 5": (None, "gpu", 4, 128, 5),
    "mpirun -n 4 -x PATH python hvd_train.py --batch-size 32": ("hvd_train", "gpu", 4, 128, None),
    "+ srun --nodes=2 --ntasks-per-node=4 bash -c export\\ RANK=\\$SLURM_PROCID\\;\\ exec\\ \\\"\\$@\\\" rank python -u train_ddp.py --batch_size 32 --num_epochs 5": (None, "gpu", 8, 256, 5),
    "+ srun --nodes=1 --ntasks-per-node=1 bash -c RANK=0 rank python train_ddp.py --batch_size 32 --device cpu": (None, "gpu", 1, 32, None),
}  # fmt: skip


@pytest.mark.parametrize("text", COMMANDS)
def test_commands(text):
    command = read_command(text)
    assert command is not None
    facts = command.facts
    assert (facts.model, facts.device, facts.n_gpus, facts.batch_size, facts.epochs_planned) == COMMANDS[text]


@pytest.mark.parametrize("text", [
    'File "ResNet50.py", line 3, in <module>',
    "python: can't open file 'ResNet50.py': [Errno 2] No such file or directory", "usage: ResNet50.py [-h] [--epochs EPOCHS]",
    *("ResNet50.py: error: unrecognized arguments: -- epochs 5", "+ python -c 'print(1)'", "+ python plot.py", "python 'unclosed ResNet50"),
])  # fmt: skip
def test_lines_that_start_no_training(text):
    assert read_command(text) is None


def test_feeding_tells_whether_the_report_may_say_more_and_a_jobs_name_may_be_given():
    assert parse_log(samples.keras(1, 2, 2).encode(), job_name="ResNet50_seq_CPU").runs[0].device == "cpu"
    reader = LogReader()
    assert reader.feed(samples.THREE_RUNS.encode())
    assert not reader.feed(b"hello\n 3/25 [==>....] - ETA: 1s\n") and not reader.feed(b"Epoch 1/")
    assert reader.feed(b"2\n") and reader.feed(b"Killed\n") and reader.feed(b"Epoch 1/9: x=1.0 (2.0s)\n")
    reader.finish()
    report = reader.report
    reader.finish()
    assert reader.report == report
