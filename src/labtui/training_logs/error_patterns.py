# ruff: noqa: E501 (the texts of other programs, and whole sentences of ours, read best unbroken)
"""The error texts labtui knows, what each means, and what to do next. Data; `diagnosis` applies it.

The texts are those of TensorFlow, PyTorch, CUDA, Slurm, Singularity, Lmod, bash and Python; the advice is ours.
What may not enter: state.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from labtui.domain.model import DiagnosisKind, Outcome


@dataclass(frozen=True, slots=True)
class ErrorPattern:
    """A text, its kind, and what it makes of the run (`outcome` None: a surprise, no failure).

    `near` are words of which the text holds one: looking for them first is cheap. The names of the pattern's groups stand
    in braces in the advice.

    `job_level`: Slurm or the kernel ended the job, so only its last run can be meant.
    """

    kind: DiagnosisKind
    near: tuple[str, ...]
    pattern: re.Pattern[str]
    advice: str
    outcome: Outcome | None = "failed"
    job_level: bool = False

    def advise(self, text: str) -> str:
        """The advice with what the pattern found in the text."""
        match = self.pattern.search(text)
        parts = match.groupdict() if match is not None else {}
        return self.advice.format(**parts) if parts else self.advice


HARMLESS = re.compile(
    r"The caller indicates that this is not a failure"
    r"|Executor start aborting"
    r"|oneDNN|NUMA|numa_node|TF-TRT|TensorRT|libnvinfer"
    r"|This TensorFlow binary is optimized|cpu_feature_guard"
    r"|Unable to register cu(?:DNN|FFT|BLAS) factory"
    r"|Exception ignored in"
    r"|nvidia-smi: command not found"
    r"|: cannot (?:remove|access) "
    r"|WARNING: Skipping mount|squashfuse"
    r"|NCCL INFO |libnccl-(?:net|tuner|profiler|env)|/etc/[\w.-]*release: No such file|\.bashrc: No such file"
    r"|rdmav\d+\.so|libibverbs: Warning|from LD_PRELOAD cannot be preloaded|mesg: ttyname"
    r"|\[c10d\] The (?:client|server|IPv6) |Setting OMP_NUM_THREADS environment variable"
)
"""Lines that look alarming and are not: never flagged."""

_HALVE = (
    "Halve the batch size per GPU (and the global batch with it), or use a smaller model; then submit again."
)
_HOST = (
    "The job ran out of the node's own memory, not the GPU's: ask for more CPUs (memory comes with them), "
    "or keep less of the data in memory."
)
_DASHES = (
    "An option was not understood. If it was pasted, retype its dashes as two plain hyphens with no space after "
    "them, and replace curly quotes with straight ones."
)
NO_GPU = "The program found no GPU and trains on the CPU. Check that the job asks for GPUs (--gres=gpu:N)."
IN_CONTAINER = " Start the container with `singularity exec --nv ...`, which gives it the GPUs."
"""What is added where the log shows a container."""
_NO_BUILD = "This build has no GPU support: install or load one that has."
_KILLED = (
    "Killed (signal 9): by you, by the system, or because the memory was full. Slurm's own line would say that it was "
    "the memory."
)
_MODULE = "Check the `module load` lines of the job script: the program or a module it needs is not loaded."
_IMAGE = (
    "The container could not be started: check the path of the image in the job script and that your account "
    "may read it."
)
_QUOTA = "Your disk quota is used up: delete what you do not need, or write to scratch; then submit again."
_LOST = (
    "{who} was killed, or its node failed, and the others cannot continue. Submit it again; if it ends like this again, ask for "
    "more memory on each node (it comes with the CPUs) and read what that node wrote further up."
)
_FILE = (
    "A file is not where the program looks: compare the path with the one on the cluster "
    "(data directory, account number, working directory)."
)


def _rule(
    kind: DiagnosisKind,
    near: str,
    pattern: str,
    advice: str,
    *,
    outcome: Outcome | None = "failed",
    job_level: bool = False,
) -> ErrorPattern:
    return ErrorPattern(kind, tuple(near.split("|")), re.compile(pattern), advice, outcome, job_level)


NO_GPU_SIGN = "There are non-GPU devices in"
"""TensorFlow's own word that a MirroredStrategy runs on the CPU."""

