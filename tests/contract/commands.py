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

_ACCOUNT = r"Invalid account or account/partition combination specified"
_QOS = r"Invalid qos specification"
_NODES = r"Requested node configuration is not available"
_GRES = r"Invalid generic resource"
_DOS = r"Batch script contains DOS line breaks \(\\r\\n\)\n.*instead of expected UNIX line breaks \(\\n\)"
_WALL = r"QOSMaxWallDurationPerJobLimit\n.*Job violates accounting/QOS policy"
_PARTITION = r"invalid partition specified: nonsense\n.*Invalid partition name specified"

REFUSALS: dict[str, tuple[str, int, str]] = {
    "wrong-account": ("-A nct_777 -q {cpu_qos} ok.sh", 1, _ACCOUNT),
    "foreign-account": ("-A nct_999 -q {cpu_qos} ok.sh", 1, _ACCOUNT),
    "no-account": ("-q {cpu_qos} ok.sh", 1, r"error: No account specified, please specify an account"),
    "wrong-qos": ("-A {account} -q acc_nonsense ok.sh", 1, _QOS),
    "foreign-qos": ("-A {account} -q acc_bsccase ok.sh", 1, _QOS),
    "no-qos": ("-A {account} ok.sh", 1, r"error: No QoS specified, please specify a QoS"),
    "time-over-qos": ("-A {account} -q {debug_qos} -c 20 --gres=gpu:1 -t 03:00:00 ok.sh", 1, _WALL),
    "time-over-partition": ("{cpu} -t 4-00:00:00 ok.sh", 1, r"Requested time limit is invalid \(missing or"),
    "bad-time": ("{cpu} -t soon ok.sh", 255, r"error: Invalid --time specification"),
    "too-few-cpus": (
        "{gpu} -c 20 --gres=gpu:4 ok.sh",
        1,
        r"cpus requested should be \(nodes \* gpus/node \* 20\)",
    ),
    "too-many-cpus": ("{cpu} -c 500 ok.sh", 1, rf"More processors requested than permitted|{_NODES}"),
    "too-many-gpus": ("{gpu} -c 160 --gres=gpu:8 ok.sh", 1, _NODES),
    "too-many-nodes": ("{cpu} -N 50 ok.sh", 1, rf"Node count specification invalid|{_NODES}"),
    "bad-gres": ("{gpu} -c 20 --gres=gpux:1 ok.sh", 1, rf"{_GRES} \(gres\) specification"),
    "bad-gres-type": ("{gpu} -c 20 --gres=gpu:a100:1 ok.sh", 1, rf"{_NODES}|{_GRES}"),
    "blank-gres": ("{gpu} -c 20 --gres gpu: 1 ok.sh", 1, rf"Unable to open file 1|{_GRES}|invalid gres"),
    "memory": ("{cpu} --mem=4G ok.sh", 1, r"[Mm]emory"),
    "bad-partition": ("{cpu} -p nonsense ok.sh", 1, _PARTITION),
    "bad-reservation": ("{cpu} --reservation=nonsense ok.sh", 1, r"Requested reservation is invalid"),
    "bad-option": ("{cpu} --nonsense ok.sh", 255, r"sbatch: unrecognized option '--nonsense'"),
    "bad-directive": ("{cpu} directive.sh", 255, r"sbatch: unrecognized option '--nonsense=1'"),
    "crlf": ("{cpu} crlf.sh", 1, _DOS),
    "no-shebang": ("{cpu} noshebang.sh", 1, r"This does not look like a batch script"),
    "empty": ("{cpu} empty.sh", 1, r"Batch script is empty!"),
    "missing": ("{cpu} nowhere.sh", 1, r"Unable to open file nowhere\.sh"),
    "en-dash": ("–A {account} -q {cpu_qos} ok.sh", 1, r"Unable to open file –A"),
}
"""What sbatch must refuse, by name: the words after ``sbatch``, its exit status, a pattern of its standard error."""
