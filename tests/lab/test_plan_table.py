"""The plan as an editable table: numbers that follow each other, and the way back to drafts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.domain.errors import UsageError
from labtui.domain.tuning import option_groups
from labtui.lab.plan import PlanRow, drafts_from, task_drafts
from labtui.lab.plan_table import WORDS, cell, change_cell, forms_of, rows_of
from labtui.session.labs import load_edition
from labtui.session.settings import parse_profile
from tests.lab.builders import EDITION
from tests.tui.fed_session import PROFILE, spec

FOR_TESTS = parse_profile(PROFILE, "tests")
ROW = PlanRow(spec(gpus=2), 0)


def test_more_gpus_keep_the_share_of_each_scale_the_rate_and_empty_means_as_planned():
    new = change_cell(ROW, "gpus", "4").spec
    assert (new.n_gpus, new.per_gpu_batch, new.batch_size, new.learning_rate) == (4, 2048, 8192, 0.04)
    planned = rows_of(task_drafts(load_edition("hpc4ai-ch12"), "12.1", FOR_TESTS))[0]
    assert change_cell(planned, "gpus", "3").spec.learning_rate == 0.0005, "its script scales none"
    assert change_cell(ROW, "per_gpu", "1024").spec.batch_size == 2048
    assert change_cell(ROW, "batch", "512").spec.per_gpu_batch == 256
    assert change_cell(ROW, "rate", "").spec.learning_rate is None
    assert change_cell(change_cell(ROW, "limit", "15"), "limit", "").limit is None
    options = change_cell(ROW, "options", "--images 64 --name 'a -b'").spec.extra_args
    assert option_groups(options) == [("--images", "64"), ("--name", "a -b")]


@pytest.mark.parametrize(("column", "text"), [
    ("gpus", "0"), ("gpus", "two"), ("batch", "1"), ("per_gpu", "-4"), ("rate", "nan"), ("rate", "x"),
    ("batch", "513"), ("epochs", "0"), ("limit", "0"), ("options", "'open"),
])  # fmt: skip
def test_what_does_not_fit_is_a_sentence(column, text):
    with pytest.raises(UsageError):
        change_cell(ROW, column, text)


@given(column=st.sampled_from(list(WORDS)), text=st.text(max_size=8))
def test_no_typing_breaks_a_row(column, text):
    try:
        new = change_cell(ROW, column, text)
    except UsageError as error:
        assert error.sentence
        return
    assert new.spec.n_gpus >= 1 and new.spec.batch_size >= new.spec.n_gpus
    assert change_cell(new, column, cell(new, column)) == new


def test_an_untouched_plan_is_the_edition_s_and_becomes_one_job_or_one_per_size():
    for task in EDITION.tasks:
        planned = task_drafts(EDITION, task.id, FOR_TESTS)
        form = next(iter(forms_of(planned)), None)
        assert drafts_from(rows_of(planned), planned, form, EDITION, FOR_TESTS) == planned
    planned = task_drafts(EDITION, "10.5", FOR_TESTS)

    def jobs(form, *, without=()):
        kept = [PlanRow(each.spec, each.origin, each.spec.n_gpus not in without) for each in rows_of(planned)]
        drafts = drafts_from(kept, planned, form, EDITION, FOR_TESTS)
        return [(draft.gpus, draft.cpus, len(draft.runs)) for draft in drafts]

    assert jobs("job-per-size") == [(1, 20, 1), (2, 40, 1), (4, 80, 1)]
    assert jobs("one-job") == [(4, 80, 3)] and jobs("one-job", without=(4,)) == [(2, 40, 2)]
    assert jobs("one-job", without=(1, 2, 4)) == []


def test_a_time_limit_that_the_edition_prescribes_is_kept():
    edition = load_edition("sa-miri-2021-ex12")
    for task in edition.tasks:
        planned = task_drafts(edition, task.id, FOR_TESTS)
        if any(run.time_limit_minutes for run in task.runs):
            rows = [change_cell(each, "epochs", str(each.spec.epochs + 1)) for each in rows_of(planned)]
            after = drafts_from(rows, planned, next(iter(forms_of(planned)), None), edition, FOR_TESTS)
            limits = {draft.time_limit_minutes for draft in planned}
            assert {draft.time_limit_minutes for draft in after} <= limits
