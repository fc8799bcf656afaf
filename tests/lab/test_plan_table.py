"""The plan as an editable table: numbers that follow each other, and the way back to drafts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.domain.errors import UsageError
from labtui.lab.plan import PlanRow, drafts_from, task_drafts
from labtui.lab.plan_table import WORDS, cell, changed, forms_of, rows_of
from labtui.session.labs import load_edition
from labtui.session.settings import parse_profile
from tests.lab.builders import EDITION
from tests.tui.fed_session import PROFILE, spec

FOR_TESTS = parse_profile(PROFILE, "tests")


def row(gpus: int = 2) -> PlanRow:
    return PlanRow(spec(gpus=gpus), 0)


def test_more_gpus_keep_the_share_of_each_and_scale_the_rate():
    new = changed(row(), "gpus", "4").spec
    assert (new.n_gpus, new.per_gpu_batch, new.batch_size, new.learning_rate) == (4, 2048, 8192, 0.04)


def test_both_batches_follow_each_other():
    assert changed(row(), "per_gpu", "1024").spec.batch_size == 2048
    assert changed(row(), "batch", "512").spec.per_gpu_batch == 256


def test_empty_means_as_planned():
    assert changed(row(), "rate", "").spec.learning_rate is None
    assert changed(changed(row(), "limit", "15"), "limit", "").limit is None
    assert changed(row(), "options", "--images 64 --name 'a b'").spec.extra_args == (
        "--images",
        "64",
        "--name",
        "a b",
    )


@pytest.mark.parametrize(
    ("column", "text"),
    [("gpus", "0"), ("gpus", "two"), ("batch", "1"), ("per_gpu", "-4"), ("rate", "nan"), ("rate", "x"),
     ("epochs", "0"), ("limit", "0"), ("options", "'open")],
)  # fmt: skip
def test_what_does_not_fit_is_a_sentence(column, text):
    with pytest.raises(UsageError):
        changed(row(), column, text)
    with pytest.raises(UsageError):
        changed(PlanRow(spec(gpus=0), 0), "gpus", "2")


@given(column=st.sampled_from(list(WORDS)), text=st.text(max_size=8))
def test_no_typing_breaks_a_row(column, text):
    try:
        new = changed(row(), column, text)
    except UsageError as error:
        assert error.sentence
        return
    assert new.spec.n_gpus >= 1
    assert new.spec.batch_size >= new.spec.n_gpus
    assert changed(new, column, cell(new, column)) == new


def test_an_untouched_plan_is_the_edition_s():
    for task in EDITION.tasks:
        planned = task_drafts(EDITION, task.id, FOR_TESTS)
        assert (
            drafts_from(rows_of(planned), planned, next(iter(forms_of(planned)), None), EDITION, FOR_TESTS)
            == planned
        )


def test_one_job_or_one_per_size():
    planned = task_drafts(EDITION, "10.5", FOR_TESTS)
    rows = rows_of(planned)
    apart = drafts_from(rows, planned, "job-per-size", EDITION, FOR_TESTS)
    assert [(draft.gpus, draft.cpus, len(draft.runs)) for draft in apart] == [
        (1, 20, 1),
        (2, 40, 1),
        (4, 80, 1),
    ]
    together = drafts_from(rows, planned, "one-job", EDITION, FOR_TESTS)
    assert [(draft.gpus, draft.cpus, len(draft.runs)) for draft in together] == [(4, 80, 3)]
    without = [PlanRow(each.spec, each.origin, each.spec.n_gpus != 4) for each in rows]
    assert [draft.gpus for draft in drafts_from(without, planned, "one-job", EDITION, FOR_TESTS)] == [2]
    assert (
        drafts_from(
            [PlanRow(each.spec, 0, included=False) for each in rows], planned, "one-job", EDITION, FOR_TESTS
        )
        == ()
    )


def test_a_time_limit_that_the_edition_prescribes_is_kept():
    edition = load_edition(Path(__file__).parents[2] / "src/labtui/labs/sa-miri-2021-ex12.toml")
    for task in edition.tasks:
        planned = task_drafts(edition, task.id, FOR_TESTS)
        if not planned or not any(run.time_limit_minutes for run in task.runs):
            continue
        rows = [changed(each, "epochs", str(each.spec.epochs + 1)) for each in rows_of(planned)]
        after = drafts_from(rows, planned, next(iter(forms_of(planned)), None), edition, FOR_TESTS)
        assert {draft.time_limit_minutes for draft in after} <= {
            draft.time_limit_minutes for draft in planned
        }
