"""Near misses: the good job with a change in which no rule may find anything."""

# ruff: noqa: E501 - one case to a line

from labtui.domain.model import Interval
from tests.preflight.cases import ACCOUNT, LAST, RUN1, SCRIPT, SIF, Case, job, py

ALONE = [
    "set -- a b\ngrep -- epochs log.txt\nnvidia-smi  # python x.py -- epochs 5", "IFS= read -r x\nLC_ALL= sort y\nX=1 nvidia-smi\n[ $X = /a ] && :",
    'echo "epochs – loss" # a – b –c\necho 1–4\necho "“quoted”"\necho it’s  # “so”\nnvidia-smi  # a\u00a0b',
    "nvidia-smi \\\n--list-gpus\necho a-\nnvidia-smi\nsort <in >out\ncat <<EOF\n<account>\nEOF\ncat > x <<EOF\n#SBATCH --nodes 2\nEOF",
    '# SBATCH lines stand above\n# sbatch --test-only job.slurm\necho "running $0"\necho pip install x  # git clone y\necho wget x\ngrep "<path>" x\ncd ${SLURM_SUBMIT_DIR:-$(dirname $0)}', "env -C /gpfs/x python own.py\npython /gpfs/apps/tool.py\nls /gpfs/x/mynct_3255/y\ncd logs; cd ..",
]  # fmt: skip
"""Commands in which no rule may find anything."""
NEAR = [
    Case("unchanged-copy", "one word", {"ResNet152.py": (("", SCRIPT.replace("ResNet50", "ResNet152")),)}),
    Case("unchanged-copy", "the original", {"ResNet152.py": (("", SCRIPT),)}, brought=frozenset({"ResNet50.py"})),
    Case("*", "the good job"),
    *(job("*", text, ("nvidia-smi", text)) for text in ALONE),
    *(job("script-option", name, (RUN1, text)) for name, text in (("the beginning of one", RUN1.replace("--batch_size", "--batch")), ("of another program", f"srun --foo bar {RUN1} | tee --append log"))),
    *(Case("script-option", name, {"job.slurm": ((RUN1, f"{RUN1} --foo bar"),), "ResNet50.py": (change,)}) for name, change in (("others are known", ("args = parser.parse_args()", "args, _ = parser.parse_known_args()")), ("added elsewhere", ("args = parser", "add_others(parser)\nargs = parser")), ("the rest of the words", ("args = parser", "parser.add_argument('x', nargs=argparse.REMAINDER)\nargs = parser")))),
    Case("batch-size", "as large as the data set", images={"": 8192}),
    *(py(rule, name, change) for rule, name, change in (("lone-dashes", "help text", ("type=int, default=5", "type=int, default=5, help=' -- how many'")), ("pasted-character", "byte order mark", ("import argparse", "\ufeffimport argparse")))),
    *(py(rule, name, change) for rule, name, change in (("crlf", "python", ("\n", "\r\n")), ("download", "own loader", ("load_cifar(", "cifar.load_data(")), ("other-path", "harmless sys.path", ("from cifar", "import sys\nsys.path.append('/gpfs/scratch/nct_325/utils')\nfrom cifar")))),
    py("pasted-character", "in a string", ("# global", "# “global”"), ("'accuracy'", "'accu\u00a0racy'")),
    Case("crlf", "helper nobody calls", {"job.slurm": (("nvidia-smi", "bash prerun.sh"),), "run.sh": (("", "#!/bin/bash\r\n"),)}),
    job("not-a-directive", "switched off", ("#SBATCH --nodes 1", "##SBATCH --nodes 1")),
    job("account", "short option", (f"--account {ACCOUNT}", f"-A {ACCOUNT}")),
    job("script-missing", "elsewhere", ("module purge", "cd /gpfs/elsewhere"), (RUN1, "python3 own/missing.py")),
    *(job("gpu-count", branch, ("module purge", f"{branch}\nmodule purge"), (LAST, "    python ResNet50.py --n_gpus ${N:-16}")) for branch in ("N=4\n[ -d x ] && N=8", "case $X in\n a | b) N=4 ;;\n c)\n N=8 ;;\nesac", "N=4; true || N=8")),
    job("gpu-count", "in a while loop", (LAST, "    true\nn=1\nwhile [ $n -le 4 ]; do\n  python ResNet50.py --n_gpus $n\n  n=$((2 * n))\ndone")),
    job("no-nv", "in a branch", ("exec --nv $SINGULARITY_CONTAINER", "exec $NV $SINGULARITY_CONTAINER"), ("module purge", "if [ -d x ]; then NV=--nv; else NV=; fi\nmodule purge")),
    job("gpu-count", "of all nodes", ("--gres=gpu:4", "--gpus 8"), ("--nodes 1", "--nodes 2"), (LAST, "    srun -c 80 python ResNet50.py --n_gpus 4")),
    *(job("time", value, ("--time 01:15:00", f"--time {value}")) for value in ("75", "75:00", "0-01:30")),
    job("few-cpus", "tasks", ("--cpus-per-task 80", "--cpus-per-task 20"), ("--ntasks-per-node 1", "--ntasks-per-node 4")),
    job("log-name", "one file for both", ("#SBATCH --error=%x.%j.err\n", "")),
    *(job("log-name", name, ("--output=%x.%j.out", f"--output {name}")) for name in ("logs-%A_%4a-%u-%N.out", "/gpfs/scratch/nct_345/logs/%x.%j.out", "./%x.%j.out")),
    job("output-folder", "absolute, nobody asked", ("--output=%x.%j.out", "--output=/gpfs/scratch/nct_345/logs/%x.%j.out")),
    *(job("one-node-used", text, ("--nodes 1", "--nodes 2"), ("nvidia-smi", text)) for text in ("clush -w $SLURM_JOB_NODELIST hostname", "srun hostname")),
    *(job("srun-cpus", step, (LAST, f"    {step} python ResNet50.py --epochs 5 --n_gpus 4")) for step in ("srun -c 80", "export SRUN_CPUS_PER_TASK=80; srun", 'srun "$STEP"')),
    *(job("cut-node-list", text, ("--nodes 1", "--nodes 2"), (LAST, f"    true\n{text}")) for text in ('HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\nsrun python ResNet50.py', "HEAD=$(echo $SLURM_JOB_NODELIST | sed 's/\\[\\(..\\).*/\\1/')\nsrun python ResNet50.py", 'echo "$SLURM_JOB_NODELIST" | tee nodes')),
    job("cut-node-list", "of one node", (LAST, "    true\nexport MASTER_ADDR=${SLURM_JOB_NODELIST%%,*}")),
    Case("short-limit", "long enough", forecast=Interval(3600, 3000, 4500)),
    py("path-missing", "nothing imported from it", ("from cifar", "import sys\nsys.path.append('/gpfs/scratch/nct_345/utils')\nfrom cifar"), remote={"/gpfs/scratch/nct_345/utils": False}),
    Case("queue", "as lab.toml says", given={"qos": "acc_course"}, queues=("acc_course",)),
    job("path-missing", "below home", ("module purge", 'export CIFAR10_DATA="$HOME"/cifar-utils/cifar-10-batches-py\nmodule purge'), remote={"/cifar-utils/cifar-10-batches-py": False}),
    *(job(rule, "on the command line", (f"--account {ACCOUNT}", f"--account {other}"), given={"account": ACCOUNT}) for rule, other in (("account", "nct_325"), ("placeholder", "<account>"))),
    *(job(rule, "only on the command line", (f"#SBATCH --{rule} {value}\n", ""), given={rule: value}) for rule, value in (("account", "nct_345"), ("time", "01:15:00"))),
    job("no-nv", "in a variable", ("SINGULARITY_CONTAINER=", 'SINGULARITY_ARGS="--nv --bind /gpfs"\nSINGULARITY_CONTAINER='), ("exec --nv $SINGULARITY_CONTAINER", "exec $SINGULARITY_ARGS $SINGULARITY_CONTAINER")),
    job("no-nv", "in a variable of the site", ("exec --nv $SINGULARITY_CONTAINER", "exec $SITE_FLAGS $SINGULARITY_CONTAINER")),
    job("rank-in-quotes", "one task", (LAST, LAST + '\nsrun bash -c "echo $SLURM_PROCID"\nexit 0')),
    job("script-missing", "another directory", ("--chdir .", "--chdir /gpfs/scratch/nct_345/lab"), ("ResNet50.py --epochs 5 --batch_size 2048", "Other.py --epochs 5 --batch_size 2048")),
    job("output-folder", "made before", ("--output=%x.%j.out", "--output=results/%x.%j.out"), remote={"results": True}),
    job("no-nv", "CPU job", ("--gres=gpu:4", "--gres=nvme:1"), ("exec --nv", "exec")),
    job("one-epoch", "ten", ("--epochs 5 --batch_size 2048", "--epochs 10 --batch_size 2048")),
    job("rank-in-quotes", "escaped", (LAST, LAST+ "\nsrun bash -c \"echo \\$SLURM_PROCID\"\nsrun bash -c 'echo $SLURM_PROCID'\necho $SLURM_PROCID\nexit 0")),
    py("module-missing", "own path", ("from cifar", "import sys\nsys.path.append('/gpfs/x')\nfrom cifar"), remove=("cifar-utils/cifar.py",),),
    Case("path-missing", "there", remote={SIF: True, "/gpfs/cifar/data": True}),
    job("script-missing", "written by the job itself", (LAST, "    true\ncat > probe.py <<'EOF'\nprint(1)\nEOF\npython probe.py -c 4 --cfg probe.py\necho 1 > b.yml\npython probe.py --config=./b.yml -c /gpfs/c.toml")),
    job("bash-syntax", "bash said nothing", bash_errors={"job.slurm": ""}),
]  # fmt: skip
_GPU, _ARGS, _FIT = "--gres=gpu:4", "args = parser", "model.fit(train_ds, epochs=args.epochs, verbose=2)"
_LEFT = [
    "mkdir -p /gpfs/cifar/new\ncd /gpfs/cifar/new\necho a – b", "export PYTHONPATH=/gpfs/x\npip install numpy", 'source "$(dirname "${BASH_SOURCE[0]}")/env.sh"',
    "srun --cpus-per-task=20 -- python ResNet50.py\nlog 'ResNet50.py -- finished'\npython ResNet50.py -- data.txt", "python ResNet50.py --help",
    "echo 'ResNet50.py -- finished'\necho 'python bench.py'\necho 'singularity: the run starts'", "export SINGULARITY_NV=1\nsingularity exec a.sif python ResNet50.py",
    'cmd=(python ResNet50.py  # it\'s all\n  --epochs 5)\n"${cmd[@]}"\nCMD="python ResNet50.py\n  --epochs 5"\n$CMD', "singularity exec a.sif ls",
    "(cd /gpfs/x && python train.py)", "pushd /gpfs/x\npython train.py", "singularity exec --nv --pwd /w a.sif python train.py", "srun -c 80 -D /gpfs/x python train.py",
    "srun -c 80 --container-image=a python train.py", "cp /gpfs/x/*.py .\npython train.py", "tar xf code.tgz\npython train.py", "[ -f train.py ] && python train.py",
    "pip install --no-index -r a.txt\npip install -e .\ngit clone /gpfs/x.git\nwget $URL\ncurl http://localhost:80", "if [ ! -d data ]; then\n  wget https://x.org/a.tgz\nfi",
    'case $1 in\n  -h) echo "run ResNet50.py";;\n  --epochs) E=$2;;\nesac', "export https_proxy=http://proxy:80\npip install numpy", 'cd "$(dirname "$0")"',
    'echo "Durée\u00a0: 5"\necho "Start\nResNet – one –GPU\n#SBATCH --gres=gpu:2\n# SBATCH --nodes=2\nx <account>"\ncat <data>out',
    'if [ $# -gt 9 ]; then echo "usage: $0 <path>"; fi', 'X= ./prepare.sh\nX= "$RUN"  fast\nX= /bin/run a\nif [[ -n $A &&\n  x = "y" ]]; then true; fi',
]  # fmt: skip
VALID = [
    *(job("", text, ("nvidia-smi", text)) for text in _LEFT),
    *(job("", words, ("#!/bin/bash", words)) for words in ("#!/bin/bash -l", "#!/bin/bash --login", "#!/usr/bin/env bash")),
    *(job("", words, (_GPU, words)) for words in ("--gres=gpu:1g.5gb:4", "--gres=gpu:a100-80:4,nvme:9", "--tres-per-task=gres/gpu:4", "--gpus-per-node=a100:4")),
    job("", "comments of directives", ("# at least", "# was <account> – par “GPU”, at least")), py("", "optional", ("from cifar", "try:\n    import run_log\nexcept ImportError:\n    pass\nfrom cifar")),
    job("", "the whole node", (_GPU, "--exclusive")), job("", "GPUs of all nodes", (_GPU, "--gres=gpu:2"), ("--nodes 1", "--nodes 2"), ("\nsing", "\nsrun sing")),
    job("", "CPUs for each GPU", ("--cpus-per-task 80", "--cpus-per-gpu 20")),
    job("", "a default", ("--nodes 1", "--nodes 2"), ("nvidia-smi", 'srun -c 80 date\necho "${SLURM_JOB_NODELIST:-none}"')),
    Case("", "--no-", {"job.slurm": ((RUN1, f"{RUN1} --no-amp"),), "ResNet50.py": ((_ARGS, f"parser.add_argument('--amp', action=argparse.BooleanOptionalAction)\n{_ARGS}"),)}),
    Case("", "a library's", {"job.slurm": ((RUN1, f"{RUN1} --zero"),), "ResNet50.py": (("parser", "ap"), ("args = ap", "deepspeed.add_config_arguments(ap)\nargs = ap"))}),
    *(py("", call, (_FIT, call)) for call in ("StandardScaler().fit([[1.0]])", "model.fit(x, y, 32, 5, 2)", "model.fit(\n    x,\n    epochs=5,  # as asked\n)")),
]  # fmt: skip
"""Jobs that run as they are: no rule may stop them (a warning may ask)."""
