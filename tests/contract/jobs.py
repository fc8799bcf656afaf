"""The commands that labtui sends, written a second time by hand, and the scripts that the contract submits."""

import shlex
import time
from dataclasses import dataclass

from tests.contract.sites import Answer, Site

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
    "noshebang.sh": "echo hello\n",
    "directive.sh": "#!/bin/bash\n#SBATCH --nonsense=1\necho hello\n",
}

_ACCOUNT = r"Invalid account or account/partition combination specified"
_QOS = r"Invalid qos specification"
_NODES = r"Requested node configuration is not available"
_GRES = r"Invalid generic resource"
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
    "too-few-cpus": ("{gpu} -c 20 --gres=gpu:4 ok.sh", 1, r"cpus requested should be \(nodes \* gpus/node"),
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
    "bad-directive": ("{cpu} directive.sh", 255, r"sbatch: unrecognized option '--nonsense(=1)?'"),
    "no-shebang": ("{cpu} noshebang.sh", 1, r"This does not look like a batch script"),
    "missing": ("{cpu} nowhere.sh", 1, r"Unable to open file nowhere\.sh"),
    "en-dash": ("–A {account} -q {cpu_qos} ok.sh", 1, r"Unable to open file –A"),
}
"""What sbatch must refuse, by name: the words after ``sbatch``, its exit status, a pattern of its standard error."""


OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")


@dataclass
class Jobs:
    """A directory on a site with the contract's scripts, and commands that run there."""

    site: Site
    directory: str

    def prepare(self) -> None:
        for name, text in SCRIPTS.items():
            self.site.write(f"{self.directory}/{name}", text.encode())

    def run(self, command: str, *, timeout_s: float = 480.0) -> Answer:
        return self.site.run(f"cd {shlex.quote(self.directory)} && {{ {command}\n}}", timeout_s=timeout_s)

    @property
    def cpu(self) -> str:
        return f"-A {self.site.account} -q {self.site.cpu_qos}"

    @property
    def words(self) -> dict[str, object]:
        """The values for the braces in `REFUSALS`: the site's names, and the options of a job on CPUs or GPUs."""
        return {**vars(self.site), "cpu": self.cpu, "gpu": f"-A {self.site.account} -q {self.site.gpu_qos}"}

    def gpu(self, gpus: int = 1) -> str:
        """Options of a job on GPUs, with 20 CPUs each."""
        return f"-A {self.site.account} -q {self.site.gpu_qos} -c {20 * gpus} --gres=gpu:{gpus}"

    def submit(self, words: str) -> str:
        answer = self.run(f"sbatch --parsable {words}")
        assert answer.status == 0, answer.err
        assert answer.out.isdecimal(), answer.out
        return answer.out

    def queue(self) -> dict[str, dict[str, str]]:
        """squeue's rows by job id, each with squeue's code as key."""
        answer = self.run(PINNED + QUEUE)
        assert (answer.status, answer.err) == (0, "")
        rows = {}
        for piece in answer.stdout.decode().split(ROW)[1:]:
            values = piece.removesuffix("\n").split(FIELD)
            assert len(values) == len(QUEUE_FIELDS), piece
            rows[values[0]] = dict(zip(QUEUE_FIELDS, values, strict=True))
        return rows

    def accounting(self, more: str) -> dict[str, dict[str, str]]:
        """sacct's rows by job id, each with sacct's field name as key."""
        answer = self.run(f"{PINNED}{ACCOUNTING} {more}")
        assert (answer.status, answer.err) == (0, "")
        values = answer.stdout.decode().split(FIELD)
        assert values.pop() in ("", "\n")
        count = len(ACCOUNTING_FIELDS)
        assert len(values) % count == 0
        rows = {}
        for start in range(0, len(values), count):
            row = dict(zip(ACCOUNTING_FIELDS, values[start : start + count], strict=True))
            rows[row["JobIDRaw"].strip()] = row
        return rows

    def wait_for(self, job_id: str, *states: str, deadline_s: float = 480.0) -> dict[str, str]:
        """Wait until squeue shows one of the states, and return the row."""
        end = time.monotonic() + deadline_s
        while True:
            row = self.queue().get(job_id, {})
            state = row.get("%T", "gone")
            if state in states:
                return row
            assert state not in OVER, f"job {job_id} is {state}, not {' or '.join(states)}"
            assert time.monotonic() < end, f"job {job_id} is {state}, not {' or '.join(states)}"
            time.sleep(0.2)

    def wait_for_accounting(self, job_id: str, deadline_s: float = 240.0) -> dict[str, str]:
        """Wait until accounting knows the job's end and name, and return the row."""
        end = time.monotonic() + deadline_s
        while True:
            row = self.accounting(f"--jobs={job_id}").get(job_id, {})
            if row.get("State", "").split(" ")[0] in OVER and row["QOS"] not in ("", "Unknown"):
                return row
            assert time.monotonic() < end, f"accounting says of job {job_id}: {row}"
            time.sleep(0.3)
