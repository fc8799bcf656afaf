"""Where Slurm is the judge: it refuses the broken job script and takes the one that preflight fixed."""

import msgspec
import pytest

from labtui.preflight.findings import apply_fix
from tests.preflight.cases import ACCOUNT, BROKEN, FILES, PROFILE, Case, draft, preflight
from tests.real_cluster import Cluster, Student

pytestmark = pytest.mark.cluster

REAL = "nct_000"


def files_of(case: Case) -> dict[str, bytes]:
    return {name: data.replace(ACCOUNT.encode(), REAL.encode()) for name, data in case.files().items()}


def findings(files: dict[str, bytes]):
    planned = msgspec.structs.replace(draft(), account=REAL)
    return preflight(files, planned, msgspec.structs.replace(PROFILE, default_account=REAL), REAL)


def verdict(cluster: Cluster, student: Student, script: bytes):
    folder = cluster.outside(student.scratch)
    (folder / "job.slurm").write_bytes(script)
    for name in FILES:
        if name.endswith(".py"):
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(FILES[name])
    return cluster.as_student(f"cd {student.scratch} && sbatch --test-only job.slurm")


def test_slurm_refuses_what_is_judged_and_takes_the_fixed_job(cluster, student):
    """Every broken job script is shown to Slurm; a job without a time limit, say, it takes as it is."""
    good = files_of(Case("*", ""))
    assert findings(good) == ()
    taken = verdict(cluster, student, good["job.slurm"])
    assert taken.status == 0, taken.err
    for case in (case for case in BROKEN if "job.slurm" in case.change):
        files = files_of(case)
        refused = verdict(cluster, student, files["job.slurm"]).status != 0
        assert refused == case.refused, (case.rule, case.name)
        if not case.refused:
            continue
        for _ in range(4):
            fixes = [f.fix for f in findings(files) if f.rule == case.rule and f.fix is not None]
            if not fixes:
                break
            text = files["job.slurm"].decode("utf-8", "surrogateescape")
            files["job.slurm"] = apply_fix(text, fixes[0]).encode("utf-8", "surrogateescape")
        taken = verdict(cluster, student, files["job.slurm"])
        assert taken.status == 0 or not case.fixable, (case.rule, case.name, taken.err)
