"""Every rule: a file that breaks it, the fix that cures it, and near-misses it must leave alone."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from labtui.domain.model import Interval
from labtui.domain.profile import Queue
from labtui.preflight import ScriptContext, fix_all, paths_to_ask
from labtui.preflight.findings import RULES, apply_fix, preview_fix
from labtui.session.settings import load_profile
from tests.preflight.cases import ACCOUNT, BROKEN, PROFILE, Case, draft, preflight
from tests.preflight.near import NEAR, VALID

OWN: dict[str, Any] = {"makes_folders": True, "remote": {"/gpfs/cifar/new": False}}
TOLD = ("remote", "given", "forecast", "bash_errors", "images", "brought", "wanted", "queues", "left_out")


def look(case: Case, files: dict[str, bytes]):
    return preflight(files, draft(), PROFILE, ACCOUNT, **{name: getattr(case, name) for name in TOLD})


@pytest.mark.parametrize("case", BROKEN, ids=lambda c: f"{c.rule}: {c.name}")
def test_broken_file_is_named_and_its_fix_changes_nothing_twice(case):
    files = case.files()
    hits = [f for f in look(case, files) if f.rule == case.rule]
    assert hits, [f.rule for f in look(case, files)]
    for hit in hits:
        lines = files[hit.file].decode("utf-8", "surrogateescape").split("\n")
        assert 0 <= hit.line <= len(lines) and hit.text == ["", *lines][hit.line].rstrip("\r")
        assert hit.effect.endswith(".")
        assert hit.severity == (case.severity or RULES[case.rule].severity)
    assert all((hit.fix is not None) == case.fixable for hit in hits)
    for _ in range(6 * case.fixable):  # several places may need it, each fix cures one
        if not hits:
            break
        fix = hits[0].fix
        text = files[fix.file].decode("utf-8", "surrogateescape")
        once = apply_fix(text, fix)
        assert once != text and apply_fix(once, fix) == once
        assert preview_fix(text, fix).startswith("--- ") and preview_fix(once, fix) == ""
        files = {**files, fix.file: once.encode("utf-8", "surrogateescape")}
        hits = [f for f in look(case, files) if f.rule == case.rule]
    assert not case.fixable or not hits


def refused(file: str, data: bytes) -> bool:
    """Whether Python or bash cannot read a file."""
    if not file.endswith(".py"):
        return subprocess.run(["bash", "-n"], input=data, capture_output=True, check=False).returncode != 0
    try:
        return compile(data, file, "exec") is None
    except (SyntaxError, ValueError):
        return True


@pytest.mark.parametrize("case", [*VALID, *NEAR, *BROKEN], ids=lambda c: f"{c.rule}: {c.name}")
def test_a_near_miss_is_left_alone_a_valid_job_has_no_error_and_no_fix_makes_one(case):
    files = case.files()
    found = look(case, files) if case.rule else preflight(files, None, PROFILE, ACCOUNT, **OWN)
    errors = {f.rule for f in found if f.severity == "error"}
    assert case not in NEAR or not {f.rule for f in found if case.rule in ("*", f.rule)}, found
    assert case.rule or not (errors or any(refused(name, files[name]) for name in files)), errors
    for fix in (f.fix for f in found if f.fix is not None):
        fixed = files | fix_all({fix.file: files[fix.file]}, tuple(f for f in found if f.fix == fix))
        assert refused(fix.file, files[fix.file]) or not refused(fix.file, fixed[fix.file]), fix
        assert {f.rule for f in look(case, fixed) if f.severity == "error"} <= errors, fix


def test_a_reservation_of_the_folder_fills_its_placeholder():
    files = next(case for case in BROKEN if "--reservation" in case.name).files()
    booked = replace(draft(), reservation="class-1")
    found = next(f for f in preflight(files, booked, PROFILE, ACCOUNT) if f.rule == "placeholder")
    assert "--reservation=class-1\n" in apply_fix(files["job.slurm"].decode(), found.fix)


def test_all_fixes_of_a_pasted_job_leave_a_clean_one():
    """The way a job looks that was copied out of a PDF and an old repository."""
    files = Case("*", "").files()
    text = files["job.slurm"].decode()
    text = text.replace("--gres=gpu:4", "--gres gpu: 4").replace(ACCOUNT, "nct_325").replace("--nv ", "")
    text = text.replace("--time 01:15:00", "--time 00:15").replace("#SBATCH --nodes", "#SBATCH —nodes")
    text = text.replace("--epochs 5 --batch_size 2048", "-- epochs 1 -- batch_size 2048")
    files["job.slurm"] = text.replace("\n", "\r\n").encode()
    severities = [found.severity for found in preflight(files, draft(), PROFILE, ACCOUNT)]
    assert severities == sorted(severities) and set(severities) == {"error", "warning"}
    for _ in range(8):
        files = fix_all(files, preflight(files, draft(), PROFILE, ACCOUNT))
    assert preflight(files, draft(), PROFILE, ACCOUNT) == ()
    assert b"--nv" in files["job.slurm"] and b"\r" not in files["job.slurm"]


def test_other_job_scripts_in_the_folder_do_not_stop_a_submission():
    files = Case("*", "").files()
    files["old/ResNet50.slurm"] = b"#SBATCH --account <account>\r\n"
    assert preflight(files, draft(), PROFILE, ACCOUNT) == ()
    # without a submission every one is checked
    job_script, program = b"#!/bin/bash\r\n#SBATCH --account <account>\r\n", "x = “a”\n".encode()
    files = {"a.slurm": job_script, "b.py": program}
    assert {"crlf", "placeholder"} <= {f.rule for f in preflight(files, None, PROFILE, ACCOUNT)}


def test_the_paths_worth_asking_the_cluster_about():
    files = Case("*", "").files()
    files["ResNet50.py"] += b"import sys\nsys.path.append('/gpfs/scratch/nct_345/cifar-utils')\n"
    del files["cifar-utils/cifar.py"]  # now the entry is needed
    paths = paths_to_ask(ScriptContext(files, draft(), PROFILE))
    projects, scratch = "/gpfs/projects/nct_345/", "/gpfs/scratch/nct_345/"
    utils, data, image = "cifar-utils", "cifar-utils/cifar-10-batches-py", "MN5-NGC-TensorFlow-23.03.sif"
    where_courses_keep_them = (scratch + data, scratch + image, projects + utils)
    assert paths == (projects + data, projects + image, scratch + utils, *where_courses_keep_them)
    gone = preflight(files, draft(), PROFILE, ACCOUNT, remote=dict.fromkeys(paths, False))
    assert {f.rule for f in gone} == {"path-missing"}
    files["job.slurm"] += b"\nX=/gpfs/own\npython my.py --data $X/\npython my.py --data_dir /tmp/unpacked\n"
    files["job.slurm"] += b"python3 /tmp/a.py\nsingularity run c.sif python /b.py\nsrun -n1 python ~/c.py\n"
    files["job.slurm"] += b"source ~/env/bin/activate\npython -m venv ~/new\n. ~/new/bin/activate\n. set.sh\n"
    files["job.slurm"] += b"cd ~/lab && python ./d.py\ncd /gpfs/e\npython f.py\ncd g && python h.py\n"
    files["job.slurm"] += b"cd /i && cp j.py .\npython j.py"
    asked = {*paths, "/gpfs/own", "c.py", "env/bin/activate", "lab/d.py", "/gpfs/e/f.py"}
    assert {*paths_to_ask(ScriptContext(files, draft(), PROFILE))} == asked


def test_the_image_that_a_fix_offers_is_that_of_the_imported_framework_or_has_the_name():
    site = replace(PROFILE, container="/a/tf.sif", containers={"pytorch": "/b/pt.sif"})
    cases = "torch x pt", "keras x tf", "os x /x/", "torch,keras x /x/", "os pt pt", "torch tf pt"
    for module, name, image in map(str.split, cases):
        job = f"#!/bin/bash\nsingularity run /x/<path>/{name}.sif python train.py\n".encode()
        files = {"job.slurm": job, "train.py": f"import {module}".encode()}
        assert image in fix_all(files, preflight(files, None, site))["job.slurm"].decode(), (module, name)


def test_where_no_node_has_a_gpu_none_is_advised():
    site, asking = replace(PROFILE, gpus_per_node=0, queue_option="partition"), Case("*", "").files()
    silent = {"job.slurm": asking["job.slurm"].replace(b"#SBATCH --gres=gpu:4\n", b"#SBATCH -p gpux\n")}
    unlisted = "The profile of MareNostrum 5 lists no partition gpux"
    asked = "The job asks for no GPU, the plan for 4"
    for form, effect in (("one-job", asked), ("own", site.without_gpus.split(":")[0])):
        found = preflight(asking | silent, replace(draft(), form=form), site, ACCOUNT)
        assert [(f.effect.split(":")[0], f.fix) for f in found] == [(effect, None), (unlisted, None)]
    (said,) = (f for f in preflight(asking, draft(), site, ACCOUNT) if f.rule == "gpu-count")
    assert (said.severity, said.effect, said.fix) == ("error", site.without_gpus, None)


@pytest.mark.parametrize("gpus", [0, 4])
def test_the_nodes_of_the_jobs_own_partition_count(gpus):
    own = (*PROFILE.queues, Queue(name="batch", cpus_per_node=112, gpus_per_node=8))
    site = replace(PROFILE, status="own", queue_option="partition", queues=own, gpus_per_node=gpus)
    for asked, has in (("batch -c 112 -G 8", None), ("batch -c 113", 112), ("gp_debug -c 200", None)):
        files = {"job.slurm": f"#!/bin/bash\n#SBATCH -p {asked} -t 5\npython a.py\n".encode()}
        found = [f.effect for f in preflight(files, None, site) if f.rule in ("few-cpus", "gpu-count")]
        assert found == ([f"A task asks for 113 CPUs; a node of batch has {has}."] if has else []), asked


def test_a_script_that_is_not_sent_is_named_once():
    job = b"#!/bin/bash\n#SBATCH -t 5\npython none.py --data ../d/x.npy\npython none.py --data ../d/x.npy\n"
    found = preflight({"job.slurm": job}, None, PROFILE)
    said = {f.effect.split()[0]: (f.line, f.severity) for f in found if f.rule == "script-missing"}
    assert len(found) == 2 and said == {"none.py": (3, "error"), "../d/x.npy": (3, "error")}, found


def test_a_copy_is_to_be_changed_for_a_task_and_not_in_a_job_file_of_ones_own():
    files = Case("*", "").files() | {"copy.py": Case("*", "").files()["ResNet50.py"]}
    runs = tuple(replace(run, script="copy.py") for run in draft().runs)
    for form, found in (("one-job", True), ("own", False)):
        rules = {f.rule for f in preflight(files, replace(draft(), form=form, runs=runs), PROFILE, ACCOUNT)}
        assert ("unchanged-copy" in rules) is found


CORPUS = Path(__file__).parent / "corpus"
EXPECTED: dict[str, list[str]] = tomllib.loads((CORPUS / "expected.toml").read_text())
TOLD_BESIDE: dict[str, dict[str, Any]] = {
    "given-by-sbatch": {"given": {"account": "nct_345", "qos": "acc_debug"}},
    "short-limit": {"forecast": Interval.exact(1500)},
    "own-sys-path": {"remote": {"/gpfs/scratch/nct_345/cifar-utils": False}},
}
"""What is known beside the files: options of the command line, the forecast, what the cluster answered."""
TRAININGS = ("ResNet50.py", "ResNet50_seq.py", "train.py", "train_ddp.py", "benchmark.py")
SCRIPTS = dict.fromkeys(TRAININGS, b"import tensorflow as tf\n") | {
    "with_path.py": b"import sys\nsys.path.append('/gpfs/scratch/nct_345/cifar-utils')\nfrom cifar import load_cifar\n",
    "cifar.py": b"def load_cifar(batch_size): ...\n",
}


def test_every_rule_has_a_broken_file_and_is_on_the_page_if_it_has_no_fix():
    page = (Path(__file__).parents[2] / "docs" / "preflight.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("## Findings without a fix")
    named = set(re.findall(r"`([\w-]+)`(?=[^|\n]*\|[^|\n]*\|[^|\n]*\|$)", rest, re.MULTILINE))
    assert {case.rule for case in BROKEN if not case.fixable} <= named <= set(RULES)
    assert set(RULES) == {case.rule for case in BROKEN}
    assert {path.stem for path in CORPUS.glob("*.slurm")} == set(EXPECTED)
    assert sum(not wanted for wanted in EXPECTED.values()) >= 10, "files without a fault measure precision"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_file_has_its_findings_and_no_other(name):
    """By rule and line, in a file beside the scripts that it runs."""
    file = f"{name}.slurm"
    files = {**SCRIPTS, file: (CORPUS / file).read_bytes()}
    notes = TOLD_BESIDE.get(name, {})
    found = preflight(files, None, load_profile("mn5"), "nct_345", main=file, makes_folders=True, **notes)
    assert {item.file for item in found} <= {file}
    assert {f"{item.rule}:{item.line}" for item in found} == set(EXPECTED[name])
