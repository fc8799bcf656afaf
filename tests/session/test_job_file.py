"""What a job file that labtui did not render says of its logs and runs."""

import pytest
from msgspec.structs import replace

from labtui.domain.errors import UsageError
from labtui.domain.model import JobPhase, JobView
from labtui.lab.expected_time import run_seconds
from labtui.preflight import ScriptContext, preflight
from labtui.session.labs import load_edition
from labtui.session.mirrors import segments_on_disk
from labtui.session.own_jobs import job_file_draft, log_folders, own_draft, own_files, with_files_beside
from labtui.session.planning import logs_of, retry_after
from labtui.session.settings import load_profile
from labtui.training_logs.reader import parse_log
from tests.preflight.test_rules import CORPUS
from tests.session.conftest import accepted, only
from tests.session.scripted import keras_log

HEAD = "#!/bin/bash\n#SBATCH -A nct_345 -q acc_debug -t 00:30:00 -c 80 --gres=gpu:4\n"
MN5 = load_profile("mn5")
COMMAND = "python ResNet50.py --epochs 2 --batch_size 64 --n_gpus 2\n"
OWN = HEAD.replace("acc_debug", "acc_training") + "#SBATCH -o %x.%j.out\n{}\n"


@pytest.mark.parametrize(("directives", "logs"), [
    ("", {"out": "slurm-%j.out"}),
    ("#SBATCH -o a.%j -e a.%j\n", {"out": "a.%j"}),
    ("#SBATCH -o %x.%j.out -e /logs/%u/%N.err\n", {"out": "%x.%j.out", "err": "/logs/%u/%N.err"}),
    ("#SBATCH -D /gpfs/here -o out/%j.log -e /dev/null\n", {"out": "/gpfs/here/out/%j.log"}),
    ("#SBATCH -D ./sub -o %j.log\n", {"out": "sub/%j.log"}),
])  # fmt: skip
def test_logs(directives, logs):
    draft = job_file_draft("a.slurm", HEAD + directives + "true\n")
    assert dict(draft.log_patterns) == logs
    found = logs_of(replace(draft, log_patterns=(("out", "a%%u-%u"),)), "/r%u", user="me")
    assert found == {"out": "/r%%u/a%%u-me"}


@pytest.mark.parametrize(("directives", "copies"), [
    ("#SBATCH --output=mine-%j.out\n", ["logs/mine-7.out", "logs/mine-7.restart2.out"]),
    ("#SBATCH -o logs/%x.%A -e logs/%x.%A.err\n", ["logs/a.7", "logs/a.restart2.7", "logs/a.7.err"]),
    ("#SBATCH -o out/%j.txt -e err/%j.txt\n", ["logs/a.7.out", "logs/a.7.restart2.out", "logs/a.7.err"]),
    ("#SBATCH -o train.out\n", ["logs/a.7.out"]),
    ("#SBATCH -o %N-%j.out\n", ["logs/a.7.out"]),
])  # fmt: skip
def test_copies_of_logs_have_the_names_that_the_file_gives(bench, directives, copies):
    """Where these tell the jobs and the streams apart."""
    path = bench.path / "a"
    path.write_text(HEAD + directives + "true\n")
    bench.session.submit(own_draft(bench.session, path))
    bench.run(20, lambda: bool(bench.cluster.jobs))
    item = replace(only(bench), job=JobView(job_id="7", phase=JobPhase.RUNNING))
    segments = [item.mirror("out", number) for number in (0, 2)]
    for name in segments:
        (bench.path / name).touch()
    assert segments_on_disk(bench.session.folder, item, "out") == [0, 2]
    assert {*copies} <= {*segments, item.mirror("err")}


@pytest.mark.parametrize(("text", "answers", "says"), [
    (f"{HEAD}#SBATCH --array=1-4\ntrue\n", {}, "is a job array"),
    (f"{HEAD}#SBATCH hetjob\n#SBATCH -n 1\ntrue\n", {}, "is a heterogeneous job"),
    ("#!/bin/bash\n#SBATCH --gres=gpu:1\npython a.py\n", {"n_gpus": 2}, r"a\.slurm asks for 1 GPU, not for 2"),
    (HEAD + COMMAND, {"epochs": 3}, r"The command in a\.slurm already sets the epochs: 2"),
    (HEAD + COMMAND, {"batch_size": 64}, r"already sets the batch: 64 on 2 GPUs, 32 on each, not 64"),
    (HEAD + "for n in 1 2; do python a.py -b 9 --n_gpus $n; done", {"batch_size": 8}, "batch: 9 on 1 GPU, not 8"),
])  # fmt: skip
def test_what_is_refused(text, answers, says):
    with pytest.raises(UsageError, match=says):
        job_file_draft("a.slurm", text, answers=answers)


