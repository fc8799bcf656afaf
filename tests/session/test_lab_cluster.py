"""The doctor for a lab folder: what its lab needs, and the repairs labtui makes by itself."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from labtui.commands.cli import main
from labtui.commands.terminal import say
from labtui.doctor.checks import Check, Requirements, check_paths
from labtui.doctor.setup import SiteSetup
from labtui.domain.errors import UsageError
from labtui.domain.profile import Queue
from labtui.lab.plan import PlanOverrides, task_drafts
from labtui.session.folder import LabFolder
from labtui.session.lab_cluster import fix_check, site_words
from labtui.session.labs import check_folder, load_edition, needed_paths, requirements_of
from labtui.session.own_jobs import complete_options
from labtui.session.planning import warnings_of
from labtui.session.session import Session
from labtui.session.settings import Settings, load_profile, profile_of_host
from labtui.slurm.batch_script import read_script
from labtui.slurm.job_control import SbatchAnswer
from labtui.slurm.probe import PathFacts, PathsProbe
from tests.session.small_job import make_lab


@pytest.fixture
def folder(tmp_path: Path) -> LabFolder:
    settings = Settings(edition="hpc4ai-ch10", profile="mn5", user="me", account="nct_325")
    return LabFolder.create(tmp_path / "lab", settings)


def test_a_lab_says_on_what_it_trains(folder):
    needed = requirements_of(folder, folder.settings(), load_profile("mn5"))
    assert (needed.gpu_runs, needed.cpu_runs, needed.account) == (True, True, "nct_325")
    site = replace(load_profile("slurm"), gpu_queue="gpu", cpu_queue="main")
    for gpus, queue in enumerate(("main", "gpu")):
        script = read_script("a", f"#!/bin/bash\n#SBATCH --gres=gpu:{gpus}\n")
        given = complete_options(script, site, replace(folder.settings(), qos="mine"))
        assert (given["qos"], given["partition"]) == ("mine", queue), "where queues are partitions"
    bare = replace(load_profile("slurm"), data_dir="")
    (draft,) = task_drafts(load_edition("hpc4ai-ch10"), "10.4", bare)
    needed = requirements_of(folder, replace(folder.settings(), profile="slurm"), bare)
    assert draft.data_dir == needed.data_dir == "cifar-10-batches-py", "missed before the job"


def test_a_lab_needs_the_data_and_the_container_of_its_own_framework():
    profile = replace(load_profile("mn5"), datasets_dir="/sets")
    for edition, framework, data, images, image in (
        ("hpc4ai-ch10", "tensorflow", profile.data_dir, (), "TensorFlow"),
        ("hpc4ai-ch11", "torch", "", ("/sets/micro-224", "/sets/tiny-224"), "nvidiaPytorch"),
        ("hpc4ai-ch15", "torch", "", (), "nvidiaPytorch"), ("hpc4ai-ch4", "", "", (), ""),
    ):  # fmt: skip
        needs = requirements_of(None, Settings(edition=edition, profile="mn5"), profile)
        assert (needs.framework, needs.data_dir, needs.image_paths) == (framework, data, images)
        assert image in needs.container and bool(image) == bool(needs.container)
    wanted = Requirements(images_dir="/sets", image_sets=("micro-224", "tiny-224"))
    probe = PathsProbe(paths={"/sets/tiny-224": PathFacts(path="/sets/tiny-224", kind="dir", readable=True)})
    missing, there = (each for each in check_paths(probe, wanted, {}) if each.key == "data")
    assert (missing.status, there.status) == ("problem", "ok")
    assert "/sets/micro-224 does not" in missing.sentence and "in lab.toml" in missing.fix
    (own, *_) = (each for each in check_paths(probe, wanted, {}, own=("/sets",)) if each.key == "data")
    assert "(data_dir in cluster.toml)" in own.fix
    (no_path,) = (e for e in check_paths(probe, replace(wanted, images_dir="sets"), {}) if e.key == "data")
    assert "data_dir under [cluster] in lab.toml" in no_path.fix and "'sets'" in no_path.sentence
    nowhere = Settings(edition="", profile="", data_dir="sets")
    needed = needed_paths(None, nowhere, profile, load_edition("hpc4ai-ch11"))
    assert {"micro-224", "tiny-224"} < {*needed}, "the container alone does not tick the box of the data"


def test_the_nodes_that_init_found():
    profile = replace(load_profile("slurm"), title="hydra", gpus_per_node=1, cpus_per_node=80)
    profile = replace(profile, queues=(Queue(name="debug", max_submit_per_user=1),))
    words = site_words(SiteSetup(profile=profile, text="", unknown=(), trial=SbatchAnswer(), qos="debug"))
    assert words[0].startswith("hydra: 1 GPU and 80 CPUs a node;") and "QoS debug" in words[0]
    assert words[1] == "debug takes 1 job of yours at a time."
    cpu = SiteSetup(profile=replace(profile, gpus_per_node=0), text="", unknown=(), trial=SbatchAnswer())
    assert " a node" not in site_words(replace(cpu, profile=load_profile("slurm")))[0]
    assert "0 GPUs and 80 CPUs a node; jobs go to " in site_words(cpu)[0]
    assert "a job on the CPU" in site_words(cpu)[-1]


def test_the_password_is_announced_right_before_it_is_asked(tmp_path, monkeypatch, command):
    monkeypatch.setattr("labtui.commands.doctor._passphrase", lambda: say("New passphrase"))
    monkeypatch.setattr("labtui.doctor.setup._login", Mock(side_effect=UsageError("Wrong.")))
    said = command(["key", "--cluster", "mn5", "--identity", str(tmp_path / "key")], 2).err
    order = [said.index(words) for words in ("New passphrase", "asked for your password once more", "Wrong")]
    assert order == sorted(order)


def test_what_a_check_corrects_in_the_settings_and_a_key_that_others_can_read(folder, tmp_path):
    text = folder.settings_path.read_text().replace("[lab]", "[lab]\npractice = true")
    folder.settings_path.write_text(f"{text}\n# mine\n")
    with Session.open(folder.path, start=False) as session:
        assert not session.practice, "only the profile says that a cluster is a practice cluster"
    check = Check(key="x", title="X", status="problem", sentence="s", action="settings")
    assert "account = nct_345" in fix_check(replace(check, settings={"account": "nct_345"}), folder)
    assert folder.settings().account == "nct_345" and folder.settings().user == "me"
    assert "# mine" in folder.settings_path.read_text()
    (key := tmp_path / "id").touch(0o644)
    protect = replace(check, action="protect-key", settings={"identity": str(key)})
    assert "Only you" in fix_check(protect, folder) and key.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("host", "profile"), [
    *(("alogin1.bsc.es", "mn5"), ("me@ALOGIN1.bsc.es:22", "mn5"), ("plogin1.bsc.es", "")),
    *(("elsewhere", ""), ("", "")),
])  # fmt: skip
def test_a_known_login_host_brings_its_profile(host, profile):
    assert profile_of_host(host) == profile


@pytest.mark.cluster
def test_fix_writes_what_the_doctor_found(student, tmp_path, capsys):
    folder = make_lab(tmp_path / "lab", student, student.port, account="nct_325")
    with Session.open(folder.path) as window:
        assert main(["doctor", str(folder.path), "--fix", "--json"]) == 0, "what was written is used"
        box, *_ = check_folder(folder, window.edition, window.state)
        (warning,) = warnings_of(window, window.drafts("10.3", PlanOverrides(account=student.account)))
    assert folder.settings().account == student.account
    checks = {check["key"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert {"gpu-job", "cpu-job"} <= set(checks), "both kinds of jobs that the lab has"
    assert checks["data"]["status"] == "warning" and "do not count" in checks["data"]["fix"]
    assert warning.startswith(said := checks["data"]["sentence"]) and "may not count" in warning
    assert not box.done and box.missing == f"{said} See the doctor (D)."
