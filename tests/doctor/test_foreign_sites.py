"""Clusters without a profile (`tests.real_cluster.sites`): asked about themselves, then to a chart on a real Slurm."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.conftest import QUICK_TRAINING, Labtui
from tests.commands.test_own_job_files import PRINTED
from tests.real_cluster import Cluster, ClusterSettings
from tests.real_cluster.settings import Node
from tests.real_cluster.sites import SiteName
from tests.reliability.hostile import Terminal

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.xdist_group("foreign-sites")]

PYTHON = "/apps/course/bin/python"
"""On these clusters: the tests' own Python with a `tensorflow` that is a version and no more."""
MAX_ANSWERS = 5
NODES = [Node("g01", "acc", 80, 4), Node("g02", "acc", 80, 4), Node("p9r2n12", "gpp", 160, 0)]
"""The node without GPUs has as many CPUs as one of CTE-POWER."""
KEYS = ("queue_option", "gpu_queue", "cpu_queue", "default_account")
EXPECTED = {
    "partitions": ("partition", "gpu", "batch", "teaching"), "qos": ("qos", "gpu-long", "normal", "p1234"),
    "several": ("partition", "accel", "standard", "chem02"),
}  # fmt: skip
WRONG = {"partitions": "--partition gpu-staff", "qos": "--qos acc_debug", "several": "--account phys01"}
"""A way to ask for what the site refuses."""


@pytest.fixture(scope="module", params=list(EXPECTED))
def site(request: pytest.FixtureRequest) -> Iterator[tuple[SiteName, Cluster]]:
    """A cluster of each kind, one after the other."""
    running = Cluster.start(settings=ClusterSettings(site=request.param, nodes=NODES))
    python = running.outside(PYTHON)
    python.parent.mkdir(parents=True)
    python.with_name("tensorflow.py").write_text("__version__ = '2.15.0'\n")
    python.write_text(f'#!/bin/sh\nPYTHONPATH={Path(PYTHON).parent} exec {running.settings.python} "$@"\n')
    python.chmod(0o755)
    yield request.param, running
    running.down()


def new_labtui(place: Path) -> Labtui:
    home = place / "home"
    home.mkdir()
    return Labtui(home, place / "lab")


def at_a_terminal(labtui: Labtui, words: list[str], answers: dict[str, list[str]]) -> tuple[str, int]:
    """Run labtui in a pseudo-terminal and answer its questions; everything shown, and how many were asked."""
    questions, seen = 0, 0
    with Terminal([sys.executable, "-m", "labtui", *words], env=labtui.environment) as terminal:
        while terminal.process.poll() is None:
            terminal.read(1.0)
            shown = terminal.output[seen:].decode("utf-8", "replace")
            question = re.search(r"((?:[^\n]|\n  )*[?.](?:\s+\[[^\]]*\])? )$", shown)
            if question is not None:
                questions, seen = questions + 1, len(terminal.output)
                texts = next((texts for words, texts in answers.items() if words in question[1]), [""])
                terminal.press(f"{texts.pop(0)}\n")
        assert terminal.end() == 0, terminal.output
    return terminal.output.decode("utf-8", "replace"), questions


