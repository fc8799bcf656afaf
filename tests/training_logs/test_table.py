# ruff: noqa: E501 (lines of logs)
"""What a log is read as, in one line for each of its runs, and the same for any cutting of its bytes."""

import pytest

from labtui.training_logs.reader import parse_log
from labtui.training_logs.runs import ParsedRun
from tests.training_logs import samples
from tests.training_logs.samples import banner, devices, imagenet, keras, mllog


def shown(run: ParsedRun) -> str:
    """``ResNet50 gpu 2 x 4096: 1*=31 2=8, 466.31/s, completed``; * marks the first epoch of a process."""
    size = "" if run.batch_size is None else f" x {run.batch_size}"
    gpus = "" if run.n_gpus is None else f" {run.n_gpus}"
    epochs = "".join(
        f" {one.epoch}{'*' * one.starts_process}{f'..{one.epoch + one.count - 1}' * (one.count > 1)}={one.seconds.value:.4g}"
        for one in run.epochs
    )
    rate = "" if run.throughput is None else f", {run.throughput.value:.6g}/s"
    batch = run.batch_seconds if not run.epochs else None
    rate += f", {batch.lo:.4f} to {batch.hi:.4f} s a batch" if batch else ""
    said = {"woven": run.interleaved, "contradicted": run.contradictions, "practice": run.practice}
    said["stand-in"] = bool(run.mark)
    words = "".join(f", {word}" for word, told in said.items() if told)
    return f"{run.model or '-'} {run.device or '-'}{gpus}{size}:{epochs}{rate}, {run.outcome}{words}"


TRAINER, NON_GPU, REQUEUE = (
    "{{'train_runtime': 247.4258, 'train_samples_per_second': {}, 'train_loss': 1.1304, 'epoch': 2.0}}\n",
    "WARNING:tensorflow:There are non-GPU devices in `tf.distribute.Strategy`, not using nccl allreduce.\n",
    "slurmstepd: error: *** JOB 123 ON as01r1b09 CANCELLED AT 2026-11-21T10:00:00 DUE TO JOB REQUEUE ***\n",
)  # fmt: skip
HF_HEAD = "***** Running training *****\n  Num examples = 50,000\n  Num Epochs = 2\n  Total train batch size (w. parallel, distributed & accumulation) = 200\n"
HF_EVAL = "***** Running Evaluation *****\n  Num examples = 10000\n  Batch size = 50\n"
START = "Epoch 1/1\n" + mllog("epoch_start", epoch_num=1)
STOP, LINE = (
    mllog("epoch_stop", epoch_num=1, seconds=31.25), "13/13 - 31s - loss: 2.26 - 31s/epoch - 2s/step\n",
)  # fmt: skip
TIMM = "Train: 0 [   0/196 (  0%)]  Loss: 6.9 (6.9)  Time: 0.345s, 2968.12/s  (0.350s, 2925.71/s)  LR: 1.0e-06  Data: 0.010 (0.012)\n"
XLA = "| Training Device=xla:0/{} Epoch=1 Step={} Loss=6.8 Rate={} GlobalRate=45.84 Time=06:13:36\n"
LAUNCH = "+ python bind_launch.py {}--epochs 70 --batch_size 64\n"
EVERY_RANK = (
    "TensorFlow:  1.12\nModel:       resnet50\nBatch size:  128 global\n             32 per device\nStep\tImg/sec\ttotal_loss\n"
    * 4
    + "".join(
        f"{n}\timages/sec: {rate} +/- 0.3 (jitter = 1.0)\t8.1\n"
        for n in (1, 10)
        for rate in (330.1, 329.8, 330.3, 330.0)
    )
    + "".join(f"total images/sec: {rate}\n" for rate in (1320.21, 1320.24, 1320.19, 1320.22))
)
LABTUIS = (
    "---- labtui job ----\ntoken:     k3v9\nlab:       hpc4ai-ch10\npractice:  yes\n"
    "run-1:     model=ResNet50 device=gpu n_gpus=1 batch_size=2048 epochs=2 script=mine.py learning_rate=0.01\n"
    "run-2:     model=ResNet50 device=gpu n_gpus=2 batch_size=4096 epochs=2 script=mine.py\n"
    "job:       31337 ResNet50-k3v9\n---- end ----\n\n"
)
OLD_BAR, NEW_BAR = (
    samples.old_epoch(seconds=5, step="500ms/step"), samples.new_epoch(seconds=9, step="900ms/step"),
)  # fmt: skip
WORKERS = (
    "INFO:tensorflow:MultiWorkerMirroredStrategy with cluster_spec = {'worker': ['a:1', 'b:1']}, task_type = 'worker', "
    "task_id = 0, num_workers = 2, local_devices = ('/job:worker/replica:0/task:0/device:GPU:0', "
    "'/job:worker/replica:0/task:0/device:GPU:1'), communication = CommunicationImplementation.AUTO\n"
)


GPUS = "---- labtui job ----\ngpus:      {}\n---- end ----\n"
STARTS = "2026-11-21 10:00:00.1: I port.cc:110] oneDNN custom operations are on. You may see slightly different results.\n"
TRACE = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nRuntimeError: gone\n'
LATE_HEAD, LATE_TAIL = keras(1, 1, 3).split("\n", 1)
VALIDATED = " * Acc@1 10.130 Acc@5 30.862\n"
BENCHMARK = "1\timages/sec: 330.1 +/- 0.0 (jitter = 0.0)\t8.1\ntotal images/sec: {}\n"
RAN_OUT = (
    "WARNING:tensorflow:Your input ran out of data; interrupting training. Make sure that your dataset or generator can "
    "generate at least `steps_per_epoch * epochs` batches (in this case, {} batches). You may need to use the repeat() function.\n"
)
EMPTY = "Epoch {}/4\n250/250 - 0s - 1ms/step - accuracy: 0.0000e+00 - loss: 0.0000e+00\n"
FULL = "Epoch {}/4\n250/250 - 14s - 56ms/step - accuracy: 0.3100 - loss: 1.9000\n"
HAND = "".join(f"Epoch {n}/10 | time: 12.{n}s\n" for n in (1, 2, 3))
REDRAWN = [f"Epoch 1/2: {n}%|█| {n}/100 [00:{n // 4:02d}<00:00, 4.0it/s]" for n in (0, 50, 100, 100)]
PREDICT = "313/313 [==============================] - 1s 2ms/step\n"
EVALUATE = "40/40 - 1s - loss: 9.0\n"
COMMAND = "+ singularity exec --nv /gpfs/x.sif python ResNet{}.py --epochs 2 --batch_size {} --n_gpus {}\n"
TORCHRUN = "+ torchrun --nproc_per_node {} train.py --batch-size 64 --epochs 2\nhello\n"
BAR = "Epoch 0: 100%|####| 49/49 [00:{}<00:00,  4.05it/s{}]\n"
ONE = "Epoch {}/2\n25/25 - {}s - loss: 2.0\n"
PYTORCH = "+ python main.py -a resnet50 --batch-size 128 --epochs 1 /data\n"
TF_CNN = (
    "Model:       resnet50_v1.5\nBatch size:  256 global\n             64 per device\n"
    "Devices:     ['/gpu:0', '/gpu:1', '/gpu:2', '/gpu:3']\ntotal images/sec: 1249.28\n"
)


