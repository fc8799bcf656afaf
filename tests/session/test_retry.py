"""A run again: what its end asks for is changed, and nothing else."""

import re

import pytest
from msgspec.structs import replace

from labtui.commands.job_files import job_line
from labtui.domain.errors import UsageError
from labtui.domain.model import Diagnosis, EpochSample, Interval, JobPhase, Outcome, RunSpec, SubmissionStatus
from labtui.lab.plan import PlanOverrides
from labtui.lab.plan_table import WORDS
from labtui.session.labs import load_edition
from labtui.session.own_jobs import batch_file, own_draft
from labtui.session.planning import retry_after
from labtui.tui.plan_model import Plan
from labtui.tui.plan_words import script, step
from tests.changes import ended as run_ended
from tests.changes import epoch, observed
from tests.session.conftest import Bench, accepted, draft, only, submitted


def ended(bench: Bench, outcome: Outcome, job=None) -> None:
    """The bench's job is over, and its run ended so."""
    token = accepted(bench, job)
    bench.session._journal.change(observed(token, "100", JobPhase.FINISHED), run_ended(1, outcome))


def test_after_a_failure_the_same_again_and_not_before(bench):
    token = accepted(bench)
    with pytest.raises(UsageError, match="not over"):
        retry_after(bench.session, 1)
    bench.session._journal.change(observed(token, "100", JobPhase.FINISHED), run_ended(1, "failed"))
    said = {"sentence": "It is refused.", "hint": "Mend it.", "status": SubmissionStatus.REFUSED}
    bench.session._journal.change(lambda state: state.with_submission(only(bench).token, job=None, **said))
    again = "It is refused. Mend it. `labtui submit 10.5` takes another --partition, --qos or --account."
    assert retry_after(bench.session, 1).sentence == again
    (draft,) = retry_after(bench.session, 1).drafts
    assert draft.runs == (bench.session.state.runs[1].spec,)
    assert (draft.gpus, draft.cpus, draft.time_limit_minutes, draft.qos) == (1, 20, 30, "acc_training")
    assert draft.job_name == "ResNet50", "the name gets a token of its own"
    found = Diagnosis(kind="traceback", line=1, text="KeyError: 1", advice="The program stopped.")
    bench.session._journal.change(run_ended(1, "failed", (found,)))
    said = f"{again} Unless ResNet50.py is corrected, it fails again: KeyError: 1"
    assert retry_after(bench.session, 1).sentence.endswith(said)
    (bench.session.folder.scripts / "ResNet50.py").write_text("import resnet_lab")
    assert retry_after(bench.session, 1).sentence.endswith(f"{again} Changed since then: ResNet50.py.")
    bench.run(20, bench.session.submit(draft).done)
    assert len(bench.session.state.submissions) == 2


def test_some_runs_of_a_job_are_a_job_with_a_name_and_form_of_their_own(bench):
    sizes = tuple(replace(draft().runs[0], n_gpus=n, batch_size=256 * n) for n in (1, 2, 4))
    token = submitted(bench, n_gpus=4, form="one-job", runs=sizes, job_name="ResNet50-1-2-4gpu")
    ends = [run_ended(1 + n, "failed") for n in range(3)]
    bench.session._journal.change(observed(token, "100", JobPhase.FINISHED), *ends)
    (again,) = retry_after(bench.session, 2).drafts
    assert (again.form, again.job_name, again.runs) == ("one-job", "ResNet50-1-2-4gpu", sizes)
    bench.session._journal.change(run_ended(1, "completed"))
    (again,) = retry_after(bench.session, 2).drafts
    assert (again.form, again.job_name, again.gpus) == ("one-job", "ResNet50-2-4gpu", 4)
    bench.session._journal.change(run_ended(3, "completed"))
    (again,) = retry_after(bench.session, 2).drafts
    assert (again.form, again.job_name, again.gpus) == ("job-per-size", "ResNet50-2gpu", 2)
    assert "--job-name=ResNet50-2gpu" in bench.session.preview(again).script