WEAK_NO_GPU = re.compile(
    r"failed call to cuInit|Cannot dlopen some GPU libraries|no CUDA-capable device|Could not find cuda drivers"
    r"|Could not load dynamic library 'lib(?:cuda|cudart|cublas|cudnn)\b|Could not find any nv files on this host"
)
"""What TensorFlow and Singularity also say on a node that has no GPU and needs none: a hint, no proof."""

RULES: tuple[ErrorPattern, ...] = (
    _rule(
        "time-limit",
        "TIME LIMIT",
        r"CANCELLED AT .{0,60}DUE TO TIME LIMIT|DUE TO TIME LIMIT \*\*\*",
        "The time limit was too short: ask for epochs x time per epoch plus the warm-up, with a margin.",
        outcome="time-limit",
        job_level=True,
    ),
    _rule(
        "cancelled",
        "TASK FAILURE",
        r"\*\*\* .{0,200}CANCELLED AT .{0,60}DUE TO TASK FAILURE",
        "One task failed and Slurm ended the others: the cause is further up in this log.",
        outcome="failed",
        job_level=True,
    ),
    _rule(
        "cancelled",
        "PREEMPTION|NODE FAILURE|JOB REQUEUE",
        r"\*\*\* .{0,200}CANCELLED AT .{0,60}DUE TO (?:PREEMPTION|NODE FAILURE|JOB REQUEUE)",
        "The cluster removed the job from its node; nothing is wrong with the script. Submit it again.",
        outcome="cancelled",
        job_level=True,
    ),
    _rule(
        "cancelled",
        "CANCELLED AT",
        r"\*\*\* .{0,200}CANCELLED AT ",
        "The job was cancelled, by you or by someone who shares the account. Submit it again if you still want it.",
        outcome="cancelled",
        job_level=True,
    ),
    _rule(
        "cancelled",
        "KeyboardInterrupt|srun: ",
        r"^(?:KeyboardInterrupt\b|srun: Cancelled|srun: interrupt)",
        "The program was interrupted from outside. Submit it again if that was not meant.",
        outcome="cancelled",
    ),
    _rule(
        "cancelled",
        "terminated from outside",
        r"error: The training was terminated from outside",
        "The job was cancelled or ran out of time; Slurm's own line says which.",
        outcome="cancelled",
    ),
    _rule(
        "no-gpu",
        "TensorFlow sees",
        r"error: .{0,200}TensorFlow sees (?:no GPU|none|only \d)",
        "Ask Slurm for as many GPUs as the training uses (--gres=gpu:N); a container needs `singularity exec --nv ...`.",
    ),
    _rule(
        "missing-file",
        "data folder|CIFAR-10|cannot be read",
        r"error: (?:The data folder |.{0,400}is not a CIFAR-10 file|.{0,400}cannot be read: )",
        "Set where cifar-10-batches-py is on the cluster (data directory in lab.toml), or copy it there again.",
    ),
    _rule(
        "process-lost",
        "exited without an error message|ended without a word",
        r"error: (?P<who>.{1,400}) (?:exited without an error message|ended without a word) \(killed, or its node "
        r"(?:failed|was lost)\)",
        _LOST,
    ),
    _rule(
        "process-lost", "did not answer", r"error: (?P<who>Rank [\d, -]{1,400}) did not answer within ", _LOST
    ),
    _rule(
        "node-lost",
        "Node failure on",
        r"srun: error: Node failure on (?P<node>[\w.,\[\]-]{1,200})",
        "The node {node} failed while the job ran; nothing is wrong with the script. Submit it again: Slurm takes other nodes "
        "(`--exclude={node}` makes sure).",
        outcome="cancelled",
    ),
    _rule(
        "rendezvous",
        "did not join within|did not come within",
        r"error: \d+ of \d+ processes did not (?:join|come) within .{1,40}: (?P<who>rank [\d, -]{1,400})\. (?:Joined|Here): ",
        "These never joined the training: {who}. Read what their nodes wrote further up; a container "
        "or a disk may have held them up, or the name of the first node could not be resolved there.",
    ),
    _rule(
        "rendezvous",
        "found no rank 0",
        r"error: Rank \d+ on \S{1,200} found no rank 0 at (?P<where>\S{1,200})",
        "Nothing answered at {where}: rank 0 never started, or MASTER_ADDR and MASTER_PORT are not those of the job's first "
        "node. Read what the first node wrote.",
    ),
    _rule(
        "rendezvous",
        "cannot listen on port|failed to listen on any local",
        r"(?:cannot listen on|failed to listen on any local network address\.) port:? (?P<port>\d{1,5})",
        "Another program on the first node, perhaps of another job, uses port {port}. Submit it again with another port; one "
        "made from the job's id, as in labtui's own job files, is rarely taken.",
    ),
    _rule(
        "rendezvous",
        "MASTER_ADDR is not set",
        r"error: MASTER_ADDR is not set",
        "The job file has to name the first node; the sentence in the log shows how.",
    ),
    _rule(
        "host-memory",
        "oom-kill|oom_kill|OOM Killed|out-of-memory|memory limit",
        r"oom[-_]kill|OOM Killed|cgroup out-of-memory handler|[Ee]xceeded (?:job|step) memory limit",
        _HOST,
        outcome="oom",
        job_level=True,
    ),
    _rule(
        "process-lost",
        ": Killed",
        r"srun: error: (?P<node>[\w.-]{1,200}): (?P<task>tasks? [\d,-]{1,80}): Killed",
        "{task} on {node}: killed (signal 9), by you, by the system, or because that node's memory was full. Slurm's own "
        "line would say that it was the memory.",
    ),
    _rule("process-lost", "Killed", r"(?:^|: line \d+: +\d+ )Killed(?:\s|\Z)", _KILLED),
    _rule(
        "host-memory",
        "Out Of Memory|MemoryError|bad_alloc|allocator cpu|allocator mklcpu|allocator mkl_cpu|Allocator (cpu|Allocator (mkl",
        r"(?:^|: line \d+: +\d+ |: task.{0,80}: )Out Of Memory(?:\s|\Z)|^(?:numpy\.\S*)?(?:_Array)?MemoryError\b|TensorFlow says: MemoryError|std::bad_alloc"
        r"|by allocator (?:mkl)?_?cpu|Allocator \((?:mkl)?_?cpu\) ran out of memory",
        _HOST,
        outcome="oom",
    ),
    _rule(
        "oom",
        "out of memory|OutOfMemory|OUT_OF_MEMORY|OOM when|Out of memory|ResourceExhausted|ALLOC_FAILED",
        r"ran out of memory trying to allocate|ResourceExhaustedError|OOM when allocating tensor"
        r"|error: Out of memory with a global batch|error: (?:Rank \d{1,6} on \S{1,80}: )?out of memory\. |CUDA_ERROR_OUT_OF_MEMORY|CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError"
        r"|RESOURCE_EXHAUSTED: .{0,80}[Oo]ut of memory|CU(?:DNN|BLAS)_STATUS_ALLOC_FAILED",
        _HALVE,
        outcome="oom",
    ),
    _rule("quota", "quota exceeded|No space left", r"Disk quota exceeded|No space left on device", _QUOTA),
    _rule(
        "container",
        "executable file not found",
        r"FATAL: .{0,4000}executable file not found in \$PATH",
        "The container starts but does not contain this program: check the command after the image's name.",
    ),
    _rule(
        "container",
        "ould not open image|image format|SIF image|Image path|session directory|container encryption|FATAL: |ABORT",
        r"[Cc]ould not open image|image format not recognized|SIF image .{0,4000} is corrupted"
        r"|ERROR +: Image path .{0,4000} doesn't exist|failed to resolve session directory"
        r"|While checking container encryption|^(?:FATAL: {2,}|ABORT +: Retval)",
        _IMAGE,
    ),
    _rule(
        "bad-arguments",
        "\\r'|^M|cannot execute|DOS line",
        r"\$'\\r': command not found|: \$'.{0,400}\\r'|\^M: bad interpreter|bad interpreter: .{0,200}\^M|cannot execute: required file not found"
        r"|DOS line breaks",
        "The script has Windows line endings (CRLF): save it with LF line endings (`dos2unix FILE`) and send it again.",
    ),
    _rule(
        "bad-arguments",
        "unrecognized arguments|error: argument|arguments are required|ambiguous option|no such option|invalid int|invalid float",
        r"error: unrecognized arguments|error: (?:argument |the following arguments are required)"
        r"|error: ambiguous option|error: no such option|invalid (?:int|float) value",
        _DASHES,
    ),
    _rule(
        "bad-arguments",
        "SyntaxError",
        r"SyntaxError: (?:invalid (?:non-printable )?character|Non-(?:UTF-8|ASCII))",
        "The source contains an invalid character that looks like a valid one (curly quote, long dash, no-break space): retype it.",
    ),
    _rule(
        "bad-arguments",
        "QOSMaxSubmit|job submit limit",
        r"QOSMaxSubmitJobPerUserLimit|job submit limit, user's size",
        "The queue takes no more of your jobs now: nothing is wrong with this one; submit it when the last one has ended.",
    ),
    _rule(
        "bad-arguments",
        "sbatch: |srun: |Minimum cpus",
        r"(?:sbatch|srun): (?:error: |fatal: )?(?:Batch job submission failed|No (?:account|QoS) specified|Invalid (?:account|qos"
        r"|generic resource)|Requested (?:time limit|node configuration)|This does not look like a batch script"
        r"|Batch script is empty)|Minimum cpus requested should be",
        "Slurm did not accept the request: compare account, QoS, time, GPUs and CPUs (20 per GPU on MareNostrum 5) "
        "with what your profile allows.",
    ),
    _rule(
        "no-gpu",
        "GPU support|compiled with CUDA|built with CUDA",
        r"built without GPU support|not built with (?:CUDA|GPU) support|Torch not compiled with CUDA",
        _NO_BUILD,
        outcome=None,
    ),
    _rule("no-gpu", "non-GPU devices", NO_GPU_SIGN, NO_GPU, outcome=None),
    _rule(
        "no-gpu",
        "cuInit|GPU libraries|dynamic library|CUDA-capable|cuda drivers|nv files",
        WEAK_NO_GPU.pattern,
        NO_GPU,
        outcome=None,
    ),
    _rule(
        "no-gpu",
        "No CUDA GPUs|no NVIDIA driver",
        r"No CUDA GPUs are available|Found no NVIDIA driver",
        NO_GPU,
    ),
    _rule(
        "missing-module",
        "No module named",
        r"No module named '?cifar",
        "Python does not find cifar.py: put the folder that holds it (cifar-utils) beside the script, or correct the "
        "path the script adds to sys.path.",
    ),
    _rule(
        "missing-module",
        "No module named|ModuleNotFound|ImportError",
        r"ModuleNotFoundError|No module named |ImportError: .{0,400}(?:cannot open shared object|cannot import name)",
        "Python cannot find this package: check that the script runs inside the course container and that no other "
        "Python's paths leak into it (`module purge` first).",
    ),
    _rule(
        "missing-module",
        "module: command",
        r"\bmodule: command not found",
        "The shell does not know `module`: the job must start from a login shell (`#!/bin/bash -l`).",
        outcome=None,
    ),
    _rule(
        "missing-module",
        "module(s) are unknown|modulefile",
        r"The following module\(s\) are unknown|Unable to locate a modulefile for",
        "This cluster has no module of that name: the job file comes from another cluster or another year. "
        "`module avail` on the login node lists what is there.",
    ),
    _rule(
        "missing-module",
        "load module|module(s)|Lmod has",
        r"Cannot load module .{0,400} without these module\(s\) loaded|Lmod has detected the following error",
        "Load the modules that the error names first, in that order, or correct the module's name.",
    ),
    _rule(
        "missing-module", "command not found", r"(?:^|: )(?:line \d+: )?[\w./+-]+: command not found", _MODULE
    ),
    _rule(
        "missing-file",
        "open stdout file|open stderr file",
        r"Could not open std(?:out|err) file",
        "The folder for the log does not exist: create it before submitting, or write the log beside the script.",
    ),
    _rule(
        "missing-file",
        "FileNotFoundError|can't open file|NotFoundError",
        r"FileNotFoundError|can't open file|NotFoundError: .{0,400}No such file",
        _FILE,
    ),
    _rule(
        "missing-file", "No such file or directory", r"(?:^|: )[^:]{1,400}: No such file or directory", _FILE
    ),
)
"""In order of trust: the first rule that matches a line speaks for it."""

SUSPECT: tuple[str, ...] = tuple(
    dict.fromkeys(
        [
            *(word for rule in RULES for word in rule.near),
            *(
                "error: ",
                ": line ",
                "Traceback (most",
                'File "',
                "SyntaxError: ",
                "IndentationError: ",
                "TabError: ",
                "above exception",
                "Exception ignored",
                "Logging error",
                "srun: ",
                "host      : ",
                "rank      : ",
                "exitcode  : ",
            ),
        ]
    )
)
"""A quick look: a line without any of these needs no rule."""