def within_epochs(bar: str, count: int = 2) -> str:
    """Keras's bars on lines of their own, with another bar before the end of each epoch."""
    own = "196/196 [====] - 24s 121ms/step - loss: 2.1\n"
    return "".join(
        f"Epoch {n}/{count}\n  1/196 [....] - ETA: 24s - loss: 2.1\n{bar}{own}" for n in range(1, count + 1)
    )


def marked(text: str, *marks: str) -> str:
    """Each line as several processes print it, behind their marks."""
    return "".join(mark + line for line in text.splitlines(keepends=True) for mark in marks)


def woven(*trainings: str) -> str:
    """Their lines in turn."""
    lines = zip(*(training.splitlines(keepends=True) for training in trainings), strict=True)
    return "".join(line for several in lines for line in several)


def records(*numbers: float, start: str = "", stop: str = "", every: int = 1) -> str:
    """MLPerf's records of epochs of 900 ms, one a second."""
    text = (start or mllog("run_start", ms=0)) * every
    for place, number in enumerate(numbers, start=1):
        text += mllog("epoch_start", ms=1000 * place, epoch_num=number) * every
        text += mllog("epoch_stop", ms=1000 * place + 900, epoch_num=number) * every
    return text + (stop or mllog("run_stop", ms=9000, status="success")) * every


def blocks(*parts: tuple[int, int, int]) -> str:
    """MLPerf's blocks: first epoch, number of epochs, seconds; 100 s between their beginnings."""
    text = mllog("run_start", ms=0)
    for place, (first, count, seconds) in enumerate(parts):
        more = {"epoch_count": count} if count > 1 else {}
        text += mllog("block_start", ms=100_000 * place, first_epoch_num=first, **more)
        text += mllog("block_stop", ms=100_000 * place + 1000 * seconds, first_epoch_num=first)
    return text