@pytest.mark.parametrize("task_id", ["", "10.5"])
def test_a_python_file_is_no_job_file(bench, tmp_path, task_id):
    with pytest.raises(UsageError, match=r"train\.py is a training script") as caught:
        own_draft(bench.session, tmp_path / "train.py", task_id=task_id)
    assert "job file that starts it" in caught.value.hint


def test_options_of_the_command_line_go_first_and_slurm_makes_no_folders():
    text = HEAD + "#SBATCH -o ./results/%j.out -e ../up/%j.err\n"
    assert log_folders(job_file_draft("a.slurm", text)) == ("results",)
    context = ScriptContext({"a": text.encode()}, None, MN5, "nct_345", main="a", makes_folders=True)
    assert [f.text for f in preflight(context) if f.rule == "output-folder"] == [text.splitlines()[2]]
    draft = job_file_draft("a.slurm", HEAD, given={"account": "other", "time": "0:06:30"})
    assert (draft.account, draft.time_limit_minutes, draft.qos, draft.cpus) == ("other", 7, "acc_debug", 80)
    assert draft.options == ("--account=other", "--time=0:06:30")
    whole = job_file_draft("a.slurm", HEAD.replace("-c 80", "--exclusive"))
    assert whole.cpus == 0, "how many a whole node has is not known"


def test_loops_launchers_and_containers_are_seen_through_and_a_printed_command_is_no_run():
    ladder = job_file_draft("ladder.slurm", (CORPUS / "ladder-in-a-loop.slurm").read_text())
    assert [(run.n_gpus, run.batch_size) for run in ladder.runs] == [(1, 2048), (2, 4096), (4, 8192)]
    assert not any(run.unknown for run in ladder.runs)
    assert replace(ladder.runs[0], extra_args=("--jit_compile",)).tuning == (("compile", "true"),)
    (ddp,) = job_file_draft("ddp.slurm", (CORPUS / "ddp-two-nodes.slurm").read_text()).runs
    assert (ddp.n_gpus, ddp.batch_size, ddp.epochs) == (8, 8 * 128, 5)
    sweep = job_file_draft("sweep.slurm", (CORPUS / "batch-sweep.slurm").read_text())
    assert [(run.model, run.n_gpus, run.batch_size, run.epochs) for run in sweep.runs] == [
        ("vit", 1, size, 5) for size in (16, 32, 64, 128)
    ]
    text = (CORPUS / "tokens-four-nodes.slurm").read_text()
    (run,) = job_file_draft("tokens.slurm", text).runs
    assert (run.script, run.n_gpus) == ("benchmark.py", 16)
    assert _rules(text) == set() and _rules(text.replace("    --nv \\\n", "")) == {"no-nv"}


def _rules(text: str) -> set[str]:
    """What the rules about commands find in a job file of MareNostrum 5 that runs benchmark.py."""
    files = {"a.slurm": text.encode(), "benchmark.py": b"import torch\n"}
    context = ScriptContext(files, None, MN5, "nct_345", main="a.slurm", makes_folders=True)
    return {item.rule for item in preflight(context)}


def test_helpers_are_no_runs_and_what_the_text_does_not_tell_is_unknown_until_it_is_answered():
    text = HEAD + "python $SCRIPT\npython train.py\n"
    (run,) = job_file_draft("a.slurm", text).runs
    assert set(run.unknown) == {"model", "n_gpus", "batch_size", "epochs"}
    (run,) = job_file_draft("a.slurm", text, answers={"model": "ViT", "n_gpus": 4, "epochs": 3}).runs
    assert (run.model, run.n_gpus, run.epochs, run.unknown) == ("ViT", 4, 3, ("batch_size",))
    as_planned = replace(run, model="ResNet50", n_gpus=1)
    assert run_seconds(as_planned, load_edition("hpc4ai-ch10"), ()) is None, "its batch is not known"
    assert len(job_file_draft("a.slurm", f"{HEAD}python preprocess.py --out x\n{COMMAND}").runs) == 1
    (run,) = job_file_draft("a.slurm", HEAD + "make run\n").runs
    assert run.script == "" and run.label == "run" and run.devices == ""
    (run,) = job_file_draft("a", "#!/bin/bash\npython ResNet50_seq.py --epochs 2 --batch_size 256\n").runs
    assert (run.device, run.n_gpus, run.unknown) == ("cpu", 0, ())
    (run,) = job_file_draft("a.slurm", "#!/bin/bash\npython train.py\n", answers={"model": "My Net"}).runs
    assert (run.device, run.devices) == ("cpu", ""), "it may find GPUs that its job did not ask for"


