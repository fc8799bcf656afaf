"""The commands labtui sends, written out once more and by hand, and the scripts the contract submits."""

from __future__ import annotations

NONCE = "5ca1ab1e"
PINNED = "export LC_ALL=C TZ=UTC SLURM_TIME_FORMAT=%s; "
"""The environment that makes answers comparable: no locale, UTC, times as UNIX seconds."""

QUEUE_FIELDS = ("%A", "%T", "%r", "%S", "%V", "%e", "%l", "%M", "%P", "%q", "%N", "%Z", "%k", "%j")
ROW, FIELD = f"\x1e{NONCE}", f"\x1f{NONCE}"
QUEUE = f"squeue --me --noheader --states=all --sort=-i --format='{ROW}{FIELD.join(QUEUE_FIELDS)}'"

ACCOUNTING_FIELDS = (
    "JobIDRaw", "State", "ExitCode", "Submit", "Start", "End", "ElapsedRaw", "TimelimitRaw", "NodeList",
    "Partition", "QOS", "Comment", "JobName",
)  # fmt: skip
ACCOUNTING = (
    "sacct --allocations --noheader --parsable --starttime=now-60days"
    f" --delimiter='{FIELD}' --format={','.join(ACCOUNTING_FIELDS)}"
)

SCRIPTS = {
    "ok.sh": "#!/bin/bash\n#SBATCH --job-name ok\n#SBATCH --chdir .\n#SBATCH --output %x.%j.out\n"
    "#SBATCH --error %x.%j.err\n#SBATCH --time 00:10:00\necho hello\necho trouble >&2\n",
    "fail.sh": "#!/bin/bash\n#SBATCH --job-name fail\n#SBATCH --time 00:10:00\necho before; exit 3\n",
    "long.sh": "#!/bin/bash\n#SBATCH --job-name long\n#SBATCH --output %x_%J.out\n#SBATCH --time 00:10:00\n"
    "echo started\nsleep 300\n",
    "show.sh": "#!/bin/bash\n#SBATCH --job-name show\n#SBATCH --output %x.%j.out\n#SBATCH --time 00:10:00\n"
    "env | sort\ntype -t module || echo no module\n",
    "crlf.sh": "#!/bin/bash\r\necho hello\r\n",
    "noshebang.sh": "echo hello\n",
    "empty.sh": "",
    "directive.sh": "#!/bin/bash\n#SBATCH --nonsense=1\necho hello\n",
}

REFUSALS: dict[str, str] = {
    "wrong-account": "-A nct_777 -q {cpu_qos} ok.sh",
    "foreign-account": "-A nct_999 -q {cpu_qos} ok.sh",
    "no-account": "-q {cpu_qos} ok.sh",
    "wrong-qos": "-A {account} -q acc_nonsense ok.sh",
    "foreign-qos": "-A {account} -q acc_bsccase ok.sh",
    "no-qos": "-A {account} ok.sh",
    "time-over-qos": "-A {account} -q {debug_qos} -c 20 --gres=gpu:1 -t 03:00:00 ok.sh",
    "time-over-partition": "-A {account} -q {cpu_qos} -t 4-00:00:00 ok.sh",
    "bad-time": "-A {account} -q {cpu_qos} -t soon ok.sh",
    "too-few-cpus": "-A {account} -q {gpu_qos} -c 20 --gres=gpu:4 ok.sh",
    "too-many-cpus": "-A {account} -q {cpu_qos} -c 500 ok.sh",
    "too-many-gpus": "-A {account} -q {gpu_qos} -c 160 --gres=gpu:8 ok.sh",
    "too-many-nodes": "-A {account} -q {cpu_qos} -N 50 ok.sh",
    "bad-gres": "-A {account} -q {gpu_qos} -c 20 --gres=gpux:1 ok.sh",
    "bad-gres-type": "-A {account} -q {gpu_qos} -c 20 --gres=gpu:a100:1 ok.sh",
    "blank-gres": "-A {account} -q {gpu_qos} -c 20 --gres gpu: 1 ok.sh",
    "memory": "-A {account} -q {cpu_qos} --mem=4G ok.sh",
    "bad-partition": "-A {account} -q {cpu_qos} -p nonsense ok.sh",
    "bad-reservation": "-A {account} -q {cpu_qos} --reservation=nonsense ok.sh",
    "bad-option": "-A {account} -q {cpu_qos} --nonsense ok.sh",
    "bad-directive": "-A {account} -q {cpu_qos} directive.sh",
    "crlf": "-A {account} -q {cpu_qos} crlf.sh",
    "no-shebang": "-A {account} -q {cpu_qos} noshebang.sh",
    "empty": "-A {account} -q {cpu_qos} empty.sh",
    "missing": "-A {account} -q {cpu_qos} nowhere.sh",
    "en-dash": "–A {account} -q {cpu_qos} ok.sh",
}
"""What sbatch must refuse, by name: the words after ``sbatch``."""