@pytest.mark.parametrize("form", ["torchrun", "task-per-gpu"])
@pytest.mark.parametrize(("outcome", "batch"), [("failed", 1024), ("cancelled", 1024), ("oom", 512)])
def test_a_training_on_two_nodes_goes_again_on_two_nodes(open_bench, outcome, batch, form):
    bench = open_bench()
    spec = RunSpec(
        model="vit", device="gpu", n_gpus=8, batch_size=1024, epochs=5, script="pytorch/train_ddp.py",
        nodes=2, launcher=form, batch_option="per-gpu", data_set="cifar10", extra_args=("--compile",),
    )  # fmt: skip
    job = draft(n_gpus=4, form=form, runs=(spec,), nodes=2, cpus=80, job_name="vit-8gpu")
    ended(bench, outcome, job)
    (again,) = retry_after(bench.session, 1).drafts
    assert (again.form, again.nodes, again.gpus, again.cpus, again.total_gpus) == (form, 2, 4, 80, 8)
    assert again.runs == (replace(spec, batch_size=batch),)
    bench.run(20, bench.session.submit(again).done)
    two = list(bench.session.state.submissions.values())[1]
    assert (two.nodes, two.gpus) == (2, 4)


def test_after_a_time_out_twice_the_time_as_far_as_the_queue_allows(bench):
    ended(bench, "time-limit")
    late = "It ran out of time after 30 min, but should need 5 at most; it may have started late."
    assert retry_after(bench.session, 1).sentence == late
    assert retry_after(bench.session, 1).drafts[0].time_limit_minutes == 60
    assert retry_after(bench.session, 1, same=True).drafts[0].time_limit_minutes == 30
    by_hand = retry_after(bench.session, 1, minutes=45)
    assert by_hand.drafts[0].time_limit_minutes == 45 and by_hand.sentence.endswith("with a limit of 45 min.")
    bench.session._journal.change(observed(only(bench).token, "100", JobPhase.FINISHED, time_limit_s=180.0))
    assert retry_after(bench.session, 1).sentence == "It ran out of time after 3 min: try 30 min."
    bench.session._journal.change(observed(only(bench).token, "100", JobPhase.FINISHED))
    queues = tuple(replace(each, max_minutes=30) for each in bench.session.profile.queues)
    bench.session.profile = replace(bench.session.profile, queues=queues)
    assert retry_after(bench.session, 1).sentence == late
    bench.session.edition = replace(bench.session.edition, published=())
    proposal = retry_after(bench.session, 1)
    assert "queue allows no more than 30 min" in proposal.sentence
    assert [each.time_limit_minutes for each in proposal.drafts] == [30]
    with pytest.raises(UsageError, match="31 min is more than the 30 min that acc_debug allows"):
        bench.session.drafts("10.5", PlanOverrides(time_limit_minutes=31))
    with pytest.raises(UsageError, match="31 min is more than the 30 min that acc_"):
        retry_after(bench.session, 1, minutes=31)
    plan = Plan(bench.session, bench.session.edition, "10.5", bench.session.drafts("10.5"))
    assert "at most 30 min" in plan.refusal(0, "limit", "31")