CASES = {
    # how many GPUs
    "devices, replicas and banner agree": ("".join(devices(*range(n)) + banner("ResNet50", n, 2048 * n) + keras(1, 2, 2) for n in (1, 2, 4)),
        "ResNet50 gpu 1 x 2048: 1*=13.6 2=13.6, completed | ResNet50 gpu 2 x 4096: 1*=13.6 2=13.6, completed | ResNet50 gpu 4 x 8192: 1*=13.6 2=13.6, completed"),
    "replicas count more than the banner": (banner("ResNet50", 4, 8192).replace("Num_replicas: 4", "Num_replicas: 1") + keras(1, 2, 2), "ResNet50 gpu 1 x 8192: 1*=13.6 2=13.6, completed, contradicted"),
    "devices count more than both": (devices(0) + banner("ResNet50", 4, 8192) + keras(1, 2, 2), "ResNet50 gpu 1 x 8192: 1*=13.6 2=13.6, completed, contradicted"),
    "devices count less than the records": (devices(0) + records(1, 2, start=mllog("run_start", ms=0) + mllog("n_gpus", 4)), "- gpu 1: 1*=0.9 2=0.9, completed, contradicted"),
    "devices after the banner": (banner("ResNet50", 4, 8192) + devices(0) + keras(1, 2, 2), "ResNet50 gpu 1 x 8192: 1*=13.6 2=13.6, completed, contradicted"),
    "devices of several workers": (WORKERS + banner("ResNet50", 4, 8192) + keras(1, 2, 2), "ResNet50 gpu 4 x 8192: 1*=13.6 2=13.6, completed"),
    "fewer GPUs than the job has": (GPUS.format(4) + " Model ResNet50 1 GPUs\n" + keras(1, 3, 3), "ResNet50 gpu 1: 1*=13.6 2=13.6 3=13.6, completed"),
    "more than the job has, as the banner says": (GPUS.format(1) + " Model ResNet50 4 GPUs\n" + keras(1, 3, 3), "ResNet50 gpu 1: 1*=13.6 2=13.6 3=13.6, completed, contradicted"),
    "more than the job has, as TensorFlow says": (GPUS.format(1) + " Model ResNet50 4 GPUs\nNum_replicas: 4\n" + keras(1, 3, 3), "ResNet50 gpu 4: 1*=13.6 2=13.6 3=13.6, completed"),
    "a CPU is one replica": (" Model ResNet50 CPU \nBatch_size: 2048\nNum_replicas: 1 \n" + keras(1, 2, 2), "ResNet50 cpu 0 x 2048: 1*=13.6 2=13.6, completed"),
    "devices of a training that died are not the next one's": (banner("ResNet50", 4, 8192) + samples.ERRORS + devices(0) + banner("ResNet50", 1, 2048) + keras(1, 2, 2),
        "ResNet50 gpu 4 x 8192:, oom | ResNet50 gpu 1 x 2048: 1*=13.6 2=13.6, completed"),
    "a replica count after a training is the next one's": ("".join(f"Number of devices: {n}\nBatch_size: {2048 * n}\n" + keras(1, 2, 2, steps) for n, steps in ((1, 25), (2, 13), (4, 7))),
        "- - 1 x 2048: 1*=13.6 2=13.6, completed | - gpu 2 x 4096: 1*=14 2=14, completed | - gpu 4 x 8192: 1*=14 2=14, completed"),
    # processes
    "a resumed training": (keras(3, 5, 5), "- -: 3*=13.6 4=13.6 5=13.6, completed"),
    "TensorFlow starts anew": (STARTS + keras(1, 2, 5) + STARTS + keras(3, 5, 5), "- -: 1*=13.6 2=13.6 3*=13.6 4=13.6 5=13.6, completed"),
    "a program says it resumes": (STARTS + keras(1, 2, 5) + "Resuming training from epoch 3\n" + keras(3, 5, 5),
        "- -: 1*=13.6 2=13.6 3*=13.6 4=13.6 5=13.6, completed"),
    "Slurm starts the job anew": (STARTS + keras(1, 2, 5) + REQUEUE + keras(3, 5, 5), "- -: 1*=13.6 2=13.6 3*=13.6 4=13.6 5=13.6, completed"),
    "a traceback, then it goes on": (STARTS + keras(1, 2, 5) + TRACE + keras(3, 5, 5), "- -: 1*=13.6 2=13.6 3*=13.6 4=13.6 5=13.6, completed"),
    "resumed on other GPUs": (devices(0) + keras(1, 2, 5) + TRACE + devices(0, 1) + keras(3, 5, 5), "- gpu 1: 1*=13.6 2=13.6, failed | - gpu 2: 3*=13.6 4=13.6 5=13.6, completed"),
    "resumed with other steps": (keras(1, 2, 4) + keras(3, 4, 4, 13), "- -: 1*=13.6 2=13.6, unfinished | - -: 3*=14 4=14, completed"),
    "resumed with other steps for its last epoch": (keras(1, 2, 3) + f"Epoch 3/3\n{STARTS}" + keras(3, 3, 3, 13), "- -: 1*=13.6 2=13.6, unfinished | - -: 3*=14, completed"),
    "a restart amid an epoch": (STARTS + keras(1, 2, 5) + "Epoch 3/5\n" + STARTS + keras(3, 5, 5), "- -: 1*=13.6 2=13.6 3*=13.6 4=13.6 5=13.6, completed"),
    "words that come with the first step start no process": (f"{LATE_HEAD}\n{STARTS}{LATE_TAIL}" + keras(2, 3, 3), "- -: 1*=13.6 2=13.6 3=13.6, completed"),
    "a second banner": (banner("ResNet50", 1, 2048) + keras(1, 2, 5) + banner("ResNet50", 1, 2048) + keras(3, 5, 5),
        "ResNet50 gpu 1 x 2048: 1*=13.6 2=13.6, unfinished | ResNet50 gpu 1 x 2048: 3*=13.6 4=13.6 5=13.6, completed"),
    "a resumed PyTorch training": (imagenet(0) + VALIDATED + "=> loading checkpoint 'a.tar'\n" + imagenet(1) + VALIDATED + imagenet(2) + "Test: [ 0/98]\tTime  1.0 ( 1.0)\n",
        "- -: 1*=125 2*=125 3=125, completed"),
    "a training prolonged in the same script": (keras(1, 5, 5) + keras(6, 10, 10),
        "- -: 1*=13.6 2=13.6 3=13.6 4=13.6 5=13.6, completed | - -: 6*=13.6 7=13.6 8=13.6 9=13.6 10=13.6, completed"),
    "a container without GPU access, whatever the banner says": (COMMAND.replace("--nv ", "").format(50, 4096, 2) + banner("ResNet50", 2, 4096) + keras(1, 2, 2),
        "ResNet50 cpu 0 x 4096: 1*=13.6 2=13.6, completed"),
    "TensorFlow's own warning makes a CPU run": (NON_GPU + banner("ResNet50", 1, 2048) + keras(1, 2, 2), "ResNet50 cpu 0 x 2048: 1*=13.6 2=13.6, completed"),
    "the head of labtui's own job script": (LABTUIS + "+ python mine.py --epochs 2\n" + mllog("device", "gpu", practice=False) + keras(1, 2, 2) + "\n+ python mine.py --epochs 2\n" + keras(1, 2, 2),
        "mine gpu 1 x 2048: 1*=13.6 2=13.6, completed, practice, stand-in | mine gpu 2 x 4096: 1*=13.6 2=13.6, completed, practice, stand-in"),
    # one run per rank
    "totals of every rank": (EVERY_RANK, "ResNet50 - x 128:, 1320.21/s, completed, woven"),
    "trainers of four ranks": ("".join(map(TRAINER.format, (404.161, 404.2, 404.1, 404.3))), "- -:, 404.2/s, completed, woven"),
    "two trainings without marks": (woven(keras(1, 5, 5, 25), keras(1, 5, 5, 49)), "- -:, unfinished, woven"),
    "two trainings of other lengths without marks": (woven(keras(1, 5, 5, 25), keras(1, 5, 10, 49)), "- -:, unfinished | - -:, completed"),
    "two of hand-written lines without marks": ("".join(f"Epoch [{n}/3] time: {t}.00s\n" for n in (1, 2, 3) for t in (10, 20)), "- -:, completed"),
    "a batch of all GPUs or of each": (devices(0, 1) + "Batch size: 128\n" + keras(1, 2, 2), "- gpu 2: 1*=13.6 2=13.6, completed"),
    "two global batches": ("Batch_size: 2048\nGlobal batch size: 1024\n" + keras(1, 2, 2), "- - x 1024: 1*=13.6 2=13.6, completed"),
    "two ranks that round": ("".join(f"Epoch [{n}/3] time: {t}s\n" for n in (1, 2, 3) for t in (1, 2)), "- -: 1*=2.25 2=1.75 3=1.75, completed"),
    "two of other speeds without marks": (f"Epoch 1/2\n{ONE.format(1, 42)}{ONE.format(2, 37)}25/25 - 96s - loss: 2.0\nEpoch 2/2\n25/25 - 52s - loss: 2.0\n", "- -:, completed, woven"),
    "a third epoch that is by its time the first training's": ("".join(f"Epoch {n} took {t} s\n" for n, t in ((1, 101.5), (2, 41.3), (1, 92.2), (2, 29.8), (3, 41.1))), "- -: 1*=101.5 2=41.3, completed | - -:, completed"),
    "lines of parts of an epoch": ("".join(f"Epoch {n // 4 + 1}/2 | global_step={n}99 | time: 6.{n}s\n" for n in range(8)), "- -:, completed"),
    "bars of numbered parts of an epoch": ("".join(f"Epoch {n // 2}, shard {n % 2}: 100%|#| {49 - n % 2}/{49 - n % 2} [00:06<00:00, 8.06it/s]\n" for n in range(4)), "- -:, completed"),
    "bars of parts without a name, alike": (("Epoch {}/2\n" + 2 * "100%|#| 49/49 [00:06<00:00, 8.06it/s]\n").format(1), "- -:, unfinished"),
    "lines of several processes with their memory": ("".join(f"Epoch {n // 2}/2 | local_rank {n % 2} | mem {4096 + n % 2} MB | time: 6.{n % 2}s\n" for n in (2, 3, 4, 5)), "- -: 1*=6.1 2=6.05, completed"),
    "two of PyTorch without marks": (woven(imagenet(0, 250), imagenet(0, 250).replace("/250]", "/500]")), "- -:, unfinished"),
    "bars of several ranks": ("0: Epoch 1/2\n1: Epoch 1/2\n0: " + OLD_BAR + "0: Epoch 2/2\n1: " + NEW_BAR + "1: Epoch 2/2\n0: " + OLD_BAR + "1: " + NEW_BAR, "- -: 1*=5 2=5, completed, woven"),
    "nine echoes of a launcher": (LAUNCH.format("--nproc 8 train.py ") * 9 + "hello\n", "- - x 64:, unfinished"),
    "two benchmarks": (BENCHMARK.format(330.12) + BENCHMARK.format(640.5), "- -:, 330.12/s, completed | - -:, 640.5/s, completed"),
    "MLPerf records of four ranks": (records(1, 2, every=4), "- -: 1*=0.9 2=0.9, completed, woven"),
    "marks of torchrun in srun": (marked(banner("ResNet50", 2, 4096) + keras(1, 3, 3), "3: [default1]:", "3: [default0]:"), "ResNet50 gpu 2 x 4096: 1*=13.6 2=13.6 3=13.6, completed, woven"),
    "marks of mpirun and a clock": (marked(banner("ResNet50", 2, 4096) + keras(1, 3, 3), "2026-08-03T09:47:01.123456789Z [1,1]<stdout>:", "2026-08-03T09:47:01.123456789Z [1,0]<stdout>:"), "ResNet50 gpu 2 x 4096: 1*=13.6 2=13.6 3=13.6, completed, woven"),
    "marks of torchrun and Python's logging": (marked(banner("ResNet50", 2, 4096) + keras(1, 3, 3), "[1]<stdout>:2026-11-21 10:00:00,123 - INFO - ", "[0]<stdout>:2026-11-21 10:00:00,123 - INFO - "), "ResNet50 gpu 2 x 4096: 1*=13.6 2=13.6 3=13.6, completed, woven"),
    "the lowest rank speaks for all": (marked(keras(1, 2, 2), "2: ", "0: ", "1: "), "- -: 1*=13.6 2=13.6, completed, woven"),
    "marks of the script": (marked("".join(f"Epoch {n} took 1{n}.4 s\n" for n in (1, 2)), "Rank 1: ", "Rank 0: "), "- -: 1*=11.4 2=12.4, completed, woven"),
    "Lightning's last bar is drawn again": (f"{BAR.format(12, '')}`Trainer.fit` stopped: `max_epochs=2` reached.\n{BAR.format(13, ', val_loss=1.2')}", "- -: 1*=13.5, completed"),
    "lines twice without marks": (marked(keras(1, 3, 3), "", ""), "- -: 1*=13.6 2=13.6 3=13.6, completed, woven"),
    "workers that evaluate": (marked(keras(1, 2, 2) + EVALUATE, "", ""), "- -: 1*=13.6 2=13.6, completed, woven"),
    "a worker that runs ahead": (f"Epoch 1/2\n{ONE.format(1, 29)}{ONE.format(2, 28)}Epoch 2/2\n25/25 - 14s - loss: 2.0\n25/25 - 13s - loss: 2.0\n", "- -: 1*=29 2=14, completed, woven"),
    "a worker that runs ahead and began earlier, cut off": (f"Epoch 1/2\n{ONE.format(1, 29)}{ONE.format(2, 40)}Epoch 2/2\n25/25 - 14s - loss: 2.0\n", "- -: 1*=29 2=14, completed, woven"),
    "the batch of one of four processes": (TORCHRUN.format(4), "- gpu 4 x 256:, unfinished"),
    "the batch of one of unknown processes": (TORCHRUN.format("gpu"), "- -:, unfinished"),
    # where runs begin
    "at echoed commands": ("+ module load singularity\n" + COMMAND.format(50, 2048, 1) + keras(1, 2, 2) + COMMAND.format(152, 4096, 2) + keras(1, 2, 2),
        "ResNet50 gpu 1 x 2048: 1*=13.6 2=13.6, completed | ResNet152 gpu 2 x 4096: 1*=13.6 2=13.6, completed"),
    "at epoch 1": (keras(1, 2, 2) + keras(1, 2, 2, seconds=8), "- -: 1*=13.6 2=13.6, completed | - -: 1*=8 2=8, completed"),
    "at another plan": ("Epoch 1/5\n" + keras(1, 2, 2), "- -:, unfinished | - -: 1*=13.6 2=13.6, completed"),
    "a second fit inherits no model and no batch": (banner("ResNet50", 1, 2048) + keras(1, 2, 2) + keras(1, 2, 2, steps=49),
        "ResNet50 gpu 1 x 2048: 1*=13.6 2=13.6, completed | - -: 1*=14 2=14, completed"),
    "a command, echoed twice, and its banner are one": (COMMAND.format(50, 4096, 2) * 2 + banner("ResNet50", 2, 4096) + keras(1, 2, 2),
        "ResNet50 gpu 2 x 4096: 1*=13.6 2=13.6, completed"),
    "one that crashed before its first epoch keeps its place": (banner("ResNet50", 1, 9999) + "Epoch 1/2\n" + samples.ERRORS + banner("ResNet50", 1, 2048) + keras(1, 2, 2),
        "ResNet50 gpu 1 x 9999:, oom | ResNet50 gpu 1 x 2048: 1*=13.6 2=13.6, completed"),
    "a traceback parts two": ("Epoch 1/2\n" + samples.ERRORS + keras(1, 2, 2), "- -:, oom | - -: 1*=13.6 2=13.6, completed"),
    "two trainings with MLPerf's records": (records(1, start=mllog("global_batch_size", 64)) + records(1, start=mllog("global_batch_size", 128)),
        "- - x 64: 1*=0.9, completed | - - x 128: 1*=0.9, completed"),
    "batches that begin amid an epoch, after a record that ended one": (imagenet(0, 20, 1)[: -8 * (len(imagenet(0, 20, 1)) // 20)] + mllog("epoch_stop", epoch_num=1, seconds=6.5) + "".join(imagenet(0, 20, 1).splitlines(keepends=True)[5:]),
        "- -: 1*=6.5, unfinished | - -: 1*=10, completed"),
    "a trainer's rate after an unfinished fit": (keras(1, 2, 5) + TRAINER.format(404.161), "- -: 1*=13.6 2=13.6, unfinished | - -:, 404.161/s, completed"),
    "timm's rate after an unfinished fit": (keras(1, 2, 5) + 2 * (TIMM + "*** Best metric: 71.5 (epoch 2)\n"), "- -: 1*=13.6 2=13.6, unfinished | - -:, 2925.71/s, completed | - -:, 2925.71/s, completed"),
    "two trainings of timm": ("".join(TIMM.replace("   0/", f"{n:4d}/").replace("2925.71", rate) for rate in ("1000.0", "3000.0") for n in (0, 50, 195)),
        "- -:, 1000/s, unfinished | - -:, 3000/s, unfinished"),
    "two of PyTorch/XLA, each of two processes": ("".join(XLA.format(n % 2, 20 * (n // 2), rate + n) for rate in (100, 400) for n in (0, 1, 3, 5, 2, 4)), "- -:, 102/s, unfinished, woven | - -:, 402/s, unfinished, woven"),
    "two trainings of nanoGPT": ("tokens per iteration will be: 1,000\n" + "".join(f"iter {n}: loss 8.0, time {ms}.00ms, mfu 3.00%\n" for ms in (500, 250) for n in (0, 10, 20)), "- -:, 2000/s, 0.5000 to 0.5000 s a batch, unfinished | - -:, 0.2500 to 0.2500 s a batch, unfinished"),
    "a header that comes again is another training of one epoch": (keras(1, 1, 1) * 3, "- -: 1*=13.6, completed | - -: 1*=13.6, completed | - -: 1*=13.6, completed"),
    "a fit after PyTorch's lines": (PYTORCH + imagenet(0, 20, 1) + keras(1, 2, 5), "ResNet50 - x 128: 1*=10, 256/s, completed | - -: 1*=13.6 2=13.6, unfinished"),
    "hand-written epochs, then bars": ("".join(f"Epoch {n} | Time: 10.{n}0s\n" for n in (1, 2, 3)) + "".join(f"Epoch {n}: 100%|###| 196/196 [05:31<00:00, 0.6it/s]\n" for n in (1, 2, 3)),
        "- -: 1*=10.1 2=10.2 3=10.3, completed | - -: 1*=331.5 2=331.5 3=331.5, completed"),
    "a bar and a line of each epoch": ("".join(f"Epoch {n}: 100%|###| 196/196 [00:24<00:00, 8.1it/s]\nEpoch {n} | Time: 24.51s\n" for n in (1, 2, 3)),
        "- -: 1*=24.5 2=24.5 3=24.5, completed"),
    "a callback beside Keras adds nothing": ("".join(keras(n, n, 2) + f"Epoch {n} took 14.2 s\n" for n in (1, 2)), "- -: 1*=13.6 2=13.6, completed"),
    "bars of several epochs in one line": ("\r".join(one.replace("1/2", f"{n}/2").replace(":25<", f":{24 + n}<") for n in (1, 2) for one in (*REDRAWN, "Val: 9%|█|", REDRAWN[-1].replace(":25<", ":26<"))) + "\n", "- -: 1*=26.5 2=26.5, completed"),
    "a bar that is printed again and again counts once": ("\n".join(REDRAWN) + "\n", "- -: 1*=25.5, unfinished"),
    # what is known of a run
    "a job's name": ("Job Name: ResNet101_seq_GPU\n" + keras(1, 2, 2), "ResNet101 gpu 1: 1*=13.6 2=13.6, completed"),
    "a job's name fills gaps only": ("Job Name: ResNet50_seq_CPU\n" + banner("ResNet152", 2, 64) + keras(1, 2, 2),
        "ResNet152 gpu 2 x 64: 1*=13.6 2=13.6, completed"),
    "Keras's summary names the model": ('Model: "resnet50v2"\n' + keras(1, 2, 2), "ResNet50 -: 1*=13.6 2=13.6, completed"),
    "Keras's own word for any model is no name": ('Model: "sequential"\n' + keras(1, 2, 2), "- -: 1*=13.6 2=13.6, completed"),
    "a banner names it better": (" Model ResNet152 1 GPUs\nBatch_size: 2048\n" + 'Model: "resnet50v2"\n' + keras(1, 2, 2),
        "ResNet152 gpu 1 x 2048: 1*=13.6 2=13.6, completed"),
    "benchmarks name model and devices": (TF_CNN + TF_CNN.replace("resnet50_v1.5", "resnet152").replace(", '/gpu:3'", ""),
        "ResNet50 gpu 4 x 256:, 1249.28/s, completed | ResNet152 gpu 3 x 256:, 1249.28/s, completed"),
    "after a stray backslash": ("see C:\\data\\\n" + keras(1, 2, 2), "- -: 1*=13.6 2=13.6, completed"),
    **{f"Horovod's benchmark prints one worker's batch{after}": (cut + "Model: resnet50\nBatch size: 32\nNumber of GPUs: 4\nIter #0: 330.1 img/sec per GPU\nImg/sec per GPU: 330.1 +-2.0\nTotal img/sec on 4 GPU(s): 1320.4 +-8.0\n",
        f"{first}ResNet50 gpu 4 x 128:, 1320.4/s, completed") for after, cut, first in (("", "", ""), (", after a run that was cut off", keras(1, 2, 3), "- -: 1*=13.6 2=13.6, unfinished | "))},
    "a number of GPUs below a global batch": ("Global batch size: 256\nNumber of GPUs: 4\n" + keras(1, 2, 2), "- gpu 4 x 256: 1*=13.6 2=13.6, completed"),
    "a trainer's own log": ("".join(f"[INFO|trainer.py:1819] 2024-05-02 10:00:00,123 >> {line}\n" for line in HF_HEAD.splitlines()) + TRAINER.format(404.161), "- - x 200:, 404.161/s, completed"),
    "time for, takes": ("Time for epoch 1 is 12.5 sec\nValidation time for epoch 1 is 3.5 sec\nTime for epoch 2 is 10.5 sec\nEPOCH 0 training takes 2.5 s\nEPOCH 0 validation takes 0.5 s\n", "- -: 1*=12.5 2=10.5, completed | - -: 1*=2.5, completed"),
    "a trainer that evaluates": (HF_EVAL + HF_HEAD + HF_EVAL + TRAINER.format(404.161) + HF_EVAL, "- - x 200:, 404.161/s, completed"),
    "a trainer that stops before whole epochs": (HF_HEAD + "{'train_runtime': 20.0, 'train_samples_per_second': 200.0, 'train_steps_per_second': 1.0, 'epoch': 0.08}\n", "- - x 200:, 200/s, completed"),
    "a trainer that goes on": (HF_HEAD + "  Continuing training from epoch 1\n" + TRAINER.format(404.161), "- - x 200:, completed"),
    "lines of batches are no epochs": ("".join(f"Epoch {n}, Iteration 100, Loss: 2.0, Time: 3.2s\nEpoch {n} | time 125 ms per iteration\n" for n in (1, 2)), ""),
    "a loader's bar before the training's": ("Epoch 1/2\n" + "".join(f"100%|#####| {n}/{n} [00:{at:02d}<00:00,  8.0it/s]\n" for n, at in ((40, 3), (196, 24))), "- -:, unfinished"),
    "a rate of each of several processes": ("".join(f"Epoch {n} took 31.{k} s, 500 images/s\n" for n in (1, 2) for k in (1, 2)), "- -: 1*=31.2 2=31.15, completed, woven"),
    "validation after every second epoch": ("".join(f"Epoch {n}/3\n25/25 - 14s - 544ms/step - loss: 1.0{' - val_loss: 1.0' * (n == 2)}\n" for n in (1, 2, 3)), "- -: 1*=13.6 2=13.6 3=13.6, completed"),
    "a batch that grows": ("".join(f"iteration {n}/ 100 | elapsed time per iteration (ms): 2000.0 | lr: 1 | global batch size: {size} | x: 1\n" for n, size in ((1, 256), (2, 512))), "- - x 256:, 128/s, 2.0000 to 2.0000 s a batch, unfinished | - - x 512:, 256/s, 2.0000 to 2.0000 s a batch, unfinished"),
    "times of day are no durations": ("".join(f"Epoch {n} | loss 0.5 | time: {hour}:0{n}:33\n" for hour in (14, 9, 4) for n in (1, 2)), ""),
    "a time per epoch": ("".join(f"Epoch {n}/2 - loss: 1.000 - 1.5{n} s/epoch\n" for n in (1, 2)), "- -: 1*=1.51 2=1.52, completed"),
    "validations beside epochs": ("".join(f"[train] epoch {n} time: 12.5s\n[val] epoch {n} time: 3.2s\n" for n in (1, 2, 3)), "- -: 1*=12.5 2=12.5 3=12.5, completed"),
    # MLPerf's records
    "epochs that count from 0": (records(0, 1, 2), "- -: 1*=0.9 2=0.9 3=0.9, completed"),
    "epoch numbers with fractions are counted": (records(0.5, 1.0, 1.5, 2.0), "- -: 1*=0.9 2=0.9 3=0.9 4=0.9, completed"),
    "records of two trainings": (records(1, 2, start=2 * mllog("run_start", ms=0) + mllog("global_batch_size", 128) + mllog("global_batch_size", 256)), "- - x 256:, completed, woven"),
    "an aborted run": (records(1, 2, stop=mllog("run_stop", ms=9000, status="aborted")), "- -: 1*=0.9 2=0.9, failed"),
    "an aborted run, out of memory": (records(stop=mllog("run_stop", status="aborted", reason="out of memory")), "- -:, oom"),
    "an aborted run, terminated": (records(stop=mllog("run_stop", status="aborted", reason="terminated")), "- -:, cancelled"),
    "an aborted run, another error": (records(stop=mllog("run_stop", status="aborted", reason="ValueError")), "- -:, failed"),
    "stopped early with success": ("Epoch 1/9\n" + records(1), "- -: 1*=0.9, completed"),
    "a block is one sample": (blocks((1, 4, 40)), "- -: 1*..4=10, unfinished"),
    "a block that says its length at its start only, then one of an epoch": (blocks((1, 4, 40), (5, 1, 11)), "- -: 1*..4=10 5=11, unfinished"),
    "blocks of the same label are counted on": (blocks((1, 4, 36), (4, 4, 40), (4, 4, 44)), "- -: 1*..4=9 5..8=10 9..12=11, unfinished"),
    "a block of ten thousand": (blocks((1, 10_000, 60)), "- -: 1*..10000=0.006, unfinished"),
    "blocks of training steps are none": (mllog("run_start") + mllog("block_start", "training_step", ms=0) + mllog("block_stop", "training_step", ms=900),
        "- -:, unfinished"),
    "a clock that was set amid an epoch": ("".join(f"Epoch {n}/3\n" + mllog("epoch_start", ms=start, epoch_num=n) + f"25/25 - {s}s - loss: 2.0\n" + mllog("epoch_stop", ms=end, epoch_num=n) for n, s, start, end in ((1, 29, 0, 29_000), (2, 14, 29_001, 3_643_000), (3, 14, 3_643_001, 3_657_001))),
        "- -: 1*=29 3=14, completed"),
    "a record after Keras's line": (START + LINE + STOP, "- -: 1*=31.25, completed"),
    "a record before Keras's line": (START + STOP + LINE, "- -: 1*=31.25, completed"),
    "a record glued to a bar": (START + samples.joined([samples.new_bar(25, 25, "0s", "1s/step") + STOP, samples.new_bar(25, 25, "31s", "1s/step")]), "- -: 1*=31.25, completed"),
    "CPU devices that stand in for GPUs": (banner("ResNet50", 2, 64) + mllog("device", "cpu", practice=True) + mllog("n_gpus", 2), "ResNet50 gpu 2 x 64:, unfinished, stand-in"),
    "an epoch of other images than the lab's": ("".join(banner("ResNet50", 0, 64) + mllog("train_samples", n, image_size=size) + keras(1, 1, 1) for n, size in ((50_000, 128), (49_998, 128), (320, 128), (50_000, 32))),
        " | ".join("ResNet50 cpu 0 x 64: 1*=13.6, completed" + end for end in ("", "", ", stand-in", ", stand-in"))),
    "a CPU that stands in for nothing": (banner("ResNet50", 0, 64) + mllog("device", "cpu", practice=False) + mllog("num_replicas", 1), "ResNet50 cpu 0 x 64:, unfinished"),
    "a benchmark of somebody else": (mllog("submission_benchmark", "resnet") + mllog("global_batch_size", 3264) + mllog("train_samples", 1281167) + records(0, 1, 2),
        "resnet - x 3264: 1*=0.9 2=0.9 3=0.9, completed"),
    "the record of an end after the next header": (banner("ResNet50", 1, 256) + mllog("run_start") + "Epoch 1/2\n" + mllog("epoch_start", epoch_num=1) + "196/196 - 24s - loss: 1.8\nEpoch 2/2\n" + mllog("epoch_stop", epoch_num=1, seconds=24.007) + mllog("epoch_start", epoch_num=2) + "196/196 - 14s - loss: 1.6\n" + mllog("epoch_stop", epoch_num=2, seconds=14.347) + mllog("run_stop", status="success"),
        "ResNet50 gpu 1 x 256: 1*=24.01 2=14.35, completed"),
    # epochs that are none, and how runs end
    "PyTorch's epochs without the command": ("".join(imagenet(epoch) + VALIDATED for epoch in range(3)), "- -: 1*=125 2=125 3=125, completed"),
    "PyTorch's, the last cut": (imagenet(0) + VALIDATED + imagenet(1)[: len(imagenet(1)) // 2], "- -: 1*=125, unfinished"),
    "the input ran out": (keras(1, 2, 5) + "Epoch 3/5\n" + RAN_OUT.format(125) + "25/25 - 5s - loss: 2.1 - 5s/epoch - 200ms/step\n", "- -: 1*=13.6 2=13.6, unfinished"),
    "the validation's input ran out": (keras(1, 2, 5) + "Epoch 3/5\n" + RAN_OUT.format(10) + "25/25 - 14s - loss: 2.1 - val_loss: 2.2 - 14s/epoch - 544ms/step\n", "- -: 1*=13.6 2=13.6 3=13.6, unfinished"),
    "Keras 3 goes on without a step after its input ran out": (FULL.format(1) + EMPTY.format(2) + FULL.format(3) + EMPTY.format(4), "- -: 1*=14 3=14, unfinished"),
    "early stopping": (keras(1, 3, 10) + "Epoch 3: early stopping\n", "- -: 1*=13.6 2=13.6 3=13.6, completed"),
    "early stopping of old Keras": (keras(1, 3, 10) + "Epoch 00003: early stopping\n", "- -: 1*=13.6 2=13.6 3=13.6, completed"),
    "a predict's bar within each epoch": (within_epochs("1/1 [====] - ETA: 0s\n1/1 [====] - 0s 17ms/step\n"), "- -: 1*=24 2=24, completed"),
    "an evaluate's bar within each epoch": (within_epochs("40/40 [====] - 3s 75ms/step - loss: 2.2\n"), "- -: 1*=24 2=24, completed"),
    "a predict's bar in a single epoch": (within_epochs("1/1 [====] - 0s 17ms/step\n", 1), "- -: 1*=24, completed"),
    "hand-written, unfinished": (HAND, "- -: 1*=12.1 2=12.2 3=12.3, unfinished"),
    "hand-written, early stopping": (HAND + "Early stopping at epoch 3\n", "- -: 1*=12.1 2=12.2 3=12.3, completed"),
    "an evaluate, or a training of one epoch": (EVALUATE, "- -: 1*=1, completed"),
    "validation within an epoch": (keras(1, 2, 2).replace("loss: 2.1", "loss: 2.1 - val_loss: 2.2"), "- -: 1*=13.6 2=13.6, completed"),
    "epochs of less than a second in old Keras": (keras(1, 2, 2, seconds=0).replace(" - 0s/epoch - 544ms/step", ""), "- -: 1*=0.25 2=0.25, completed"),
    "epochs not printed one by one": ("".join(f"Epoch: {n} | Time: {n * 1.17:.3f} sec\n" for n in (100, 200, 300)), "- -:, completed"),
    "a running total": ("".join(f"Epoch {n}/5 took {t} s\n" + f"{REQUEUE}Resuming from epoch 4\n" * (n == 3) for n, t in enumerate((24.0, 48.0, 72.0, 24.0, 48.0), 1)), "- -: 1*=24, completed"),
    "numbers of more digits than any has": ("".join(f"Epoch {n} | loss: {x}.5 | time: 3.1s\n" for n, x in ((1, 0), (2, "7" * 400), ("9" * 23, 0))), "- -: 1*=3.1, unfinished"),
    "a restart on fewer GPUs": ("Number of GPUs: 4\nEpoch 1 took 9.5 s\nNumber of GPUs: 2\nEpoch 2 took 19.5 s\n", "- gpu 4: 1*=9.5, completed | - gpu 2: 2*=19.5, completed"),
    "two of MMDetection": ("".join(f"Epoch [1][{n}/73]  time: {t}, data_time: 0.1\n" for n, t in ((50, 0.5), (70, 0.5), (50, 0.2))), "- -:, 0.4500 to 0.5500 s a batch, unfinished | - -:, 0.1500 to 0.2500 s a batch, unfinished"),
    "a running total after a slow first epoch": ("".join(f"Epoch {n} took {t} s\n" for n, t in enumerate((200.1, 224.1, 249.2, 275.0, 298.0, 323.2), 1)), "- -: 1*=200.1, completed"),
    "times that grow by chance, or slower and slower": ("".join(f"Epoch {n} took {t} s\n" for times in ((24.0, 24.4, 24.8, 25.2), (20.0, 22.1, 26.4), (29, 30, 31)) for n, t in enumerate(times, 1)),
        "- -: 1*=24 2=24.4 3=24.8 4=25.2, completed | - -: 1*=20 2=22.1 3=26.4, completed | - -: 1*=29.25 2=30.25 3=31.25, completed"),
    "running totals of two, and of three resumed": ("".join(f"Epoch {n} | Time: {9 + n * 31.1:.2f}s\n" for n in (1, 2)) + "".join(f"Epoch {n}/13 time: {t} s\n" for n, t in ((11, 5500.0), (12, 6000.1), (13, 6500.0))), "- -: 1*=40.1, completed | - -: 11*=5500, completed"),
    "a predict": (PREDICT, "- -:, unfinished"),
    "a predict after a fit": (keras(1, 2, 2) + PREDICT, "- -: 1*=13.6 2=13.6, completed"),
    "one epoch has no header": (banner("ResNet50", 1, 256) + "196/196 - 24s - loss: 2.0\n" + EVALUATE, "ResNet50 gpu 1 x 256: 1*=24, completed"),
    "an evaluate before a fit": (EVALUATE + keras(1, 2, 2), "- -: 1*=13.6 2=13.6, completed"),
    "a fit of one epoch and another head": (EVALUATE + "Num_replicas: 2\n" + keras(1, 2, 2), "- -: 1*=1, completed | - gpu 2: 1*=13.6 2=13.6, completed"),
    "an evaluate alone": ("+ python ResNet50.py --epochs 5 --batch_size 256 --n_gpus 1\n" + EVALUATE, "ResNet50 gpu 1 x 256:, unfinished"),
    "epochs by hand that break off": ("Epoch 1 took 9.5 s\nEpoch 2 took 9.5 s\nEpoch 3, step 4: loss 2.0\n", "- -: 1*=9.5 2=9.5, unfinished"),
    "a pasted training of one epoch": ("Epoch 1/1\n13/13 - 31s - loss: 2.26 - accuracy: 0.2", "- -: 1*=31, completed"),
    "a last line with more behind its time": ("Epoch 3 | time: 3.1s | loss 1.2", "- -: 3*=3.1, completed"),
    "times of day": ("".join(f"Epoch {n} | time: {at}\n" for n, at in enumerate(("22:50", "23:40", "23:40", "00:30"))), "- -:, completed"),
    "minutes and seconds": ("Epoch 1 | time: 10:15\nEpoch 2 | time: 10:14\n", "- -: 1*=615.2 2=614.2, completed"),
    "a stop record against its clock": (START.replace("Epoch 1/1\n", "") + mllog("epoch_stop", ms=40_000, epoch_num=1, seconds=31.25) + records(2, 3), "- -:, unfinished | - -: 2*=0.9 3=0.9, completed"),
    "an evaluate's bar before an only epoch's line": ("Epoch 1/1\n" + PREDICT[:-1] + " - loss: 9.0\n" + "25/25 - 14s - 544ms/step - loss: 2.0\n", "- -:, completed"),
    "an evaluate after 3 of 100 epochs": (keras(1, 3, 100) + EVALUATE, "- -: 1*=13.6 2=13.6 3=13.6, completed"),
}  # fmt: skip

DOCUMENTS = {
    "hpc4ai-ch10-cpu": "- -: 1*=220 2=215, completed",
    "hpc4ai-ch10-gpu": "- -: 1*=23.72 2=14.31, completed",
    "hpc4ai-ch10-resnet50": "ResNet50 gpu 1 x 2048: 1*=29 2=13.6, completed | ResNet50 gpu 2 x 4096: 1*=31 2=8.099, completed | ResNet50 gpu 4 x 8192: 1*=47 2=5.376, completed",
    "hpc4ai-ch10-resnet152": "ResNet152 gpu 1 x 1024: 1*=63 2=32.73, completed | ResNet152 gpu 2 x 2048: 1*=76 2=17.95, completed | ResNet152 gpu 4 x 4096: 1*=126 2=10.05, completed",
    "sa-miri-2021-ex12": "- -: 1*=41, unfinished",
    "sa-miri-2025-pg-resnet50": "ResNet50 gpu 1 x 2048: 1*=29 2=13.6, completed | ResNet50 gpu 2 x 4096: 1*=31 2=8.099, completed | ResNet50 gpu 4 x 8192: 1*=47 2=5.376, completed",
    "sa-miri-2025-pg-resnet152": "ResNet152 gpu 1 x 1024: 1*=63 2=32.73, completed | ResNet152 gpu 2 x 2048: 1*=76 2=17.95, completed | ResNet152 gpu 4 x 4096: 1*=126 2=10.05, completed",
    "thesis-figure11": "- -:, 0.6315 to 0.6325 s a batch, unfinished",
    "thesis-figure12-pytorch": "- -:, 18.5315 to 18.5325 s a batch, unfinished",
    "thesis-figure12-horovod": "- -:, 9.6955 to 9.6965 s a batch, unfinished",
    "thesis-figure13-pytorch": "- -:, 21.9245 to 21.9255 s a batch, unfinished",
    "thesis-figure13-horovod": "- -:, 9.9495 to 9.9505 s a batch, unfinished",
}  # fmt: skip
"""Every log that the lab's documents print."""
CASES |= {name: ((samples.LOGS / f"{name}.out").read_text("utf-8"), runs) for name, runs in DOCUMENTS.items()}


NOTES = {
    "two trainings without marks": "several trainings", "a batch of all GPUs or of each": "of all GPUs or of each", "a loader's bar before the training's": "several bars", "two global batches": "2,048 and 1,024",
    "PyTorch's epochs without the command": "how many epochs were planned",
    "blocks of the same label are counted on": "same numbers", "the input ran out": "ran out of data",
    "Keras 3 goes on without a step after its input ran out": "no step",
    "an evaluate, or a training of one epoch": "evaluate",
    "times of day": "hours and minutes of the day", "a stop record against its clock": "line 1 gives 40.0 s, line 2 gives 31.2 s", "an evaluate's bar before an only epoch's line": "line 2 or line 3",
    "validation within an epoch": "Validation is inside each epoch's time.",
    "epochs not printed one by one": "one by one",
    "lines of parts of an epoch": "Line 2: global_step rises", "bars of numbered parts of an epoch": "shard", "bars of parts without a name, alike": "several bars",
    "a running total": "running total", "running totals of two, and of three resumed": "running total",
    "a running total after a slow first epoch": "running total", "a clock that was set amid an epoch": "line 7 gives 14.0 s. Neither",
}  # fmt: skip
KINDS = {
    "records of two trainings": "mixed-trainings", "two trainings without marks": "mixed-trainings", "two of PyTorch without marks": "mixed-trainings",
    "two trainings of other lengths without marks": "mixed-trainings", "two of hand-written lines without marks": "mixed-trainings",
    "two of other speeds without marks": "mixed-trainings", "a third epoch that is by its time the first training's": "mixed-trainings",
    "a container without GPU access, whatever the banner says": "no-gpu", "TensorFlow's own warning makes a CPU run": "no-gpu",
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_log_is_read_as(name):
    text, runs = CASES[name]
    report = parse_log(text.encode())
    assert KINDS.get(name, "") in [*(found.kind for found in report.diagnosis), ""]
    assert " | ".join(map(shown, report.runs)) == runs
    assert parse_log(text[i : i + 7].encode() for i in range(0, len(text), 7)) == report
    assert NOTES.get(name, "") in " ".join(note for run in report.runs for note in run.notes)
