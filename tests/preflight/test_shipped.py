"""What comes with labtui has no finding: every kind of planned job of every edition, on every profile."""

import pytest

from labtui.lab.expected_time import time_and_cost
from labtui.lab.plan import PlanOverrides, task_drafts
from labtui.session.folder import list_remote, read_remote, read_template
from labtui.session.labs import list_editions, load_edition
from labtui.session.settings import load_profile
from labtui.slurm.job_script import JobContext, job_script
from tests.preflight.cases import preflight

FILES = {name: read_remote(name) for name in list_remote()}
EDITIONS = [load_edition(entry.id) for entry in list_editions()]


@pytest.mark.parametrize(("profile_id", "form"), [
    ("mn5", None), ("cte-power", None), ("practice", None), ("slurm", None), ("mn5", "job-per-size"),
])  # fmt: skip
def test_shipped_templates_and_scripts_are_clean(profile_id, form):
    profile = load_profile(profile_id)
    account = "nct_345" if profile.account_pattern else ""
    assert preflight(FILES, None, profile, account) == (), "the scripts by themselves"
    kinds = set()
    for edition in EDITIONS:
        for task in edition.tasks:
            made = {own: FILES[name] + b"# changed\n" for name, own in task.copies_to_start}
            context = JobContext(token="lt0", edition=edition.id, practice=False, user="u1")
            wanted = PlanOverrides(form=form, account=account, user="u1", data_dir="/data")
            for draft in task_drafts(edition, task.id, profile, wanted):
                seconds, _ = time_and_cost(draft, edition)
                fits = seconds is None or seconds.hi <= 60 * draft.time_limit_minutes
                assert fits or "time-limit" in task.own_runs_check.outcomes, (edition.id, task.id)
                first = draft.runs[0]
                kind = (draft.form, first.script, draft.gpus > 0, draft.nodes > 1, first.tuning)
                if kind not in kinds:
                    kinds.add(kind)
                    script = job_script(draft, profile, context, read_template(draft.form))
                    files = {**FILES, **made, "job.slurm": script.encode()}
                    assert not preflight(files, draft, profile, draft.account)
    assert len(kinds) >= 12