def test_the_script_in_a_folder_is_sent_there_and_its_options_are_checked(tmp_path):
    (tmp_path / "src" / "lib").mkdir(parents=True)
    text = f"import argparse, net\nparser.add_argument('--lr')\nload('data/x.npz', 'big', '{'x' * 999}', 'lib')\n"
    (tmp_path / "src" / "train.py").write_text(text)
    (tmp_path / "data").mkdir()
    small = ("src/net.py", "src/lib/a.py", "data/x.npz", "data/y.csv", "data/z", "src/w.csv", "words")
    for name, size in (dict.fromkeys(small, 0) | {"big": 17 << 20}).items():
        (tmp_path / name).write_bytes(bytes(size))
    commands = "cp words /tmp; DATA=data/y.csv\ncd src && python3 train.py --rate 0.1 w.csv ../data/z\n"
    (path := tmp_path / "a.slurm").write_text(HEAD + commands)
    files, large = with_files_beside(path)
    assert files.keys() == {"a.slurm", "src/train.py", *small}
    (tmp_path / "inner.sh").write_text(commands)
    (tmp_path / "src" / "inner").write_text("#!/bin/bash\n../inner.sh\n./inner.sh\n")
    (nested := tmp_path / "b.slurm").write_text(HEAD + "bash src/inner\n")
    assert with_files_beside(nested)[0].keys() == {"b.slurm", "src/inner", "inner.sh", *files} - {"a.slurm"}
    found = preflight(ScriptContext(files, None, MN5, "nct_345", main="a.slurm", left_out=large))
    assert "big is too large to be sent (18 MB): copy it" in "".join(f.effect for f in found)
    assert "src/train.py has no option --rate" in next(f.effect for f in found if f.rule == "script-option")
    (tmp_path / "src" / "train.py").unlink()
    for scripts, advice in (({}, "put it into"), ({"train.py": b""}, "Put it into")):
        files = with_files_beside(path)[0] | scripts
        found = preflight(ScriptContext(files, None, MN5, "nct_345", main="a.slurm"))
        said = next(f.effect for f in found if f.rule == "script-missing")
        assert f"{advice} src/ in the job file's folder or in scripts/" in said


def run_own(bench, command, log, state="COMPLETED", **answers):
    """The first run of a job file with this command, which ended and left this log."""
    (path := bench.path / "mystery.slurm").write_text(OWN.format(command))
    accepted(bench, own_draft(bench.session, path, answers=answers))
    bench.cluster.write("100", log)
    bench.cluster.end("100", state)
    bench.run(200, lambda: bench.session.state.runs[1].outcome is not None)
    return bench.session.state.runs[1]


def test_the_batch_of_an_own_script_on_several_gpus_is_what_its_log_or_the_student_says(bench):
    command = "for n in 1 2; do python my.py --epochs 2 --batch-size 128 --n_gpus $n; done"
    text, log = OWN.format(command), ""
    for n in (1, 2):
        log += f"Model: my, GPUs: {n} world_size={n}\nGlobal batch size: {128 * n}\n"
        log += "".join(f"Epoch [{epoch}/2] Loss: 1.0 Time: {8 / n:.2f}s\n" for epoch in (1, 2))
    answered = job_file_draft("a", text, answers={"batch_size": 128}).runs
    assert [run.batch_size for run in answered] == [128, 256]
    (run,) = job_file_draft("a", HEAD + COMMAND, answers={"batch_size": 32}).runs
    assert run.batch_size == 64, "the batch of each GPU is as the command has it"
    run_own(bench, command, log.encode())
    found = [(run.outcome, run.spec.batch_size) for run in bench.session.state.runs.values()]
    assert found == [("completed", 128), ("completed", 256)], "not one that never started and one of its own"
    assert [row.speedup.value for row in bench.session.results().rows] == [1, 2]


def test_the_student_names_the_model_whatever_script_and_log_call_it(bench):
    command = "python train_net.py --lr 0.1 --base 4 --batch 128 --epochs 3 --n_gpus 2"
    log = f"+ {command}\n".encode() + keras_log(5, 4, 4, head=False, total=3)
    run = run_own(bench, f"{command} > my.log", log * 2, model="My Net")
    assert run.spec.arguments == tuple(command.split()[2:])
    assert (run.spec.model, run.outcome, len(run.epochs)) == ("My Net", "completed", 3)
    models = {row.configuration.tuning: row.model for row in bench.session.results().rows}
    assert models == {(("script", "train_net.py"), ("base", "4")): "My Net", (): "My Net"}
    two = OWN.format(f"{command}\n{command.replace('train_net', 'resnet50')}")
    with pytest.raises(UsageError, match=r"already sets the model: train_net"):
        job_file_draft("a.slurm", two, answers={"model": "My Net"})