def test_from_nothing_to_a_chart(site, tmp_path):
    labtui = new_labtui(tmp_path)
    name, cluster = site
    words = ["init", str(labtui.folder), "--lab", "hpc4ai-ch10", *cluster.student.options]
    answers = {"CIFAR-10": [cluster.student.data_dir], "TensorFlow": ["a.sif", PYTHON], "queue": ["2"]}
    shown, questions = at_a_terminal(labtui, words, answers)
    assert 0 < questions <= MAX_ANSWERS + 1, shown
    assert "'a.sif' must be an absolute path, beginning with /" in " ".join(shown.split())
    assert "Slurm would accept a job with one GPU." in shown
    text = (labtui.folder / "cluster.toml").read_text()
    written = tomllib.loads(text)
    assert tuple(written[key] for key in KEYS) == EXPECTED[name], text
    assert (written["gpus_per_node"], written["cpus_per_node"], written["cpus_per_gpu"]) == (4, 80, 20)
    assert written["data_dir"] == cluster.student.data_dir and written["launch"]["python"] == PYTHON
    assert re.search(r"gpus_per_node = 4\s+# (sinfo|scontrol show partition)", text), text
    if name == "several":
        assert "`sinfo` was refused" in text
    checks = {check.pop("key"): check for check in labtui.json("doctor")["checks"]}
    assert checks["python"]["status"] == "ok" and "tensorflow 2.15.0)" in checks["python"]["sentence"]
    assert {check["status"] for check in checks.values()} <= {"ok", "warning"}, checks
    assert {"data", "gpu-job", "cpu-job"} <= checks.keys()
    # Every other check is fine, and still no job would be taken: Slurm alone knows.
    found = labtui.json("doctor", *WRONG[name].split(), code=1)["checks"]
    bad = {check["key"]: check["fix"] for check in found if check["status"] == "problem"}
    assert "gpu-job" in bad and set(bad) <= {"gpu-job", "cpu-job", "qos-acc_debug"}, found
    assert "--test-only" in bad["gpu-job"] and WRONG[name].split()[1] in bad["gpu-job"]
    (labtui.folder / "scripts" / "ResNet50.py").write_text(QUICK_TRAINING)
    sent = labtui.json("submit", "10.5", "--epochs", "2")
    assert {item["status"] for item in sent["submissions"]} <= {"accepted", "waiting"}
    labtui("watch")
    (again,) = labtui.json("retry", "1", "--same", "--dry-run", "--force", "a test")["submissions"]
    assert again["test_only"]["ok"], again["script"]
    rows = labtui.json("results")["rows"]
    assert [row["n_gpus"] for row in rows] == [1, 2, 4]
    assert all(row["speedup"]["value"] > 0 for row in rows)
    if name == "partitions":  # this asks nothing of the site
        labtui("plot", "--format", "svg", "--out", str(labtui.folder / "plots"))
        assert (labtui.folder / "plots" / "speedup-ResNet50.svg").is_file()


@pytest.mark.parametrize("site", ["partitions"], indirect=True)
def test_the_job_file_of_cte_power_as_printed(site, tmp_path):
    """A word processor set its dashes and quotes, and its first line is lost; `lint --fix` mends that and no more."""
    lab, cluster = new_labtui(tmp_path), site[1]
    init = ["init", str(lab.folder), "--lab", "hpc4ai-ch10", *cluster.student.options]
    refused = lab(*init, "--account", "nct_999", code=2).stderr
    assert "The account nct_999 is not yours; yours: teaching." in refused and not lab.folder.exists()
    given = ("--python", "/no/python", "--data-dir", "cifar", "--account", "teaching")
    absent = lab("init", f"{lab.folder}-2", *init[2:], *given).stderr
    assert "/no/python is not on the login node" in absent and "/cifar is not on the login node" in absent
    assert " is not on " not in lab(*init, "--python", PYTHON, "--data-dir", cluster.student.data_dir).stderr
    printed = (PRINTED / "power-ResNet50_seq.sh").read_text()
    for module in re.findall(r"(\w+)/[\d.]+\w*", printed.split("module load", 1)[1]):
        cluster.outside(f"/apps/modules/{module}/bin").mkdir(parents=True, exist_ok=True)
    file = lab.folder / "slurm" / "ResNet50_seq.sh"
    file.write_text(printed)
    (lab.folder / "scripts" / "ResNet50_seq.py").write_text(QUICK_TRAINING)
    refused = lab("submit", "slurm/ResNet50_seq.sh", "--task", "10.3", "--yes", code=1).stderr
    assert "[pasted-character]" in refused and "Nothing was submitted" in refused
    lab("lint", "--fix", "slurm/ResNet50_seq.sh")
    mended = re.sub("\u2014 ?", "--", printed).replace("\u201d", '"')
    left = [line for line in file.read_text().splitlines() if line not in mended.splitlines()]
    assert left == [], file.read_text()
    lab("submit", "slurm/ResNet50_seq.sh", "--task", "10.3", "--yes")
    lab("watch")
    (run,) = lab.json("queue", "--offline")["runs"]
    assert (run["outcome"], run["job"]["node"], run["job"]["time_limit_s"]) == ("completed", "p9r2n12", 300)
    (row,) = lab.json("results")["rows"]
    assert (row["model"], row["n_gpus"]) == ("ResNet50", 0) and row["epoch_seconds"]["value"] > 0
