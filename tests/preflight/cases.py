"""Files that break a rule: one good job, changed in one place each (`near` has changes that break none)."""

# ruff: noqa: E501 - one case to a line

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import labtui.preflight
from labtui.domain.model import Interval, SubmissionDraft
from labtui.domain.profile import Launch, Profile, Queue
from labtui.lab.plan import PlanOverrides, task_drafts
from labtui.preflight.findings import Finding, ScriptContext
from labtui.session.labs import load_edition

ACCOUNT = "nct_345"
SIF = f"/gpfs/projects/{ACCOUNT}/MN5-NGC-TensorFlow-23.03.sif"
ACC: dict[str, Any] = {"max_minutes": 120, "partition": "acc"}
PROFILE = Profile(
    id="mn5", title="MareNostrum 5", status="current", login_hosts=("alogin1.bsc.es",),
    account_pattern="nct_[0-9]+", default_account=ACCOUNT, cpu_queue="gp_debug", gpu_queue="acc_debug",
    queues=(
        Queue(name="acc_debug", devices="gpu", max_nodes=8, max_submit_per_user=1, **ACC),
        Queue(name="acc_interactive", devices="gpu", max_cpus=40, **ACC),
        Queue(name="gp_debug", devices="cpu", max_minutes=120, partition="gpp"),
    ),
    cpus_per_gpu=20, gpus_per_node=4, cpus_per_node=80,
    data_dir="/gpfs/projects/{account}/cifar-utils/cifar-10-batches-py",
    container="/gpfs/projects/{account}/MN5-NGC-TensorFlow-23.03.sif",
    launch=Launch(modules=("singularity",)), forbidden={"--mem": "memory is set by the site, per core"},
)  # fmt: skip

JOB = Path(__file__).with_name("job.slurm").read_text(encoding="utf-8").format(ACCOUNT=ACCOUNT, SIF=SIF)

SCRIPT = Path(__file__).with_name("ResNet50.txt").read_text(encoding="utf-8")

FILES = {"job.slurm": JOB, "ResNet50.py": SCRIPT, "cifar-utils/cifar.py": "def load_cifar(batch_size): ...\n"}


def preflight(
    files: dict[str, bytes], planned: SubmissionDraft | None, profile: Profile, account: str = "", **more: Any
) -> tuple[Finding, ...]:
    """The findings of preflight in these files."""
    return labtui.preflight.preflight(ScriptContext(files, planned, profile, account, **more))


@cache
def draft() -> SubmissionDraft:
    """A draft for four GPUs on the profile above."""
    wanted = PlanOverrides(account=ACCOUNT, gpus=(4,))
    return task_drafts(load_edition("hpc4ai-ch10"), "10.5", PROFILE, wanted)[0]


@dataclass(frozen=True)
class Case:
    """Files in which a rule must (or must not) find something. `change` maps a file to (old, new) replacements."""

    rule: str
    name: str
    change: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    fixable: bool = True
    severity: str = ""
    remote: dict[str, bool] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    given: dict[str, str] = field(default_factory=dict)
    queues: tuple[str, ...] = ()
    forecast: Interval | None = None
    bash_errors: dict[str, str] = field(default_factory=dict)
    images: dict[str, int] = field(default_factory=dict)
    brought: frozenset[str] = frozenset()
    wanted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    refused: bool = False
    """Whether real Slurm refuses it, too."""

    def files(self) -> dict[str, bytes]:
        """The good files with the changes made."""
        made = {name: text for name, text in FILES.items() if name not in self.remove}
        for name, swaps in self.change.items():
            text = made.get(name, "")
            for old, new in swaps:
                assert old in text, (self.rule, self.name, old)
                text = text.replace(old, new) if old else new
            made[name] = text
        return {name: text.encode("utf-8", "surrogatepass") for name, text in made.items()}


def job(rule: str, name: str, *swaps: tuple[str, str], **more: object) -> Case:
    """A case that changes the job script."""
    return Case(rule, name, {"job.slurm": swaps}, **more)  # type: ignore[arg-type]


def py(rule: str, name: str, *swaps: tuple[str, str], **more: object) -> Case:
    """A case that changes the training script."""
    return Case(rule, name, {"ResNet50.py": swaps}, **more)  # type: ignore[arg-type]


TIME = "#SBATCH --time 01:15:00"
RUN1 = "python ResNet50.py --epochs 5 --batch_size 2048 --n_gpus 1"
LAST = "    python ResNet50.py --epochs 5 --batch_size 8192 --n_gpus 4"
TASKS = (("--ntasks-per-node 1", "--ntasks-per-node 4"), ("--cpus-per-task 80 ", "--cpus-per-task 20 "))