@pytest.mark.parametrize(("output", "folder"), [("../o/%j.log", "o"), ("../%j/x", "100"), ("o/%j/x", "")])
def test_a_job_without_a_log_names_the_folder_that_labtui_did_not_make(bench, output, folder):
    (found,) = run_own(bench, f"#SBATCH -o {output}\ntrue", b"", "FAILED").diagnosis
    there = only(bench).remote_dir
    expected = f"{there.rpartition('/')[0]}/{folder}" if folder else f"{there}/o/100"
    assert found.text == f"Job 100 left no log in {expected}/."


def test_a_job_that_printed_what_is_not_read_did_start(bench):
    run = run_own(bench, "python train.py --batch 9 --epochs 3", b"Epoch 1/3: loss=1.000 acc=3% (2.0s)\n")
    assert (run.cause, run.started, run.epochs) == ("done", True, ())


def test_a_log_that_plans_other_epochs_than_the_command_is_one_run_of_those(bench):
    for last in (3, 5):
        log = b"".join(b"Epoch %d/3 - loss: 1.00 - time: 1.20s\n" % number for number in range(1, last + 1))
        assert [len(run.epochs) for run in parse_log(log).runs] == [last]
    run = run_own(bench, "python hand.py --batch 9 --epochs 10 --n_gpus 2", log)
    assert run.outcome == "completed" and len(run.epochs) == run.spec.epochs == 5
    assert bench.session.state.last_run == 1


def test_a_file_with_the_name_of_labtui_s_own_script_is_called_as_the_student_calls_it(bench):
    text = HEAD.replace("#!/bin/bash\n", "#!/bin/bash\n#SBATCH --nonsense=1\n") + "true\n"
    (path := bench.path / "job.slurm").write_text(text)
    draft = own_draft(bench.session, path)
    with pytest.raises(UsageError, match="has no task"):
        own_draft(bench.session, path, task_id="99.9")
    preview = bench.session.preview(draft)
    assert preview.script == text and {found.file for found in preview.findings} == {"job.slurm"}
    sent = bench.session.files_of(accepted(bench, draft))
    assert sent["own-job.slurm"] == text.encode() and b"/own-job.slurm" in sent["job.slurm"]
    path.write_text("#!/bin/bash\npython train.py\n")
    bench.session.profile = replace(MN5, gpus_per_node=0)
    assert own_draft(bench.session, path).runs[0].devices == "CPU"
    bench.cluster.end("100", "FAILED")
    bench.run(200, lambda: bench.session.state.runs[1].outcome is not None)
    (again,) = retry_after(bench.session, 1).drafts
    assert own_files(draft, None).items() <= own_files(again, None).items()


def test_what_the_text_does_not_tell_is_read_from_the_log(bench):
    banner = b" Model ResNet152 2 GPUs \nBatch_size: 512\n"
    run = run_own(bench, "bash steps.sh", banner + keras_log(5, 4, 4, head=False, total=3))
    assert (run.spec.model, run.spec.n_gpus, run.spec.epochs, run.spec.unknown) == ("ResNet152", 2, 3, ())
    assert len(run.epochs) == 3 and run.outcome == "completed"


@pytest.mark.parametrize("command", ["srun python -u s/keras_mlp.py", "python keras_mlp.py --epochs 3"])
def test_with_or_without_options_a_script_gives_its_model_the_name(bench, command):
    assert run_own(bench, command, keras_log(5, 4, 4, head=False, total=3)).spec.model == "keras_mlp"
    assert [row.model for row in bench.session.results().rows] == ["keras_mlp"]


@pytest.mark.parametrize("where", ["--n_gpus 1", "--device cpu"])
def test_a_script_of_the_students_own_takes_the_time_of_the_same_command(bench, where):
    """Its batch and its epochs, too, where the file leaves them open."""
    log = b"".join(b"Epoch %d/3 - loss: 1.00 - time: 90.00s\n" % number for number in (1, 2, 3))
    run_own(bench, f"python mine.py --base 1 {where}", log)
    path, on_gpu = bench.path / "mystery.slurm", "cpu" not in where
    for command, cpus, known in (
        ("mine.py --base 1", 80, True), ("mine.py --base 1", 8, on_gpu), ("mine.py --base 2", 80, False),
        ("mine.py --base 1 --epochs 3 --lr 9", 80, True), ("mine.py --base 1 -v", 80, False),
        ("b.py --base 1", 80, False),
    ):  # fmt: skip
        path.write_text(OWN.format(f"python {command} {where}").replace("-c 80", f"-c {cpus}"))
        made = bench.session.preview(own_draft(bench.session, path, given={"time": "2"}))
        found = made.seconds and made.seconds.value, "short-limit" in {each.rule for each in made.findings}
        assert found == ((20 + 3 * 90, True) if known else (None, False))