def test_a_limit_shorter_than_the_run_should_take_is_found_and_twice_it_is_not_enough(bench):
    job = draft(time_limit_minutes=1)
    found = bench.session.preview(job)
    inside = bench.session.preview(draft(time_limit_minutes=int(found.seconds.hi // 60)))
    for one in (found, inside):
        (effect,) = (each.effect for each in one.findings if each.rule == "short-limit")
        (span,) = re.findall("take (.*); Slurm", effect)
        assert f"expected {span}, " in job_line(one, {})
    ended(bench, "time-limit", job)
    (again,) = retry_after(bench.session, 1).drafts
    assert again.time_limit_minutes > found.seconds.hi / 60
    bench.session.edition = load_edition("sa-miri-2021-ex12")
    meant = bench.session.preview(bench.session.drafts("4")[0])
    assert meant.seconds.contains(300) and "short-limit" not in {each.rule for each in meant.findings}


def test_more_time_for_an_own_job_is_as_much_as_its_check_expects(bench):
    path = bench.session.folder.slurm / "own.slurm"
    path.write_text("#!/bin/bash\n#SBATCH -t 1 --gres=gpu:1\npython mine.py --batch_size 64 --n_gpus 1\n")
    ended(bench, "time-limit", own_draft(bench.session, path, answers={"epochs": 20}))
    for number in (1, 2, 3):
        bench.session._journal.change(epoch(1, EpochSample(epoch=number, seconds=Interval.exact(6.0))))
    preview = bench.session.preview(*retry_after(bench.session, 1).drafts)
    assert "short-limit" not in {each.rule for each in preview.findings} and preview.seconds is not None


def test_after_out_of_memory_half_the_batch_unless_the_nodes_memory_was_used_up(bench):
    ended(bench, "oom")
    again = [run for each in retry_after(bench.session, 1).drafts for run in each.runs]
    before = bench.session.state.runs[1].spec
    assert [(run.n_gpus, run.batch_size) for run in again] == [(n, 128 * n) for n in (1, 2, 4)]
    assert bench.session.state.runs[1].cause == "out of memory"
    assert retry_after(bench.session, 1, same=True).drafts[0].runs == (before,)
    found = Diagnosis(kind="host-memory", line=1, text="Killed", advice="More CPUs.")
    bench.session._journal.change(run_ended(1, "oom", (found,)))
    proposal = retry_after(bench.session, 1)
    assert bench.session.state.runs[1].cause == "node memory" and proposal.drafts[0].runs == (before,)
    assert "may run out of memory again. Raise --cpus-per-task, as memory comes" in proposal.sentence
    bench.session.profile = replace(bench.session.profile, cpus_per_node=80)
    bench.session._journal.change(lambda state: state.with_submission(only(bench).token, cpus=80))
    (full,) = retry_after(bench.session, 1).drafts
    said = retry_after(bench.session, 1).sentence
    assert full.cpus == 80 and "all CPUs of a node: keep fewer" in said
    plan = Plan(bench.session, bench.session.edition, "10.5", (full,), said)
    plan.remake()
    plan.previews = plan.make_previews()
    assert step(plan).label == "Edit the job" and step(plan).reason.endswith("again. s submits it unchanged.")
    plan.scripts[full] = "edited"
    assert step(plan).label == "Submit 1 job"
    plan.scripts.clear()
    script = bench.session.folder.scripts / "ResNet50.py"
    script.write_text(script.read_text() + "# fewer images")
    plan.remake()
    assert step(plan).label == "Submit 1 job"


def test_a_students_own_file_goes_again_as_it_was_sent(bench):
    path = bench.session.folder.slurm / "own.slurm"
    head = "#!/bin/bash\n#SBATCH -A nct_999 -q acc_training -t 10 --gres=gpu:1\n"
    path.write_text(f"{head}python mine.py --batch_size 64 --n_gpus 1\n")
    draft = own_draft(bench.session, path, answers={"epochs": 400})
    ended(bench, "time-limit", draft)
    path.write_text("changed since")
    (again,) = retry_after(bench.session, 1).drafts
    assert again.options == ("--time=4800",), "400 epochs, none of which ended within 10 min"
    bench.session._journal.change(epoch(1, EpochSample(epoch=1, seconds=Interval.exact(6.0))))
    (paced,) = retry_after(bench.session, 1).drafts
    assert paced.options == ("--time=48",), "400 epochs of 6 s, and a fifth more"
    assert (again.runs, again.job_name) == (draft.runs, "own.slurm") and {*draft.beside} <= {*again.beside}
    plan = Plan(bench.session, bench.session.edition, "10.5", (paced,))
    for column in WORDS.keys() - {"limit"}:
        with pytest.raises(UsageError, match="your job file"):
            plan.cell_name(0, column)
    plan.task_rows = plan.with_cell(0, "limit", "3")
    plan.remake()
    bench.run(20, bench.session.submit(*plan.drafts).done)
    plan.previews = plan.make_previews()
    assert "# sbatch gets --time=3, whatever the script says.\n\n#!/bin/bash" in script(plan, 0).plain
    assert (plan.requests[0].time_limit_minutes, bench.cluster.options["101"]) == (3, ("--time=3",))
    assert batch_file(replace(draft.runs[0], arguments=("--epochs", "4")), "own.slurm") == "mine.py"
    bench.session._journal.change(run_ended(1, "oom"))
    with pytest.raises(UsageError, match="is set in own"):
        retry_after(bench.session, 1)
    found = Diagnosis(kind="missing-module", line=1, text="No module named 'x'", advice="Install it.")
    refused = {"job": None, "sentence": "No."}
    bench.session._journal.change(run_ended(1, "failed", (found,)))
    bench.session._journal.change(lambda state: state.with_submission(state.runs[1].token, **refused))
    said = retry_after(bench.session, 1).sentence
    assert said.startswith("No. own.slurm goes as it was sent;") and said.endswith(": No module named 'x'")
    path.write_bytes(dict(draft.beside)["own.slurm"])
    assert "as it was sent" not in retry_after(bench.session, 1).sentence
    plan = Plan(bench.session, bench.session.edition, "10.5", retry_after(bench.session, 1).drafts)
    plan.remake()
    plan.previews = plan.make_previews()
    (wrong,) = (each for each in plan.findings if each.finding.rule == "account")
    assert "+#SBATCH -A nct_000" in plan.difference(wrong)
    plan.make_fix(wrong)
    ((job, text),) = plan.scripts.items()
    plan.scripts[job] = text.replace("-t 10", "-t 5").replace("--n_gpus", "--epochs 4 --n_gpus")
    plan.previews = plan.make_previews()
    bench.settled(bench.session.submit(job, script=plan.scripts[job]), 20)
    for told in (plan.requests[0], list(bench.session.state.submissions.values())[-1]):
        assert (told.account, told.time_limit_minutes, told.runs[0].epochs) == ("nct_000", 5, 4)


@pytest.mark.parametrize("output", ["%x-%N.%j.out", "/dev/null"])
def test_a_run_without_a_log_ends_with_its_job(bench, output):
    path = bench.path / "slurm" / "own.slurm"
    path.write_text(f"#!/bin/bash\n#SBATCH --time=10 --output={output}\npython mine.py --epochs 2\n")
    submitted(bench, own_draft(bench.session, path))
    bench.settled(bench.session.cancel(1), 60)
    bench.cluster.end("100", "CANCELLED")
    bench.run(300)
    assert bench.session.state.runs[1].outcome == "cancelled" and retry_after(bench.session, 1).drafts


def test_a_job_file_with_windows_line_endings_is_sent_with_unix_ones(bench):
    path = bench.path / "slurm" / "mine.slurm"
    path.write_bytes(b"\xef\xbb\xbf#!/bin/bash\r\n#SBATCH --time=10\r\nbash help.sh\r\npython train.py\r\n")
    (bench.path / "slurm" / "help.sh").write_bytes(b"true\r\n")
    (bench.path / "slurm" / "train.py").write_bytes(b"print(1)\r\n")
    sent = bench.session.files_of(submitted(bench, own_draft(bench.session, path)))
    assert not any({b"\r"[0], 0xEF} & {*sent[name]} for name in ("job.slurm", "mine.slurm", "help.sh"))
    assert sent["train.py"] == b"print(1)\r\n" and b"\r" in path.read_bytes()