BROKEN = [
    job("lone-dashes", "command", (RUN1, "python ResNet50.py -- epochs 5 -- batch_size 2048 -- n_gpus 1")),
    job("lone-dashes", "directive", ("#SBATCH --nodes 1", "#SBATCH -- nodes=1"), refused=True),
    *(job("pasted-character", option, ("#SBATCH --nodes 1", f"#SBATCH {option}"), refused=True) for option in ("—nodes=1", "— nodes=1", "–N 1", "–-nodes 1", "-–nodes=1")),
    job("pasted-character", "en dash in a command", ("--epochs 5 --batch_size 2048", "–epochs 5 —-batch_size 2048")),
    job("pasted-character", "directive", ("--job-name=ResNet50", "--job-name=”ResNet50”")),
    job("pasted-character", "command", ('echo "Job Name: $SLURM_JOB_NAME"', "echo “Job Name: $SLURM_JOB_NAME”"), severity="warning"),
    *(py("pasted-character", "python", change) for change in (("loss='sparse_categorical_crossentropy'", "loss=’sparse_categorical_crossentropy’"), ("train_ds, test_ds", "train_ds,\u00a0test_ds"))),
    job("pasted-character", "no-break blank", ("--epochs 5 --batch_size 2048", "--epochs\u00a05 --batch_size 2048")),
    job("pasted-character", "zero width", ("#SBATCH --qos acc_debug", "#SBATCH --qos acc_de\u200bbug"), refused=True),
    job("crlf", "whole file", ("\n", "\r\n"), refused=True),
    Case("crlf", "helper the job calls", {"job.slurm": (("nvidia-smi", "bash tools/setup.sh"),), "tools/setup.sh": (("", "#!/bin/bash\r\nulimit -s unlimited\r\n"),), }),
    job("broken-command", "options on a new line", ("ResNet50.py --epochs 5 --batch_size 2048", "ResNet50.py\n--epochs 5 --batch_size 2048")),
    job("broken-command", "lone dashes at the end", ("ResNet50.py --epochs 5 --batch_size 2048", "ResNet50.py --\nepochs 5 --batch_size 2048")),
    job("broken-command", "torn path", ("TensorFlow-23.03.sif", "TensorFlow-\n23.03.sif")),
    *(job("placeholder", name, (f"--account {ACCOUNT}", f"--account {name}"), refused=True) for name in ("<account>", "nct_XXX")),
    *(job("placeholder", f"container path {end}", (SIF, f"/gpfs/<path>/MN5-NGC-TensorFlow-23.03.{end}")) for end in ("sif", "simg")),
    *(job("placeholder", text, (TIME, f"{TIME}{text}"), refused=True) for text in ("\n#SBATCH --reservation=<ReservationName>", " --reservation=<ReservationName>")),
    py("placeholder", "python path", ("from cifar", "import sys\nsys.path.append('/gpfs/<path>/cifar-utils')\nfrom cifar")),
    py("placeholder", "python path of another kind", ("from cifar", "import sys\nsys.path.append('/gpfs/<path>/mine')\nfrom cifar"), fixable=False),
    py("placeholder", "python account", ("from cifar", "import sys\nsys.path.append('/gpfs/scratch/nct_XXX/cifar-utils')\nfrom cifar")),
    job("shebang", "no job script", ("#!/bin/bash", "Epoch 1/5"), ("#SBATCH", "step"), fixable=False, refused=True),
    job("shebang", "stray text", ("#!/bin/bash", "#!/bin/bash Slurm script")),
    *(job("not-a-directive", word, ("#SBATCH --nodes 1", f"{word} --nodes 1")) for word in ("# SBATCH", "#sbatch")),
    job("late-directive", "after a command", (f"{TIME}\n", ""), ("nvidia-smi", f"nvidia-smi\n{TIME}")),
    job("late-directive", "account after a command", (f"#SBATCH --account {ACCOUNT}\n", ""), ("nvidia-smi", f"nvidia-smi\n#SBATCH --account {ACCOUNT}"), refused=True),
    job("account", "other year", (f"--account {ACCOUNT}", "--account nct_325"), refused=True),
    job("account", "none", (f"#SBATCH --account {ACCOUNT}\n", ""), refused=True),
    job("queue", "misspelt", ("--qos acc_debug", "--qos acc_debgu"), severity="warning", refused=True),
    Case("queue", "of the command line", given={"qos": "acc_debgu"}, fixable=False, severity="warning"),
    job("queue", "of another site", ("--qos acc_debug", "--qos mine"), fixable=False, severity="warning", refused=True),
    job("time", "seconds", ("--time 01:15:00", "--time 00:15")),
    job("time", "minutes", ("--time 01:15:00", "--time=01:15"), severity="warning"),
    job("time", "none", (f"{TIME}\n", "")),
    *(job("time", new, ("--time 01:15:00", new), severity="warning", refused=True) for new in ("--time 03:00:00", "-t 1-00")),
    Case("time", "above the queue, on the command line", given={"time": "600"}, fixable=False, severity="warning"),
    job("no-gpu-asked", "no gres", ("#SBATCH --gres=gpu:4\n", "")),
    job("no-gpu-asked", "in a queue without GPUs", ("#SBATCH --gres=gpu:4\n", ""), ("acc_debug", "gp_debug"), fixable=False, severity="warning"),
    job("few-cpus", "book sample", ("--cpus-per-task 80", "--cpus-per-task=20"), refused=True),
    *(job("log-name", name, ("--output=%x.%j.out", f"--output={name}")) for name in ("%xo_%J.out", "train.out", "%x.%q.out")),
    job("log-name", "nowhere", ("--error=%x.%j.err", "--error=/dev/null")),
    job("output-folder", "results", ("--output=%x.%j.out", "--output=./results/R-%x.%j.out"), severity="warning"),
    job("output-folder", "of each job", ("--output=%x.%j.out", "--output=out/%j/x.out")),
    job("output-folder", "absolute", ("--output=%x.%j.out", "--output=/gpfs/logs/%x.%j.out"), remote={"/gpfs/logs": False}),
    *(job("no-nv", word, (f"exec --nv $SINGULARITY_CONTAINER {word}", f"exec $SINGULARITY_CONTAINER {word}")) for word in ("python", "\\")),
    job("gpu-count", "more than a node has", ("--gres=gpu:4", "--gres=gpu:8"), refused=True),
    job("gpu-count", "too many", ("--gres=gpu:4", "--gres=gpu:2")),
    job("gpu-count", "idle", ("--n_gpus 4", "--n_gpus 2"), severity="warning"),
    job("gpu-count", "sequential", ("ResNet50.py --epochs 5 --batch_size 2048 --n_gpus 1", "ResNet50_seq.py --epochs 5"), ("ResNet50.py --epochs 5 --batch_size 4096 --n_gpus 2", "ResNet50_seq.py --epochs 5"), ("ResNet50.py --epochs 5 --batch_size 8192 --n_gpus 4", "ResNet50_seq.py --epochs 5"), severity="warning"),
    *(job("one-epoch", new, (f"--epochs 5 {old}", new)) for old, new in (("--batch_size 2048", "--epochs 1 --batch_size 2048"), ("--batch_size 8192", "--epochs=1 --batch_size 8192"))),
    *(job("var-blank", text, ("SINGULARITY_CONTAINER=/", text)) for text in ("SINGULARITY_CONTAINER= /", "export SINGULARITY_CONTAINER =/")),
    job("rank-in-quotes", "srun", ("--nodes 1", "--nodes 2"), (LAST, LAST + '\nsrun bash -c "python ResNet50.py --rank $SLURM_PROCID --epochs 5"')),
    job("rank-in-quotes", "in a variable, c10d", ("--nodes 1", "--nodes 2"), (LAST, LAST+ '\nRUN="torchrun --nnodes 2 --rdzv_backend=c10d \\\n  --node_rank=$SLURM_PROCID ResNet50.py"'+ '\nsrun bash -c "$RUN"'), severity="warning"),
    *(job("download", text, ("module purge", f"{text}\nmodule purge"), fixable=False, severity=how) for text, how in (("pip install numpy", "warning"), ("git clone https://example.org/x.git", ""))),
    job("script-missing", "other name", ("ResNet50.py --epochs 5 --batch_size 2048", "ResNet152.py --epochs 5 --batch_size 2048"), fixable=False),
    job("script-missing", "where sbatch was called", ("module purge", 'cd "$SLURM_SUBMIT_DIR"'), (RUN1, "python3 own/missing.py"), fixable=False),
    job("script-missing", "in a folder that is not sent", ("module purge", "cd src && ls"), fixable=False, severity="warning"),
    job("script-missing", "its configuration", (RUN1, "python3 cifar-utils/cifar.py --config conf/a.json"), fixable=False),
    job("script-missing", "where it lies here", (LAST, "    true\npython ../scripts/ResNet50.py --epochs 5")),
    job("script-missing", "started by torchrun", (LAST, "    torchrun --nproc_per_node 4 own/missing.py --epochs 5"), fixable=False),
    py("module-missing", "another script", ("from cifar", "import ResNet101\nfrom cifar"), fixable=False),
    Case("module-missing", "cifar", remove=("cifar-utils/cifar.py",), fixable=False),
    job("other-path", "container", (SIF, SIF.replace(ACCOUNT, "nct_325"))),
    job("other-path", "chdir", ("--chdir .", "--chdir /gpfs/scratch/nct_325/lab")),
    py("other-path", "python", ("load_cifar(args.batch_size)", "load_cifar(8, 'x/nct_325/cifar')")),
    py("path-missing", "needed", ("from cifar", "import sys\nsys.path.append('/gpfs/scratch/nct_345/utils')\nfrom cifar"), remove=("cifar-utils/cifar.py",), remote={"/gpfs/scratch/nct_345/utils": False}, fixable=False,),
    py("path-missing", "under the other file system", ("from cifar", "import sys\nsys.path.append('/gpfs/scratch/nct_345/utils')\nfrom cifar"), remove=("cifar-utils/cifar.py",), remote={"/gpfs/scratch/nct_345/utils": False, "/gpfs/projects/nct_345/utils": True},),
    job("one-node-used", "two nodes", ("--nodes 1", "--nodes 2")),
    job("one-node-used", "in a line with another 2", ("--nodes 1", "--nodes 2 --priority 2")),
    *(job("cut-node-list", text, ("--nodes 1", "--nodes 2"), (LAST, f"    {text}"), fixable=False) for text in ("true\nexport MASTER_ADDR=${SLURM_JOB_NODELIST%%,*}\nsrun python ResNet50.py", 'true\nHEAD=$(echo "$SLURM_NODELIST" | cut -d, -f1)\nsrun python ResNet50.py', "srun torchrun --nnodes=2 --rdzv_endpoint=${SLURM_JOB_NODELIST:0:9}:6000 ResNet50.py")),
    job("srun-cpus", "python", (LAST, "    srun --label python ResNet50.py --epochs 5 --n_gpus 4")),
    job("srun-cpus", "container", ("\nsingularity exec --nv $SING", "\nsrun -n 1 singularity exec --nv $SING")),
    Case("short-limit", "within the forecast", forecast=Interval(4000, 2400, 6000)),
    Case("short-limit", "beyond the queue's longest", {"job.slurm": ((TIME, "#SBATCH --time 02:00:00"),)}, fixable=False, forecast=Interval(8000, 8000, 9000)),
    Case("path-missing", "asked", remote={SIF: False}, fixable=False),
    *(job("path-missing", f"missing: {text}", ("module purge", f"{text}\nmodule purge"), remote={name: False}, fixable=False, severity="warning") for text, name in (
        ("python my.py --dataset-path=/gpfs/images", "/gpfs/images"), ("/opt/conda/bin/python my.py", "/opt/conda/bin/python"), ("python3 /opt/a/x.py", "/opt/a/x.py"), ("python3 -u ~/a/x.py", "a/x.py"), ("python3 $HOME/x.py", "x.py"))),
    job("path-missing", "asked", ("module purge", "export CIFAR10_DATA=/gpfs/cifar/data\nmodule purge"), remote={"/gpfs/cifar/data": False}, fixable=False),
    *(job("script-option", option, (RUN1, RUN1.replace("--epochs", option))) for option in ("--foo bar --epochs", "--epoch-count")),
    job("script-option", "with a value in quotes", (RUN1, f'{RUN1} --foo "a b"'), fixable=False),
    py("script-option", "declared with a blank", ("'--epochs'", "' -- epochs'")),
    Case("batch-size", "of four GPUs", fixable=False, images={"": 4096}),
    Case("unchanged-copy", "no change", {"ResNet152.py": (("", SCRIPT),)}, fixable=False),
    py("unchanged-copy", "misspelt", ("ResNet50V2", "ResNet15V2"), wanted={"ResNet50.py": ("ResNet152V2",)}, severity="warning", fixable=False),
    py("download", "load_data", ("load_cifar(args.batch_size)", "tf.keras.datasets.cifar10.load_data()"), fixable=False, severity="warning"),
    py("download", "weights", ("weights=None", 'weights="imagenet"'), fixable=False, severity="warning"),
    py("large-file", "data", ("from cifar", "load('data/x.npz')\nfrom cifar"), left_out={"data/x.npz": 24_000_000}, fixable=False),
    py("python-syntax", "bracket", ("classes=10)", "classes=10"), fixable=False),
    job("bash-syntax", "a loop without its end", ("nvidia-smi", "for n in 1 2; do"), bash_errors={"job.slurm": "bash: line 24: syntax error: unexpected end of file"}, fixable=False),
    job("few-cpus", "more than a node has", ("--cpus-per-task 80", "--cpus-per-task 128"), refused=True, fixable=False),
    job("few-cpus", "fifteen for one", ("--gres=gpu:4", "--gres=gpu:1"), ("--cpus-per-task 80", "--cpus-per-task 15"), refused=True),
]  # fmt: skip
