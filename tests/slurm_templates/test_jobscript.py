"""Rendered job scripts: as agreed (golden files), and accepted by bash and shellcheck."""

import re
import shlex
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from labtui.domain.errors import TemplateError
from labtui.domain.profile import Launch
from labtui.session.folder import FORMS, list_remote, read_remote, read_template
from labtui.slurm import job_script as js
from labtui.slurm.script_commands import open_quote
from labtui.slurm.submit import CONTROL_DIR, DUPLICATE_STATUS
from labtui.slurm.values import duration_text
from labtui.training_logs.reader import parse_log
from labtui.training_logs.run_headers import read_job_header
from tests.slurm_templates.samples import CONTEXT, GOLDEN, PLAIN, PROFILE, draft, rendered, run


def directives(script: str) -> dict[str, str]:
    """The #SBATCH options of a script."""
    found = re.findall(r"^#SBATCH --([a-z-]+)=(.*)$", script, re.MULTILINE)
    return dict(found)


@pytest.mark.parametrize("form", FORMS)
def test_golden(form):
    """If a template is meant to change, ``python -m tests.slurm_templates.samples`` rewrites them."""
    assert rendered(form) == (GOLDEN / f"{form}.slurm").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck here")
def test_shellcheck_finds_nothing():
    done = subprocess.run(["shellcheck", *map(str, GOLDEN.iterdir())], capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode()


def test_queues_that_are_partitions():
    profile = replace(PLAIN, queue_option="partition")
    found = directives(rendered("one-gpu", profile, account="", qos="", partition="gpusmall"))
    assert found["partition"] == "gpusmall"
    assert not found.keys() & {"qos", "account", "reservation", "mem"}
    more = {"qos": "acc_debug", "partition": "gpusmall", "reservation": "lab_day"}
    found = directives(rendered("one-gpu", profile, **more))
    assert {name: found[name] for name in more} == more


def test_commands_with_more_to_say():
    plan = draft("one-gpu")
    spec = run(1, learning_rate=0.05, extra_args=("--device", "cpu", "--images", "64"))
    words = js.training_command(spec, plan, PLAIN, CONTEXT)
    assert words[:3] == ("python", "-u", "ResNet50.py")
    assert words[-6:] == ("--learning_rate", "0.05", "--device", "cpu", "--images", "64")
    on_cpu = replace(run(0), script="ResNet50.py")
    assert js.training_command(on_cpu, draft("cpu"), PLAIN, CONTEXT)[-2:] == ("--device", "cpu")


def test_setup_lines_of_a_profile():
    launch = Launch(
        modules=("intel", "python/3.11 gcc"), setup=("source venv/bin/activate",),
        env={"A_B": "x y", "C": "{account}"},
    )  # fmt: skip
    script = rendered("cpu", replace(PLAIN, launch=launch), data_dir="/data/{account}/c 10")
    lines = script.splitlines()
    start = lines.index("module purge")
    assert lines[start : start + 7] == [
        *("module purge", "module load intel", "module load 'python/3.11 gcc'"),
        *("source venv/bin/activate", "export A_B='x y'", "export C=nct_345"),
        "export CIFAR10_DATA='/data/nct_345/c 10'",
    ]
    assert "module" not in rendered("cpu", PLAIN)


@pytest.mark.parametrize(("minutes", "text"), [(1, "00:01:00"), (75, "01:15:00"), (2910, "2-00:30:00")])
def test_time(minutes, text):
    assert duration_text(60 * minutes) == text


@pytest.mark.parametrize(("field", "value"), [
    *(("job_name", name) for name in ("two words", "a/b", "%j", "-x", "x" * 200)),
    *(("runs", ()), ("cpus", 0), ("time_limit_minutes", 0), ("account", "<account>")),
    *(("qos", "acc debug"), ("reservation", "x;y"), ("container", "/images/{user}.sif")),
])  # fmt: skip
def test_what_cannot_be_a_job_is_refused(field, value):
    with pytest.raises(TemplateError) as caught:
        rendered("one-job", **{field: value})
    assert str(caught.value).endswith(".")


def test_user_in_paths():
    context = js.JobContext(token="t", edition="e", practice=True, user="nct01345")
    script = js.job_script(draft("cpu", container="/home/{user}/x.sif"), PLAIN, context, read_template("cpu"))
    assert "singularity exec /home/nct01345/x.sif python -u" in script and "practice=yes;" in script


def test_images_lie_in_a_folder_of_the_cluster_and_torchrun_comes_from_the_named_python():
    """On a cluster that `init` described: one data folder, and a Python by its path."""
    found = replace(PLAIN, data_dir="/data", launch=Launch(python="/env/bin/python"))
    script = rendered("torchrun", found, data_dir="")
    assert '/env/bin/python -m torch.distributed.run "${meeting[@]}" pytorch/train_ddp.py' in script
    assert "--dataset /data/tiny-224 " in script
    for folder in ("", "~/data", "data"):
        with pytest.raises(TemplateError, match="folder that holds tiny-224"):
            rendered("torchrun", replace(PLAIN, data_dir=folder), data_dir="")


@pytest.mark.parametrize("path", ["data set/cifar", "~/data set/cifar"])
def test_a_relative_data_folder_starts_at_home(path):
    """Not in the job's directory, which is new for each job and never holds data."""
    assert "export CIFAR10_DATA=\"$HOME\"/'data set/cifar'\n" in rendered("cpu", PLAIN, data_dir=path)


@pytest.mark.parametrize(("form", "option", "given"), [
    *(("torchrun", "global", 1024), ("torchrun", "per-node", 512), ("torchrun", "per-task", 128)),
    *(("task-per-gpu", "per-gpu", 128), ("task-per-gpu", "per-node", 512)),
    *(("srun-python", "per-task", 512), ("srun-python", "per-gpu", 128), ("srun-python", "global", 1024)),
])  # fmt: skip
def test_a_scripts_batch_option_is_given_its_share_and_read_back_as_the_global_batch(form, option, given):
    plan = draft(form)
    spec = replace(plan.runs[0], batch_size=1024, batch_option=option)
    words = js.training_command(spec, replace(plan, runs=(spec,)), PROFILE, CONTEXT)
    assert words[words.index("--batch_size") + 1] == str(given)
    command = " ".join(words).replace("torchrun", "torchrun --nnodes=2 --nproc_per_node=4")
    start = "srun env RANK=0 --nodes=2 --ntasks-per-node=4" if form == "task-per-gpu" else "srun"
    header = js.run_facts(1, spec).removeprefix("say run-1 ").strip("'")
    ranks = "\n".join(f"Epoch {n}/5\n25/25 - 9s - loss: 2.0" for n in range(1, 6))
    log = f"---- labtui job ----\nrun-1:     {header}\n\n+ {start} {command}\n{ranks}\n"
    (read,) = parse_log(log.encode()).runs
    assert (read.n_gpus, read.batch_size) == (8, 1024)
    assert not read.contradictions and read.batch_per_gpu in (128, None)
    other = log.replace(f"--batch_size {given}", f"--batch_size {given // 2}")
    assert parse_log(other.encode()).runs[0].batch_size == 512, "what was trained, not what was planned"
    facts = js.run_facts(1, replace(spec, extra_args=("--lr_policy", "a b,c%20")))
    (said,) = read_job_header(f"run-1: {shlex.split(facts)[2]}")
    assert said.facts.tuning == (("lr_policy", "a b,c%20"),)


def test_values_by_place():
    template = "#SBATCH --job-name=@{name}\n# for @{name}\necho @{name}\n@{more_lines}\n  @{no_lines}\nend"
    text = js.render(template, {"name": "a.b", "more_lines": "one\ntwo\n", "no_lines": ""})
    assert text == "#SBATCH --job-name=a.b\n# for a.b\necho a.b\none\ntwo\nend"
    code = '"$@" ${list[@]} ${1:-x} $name $(date) a@b.c %x.%j {"k": 1} $$'
    assert js.render(code, {}) == code, "the shell's own words are left alone"
    with pytest.raises(TemplateError, match=r"unknown placeholder @\{cpu\}"):
        js.render("srun -c @{cpu}", {"cpus": "20"})


@pytest.mark.parametrize(("line", "value"), [
    *(("#SBATCH -J @{x}", each) for each in ("a b", "a;b", "$(date)", "a'b", 'a"b', "a`b`", "a\\b", "", "<account>")),
    *(("#SBATCH -J @{x}", "ä"), ("#SBATCH -J @{x}", "#x"), ("#SBATCH -J @{x}", "a#b")),
    *((line, each) for line in ("#SBATCH -J @{x}", "# @{x}", "echo @{x}")
      for each in ("a\nb", "a\rb", "a\0b", "\x1b[31m", "a\u2028b", "\u200b", "\xa0")),
])  # fmt: skip
def test_directives_take_plain_words_and_no_line_takes_control_characters(line, value):
    with pytest.raises(TemplateError):
        js.render(line, {"x": value})


@given(st.text().filter(str.isprintable))
def test_a_value_in_code_is_one_word(value):
    line = js.render("say @{x} after", {"x": value})
    assert shlex.split(line, comments=True) == ["say", value, "after"]


def test_remote_holds_the_scripts_and_nothing_else():
    names = list_remote()
    assert {"ResNet50.py", "ResNet152_seq.py", "resnet_lab.py", "cifar-utils/cifar.py"} <= set(names)
    assert all(name.endswith(".py") or name.startswith(("pi/", "jacobi/")) for name in names)
    assert b"def load_cifar" in read_remote("cifar-utils/cifar.py")


@pytest.mark.parametrize("form", FORMS)
def test_a_template_for_every_form(form):
    """Every placeholder stands outside quotes, where a quoted value is one word."""
    lines = read_template(form).split("\n")
    assert lines[0] == "#!/bin/bash"
    for line in (line for line in lines if not line.startswith("#")):
        assert not any(open_quote(line[: place.start()]) for place in js.PLACEHOLDER.finditer(line)), line
        assert "@{" not in js.PLACEHOLDER.sub("", line)


def test_the_guard_of_a_second_job_ends_as_the_readers_expect():
    assert all(p in js.STARTED_GUARD for p in (f"exit {DUPLICATE_STATUS}\n", f" {CONTROL_DIR}/started/job "))
