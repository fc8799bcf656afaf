"""Lab folders written by earlier versions open with everything that was in them.

`tests/fixtures/folders/schema-3.zip`: two runs done, an own job file whose job runs, a job with a limit of its own, and
submissions held, withdrawn, refused, and being sent when the process died.
"""

import contextlib
import json
import zipfile
from pathlib import Path

import pytest

from labtui.domain.state import PathStatus, SubmissionState
from labtui.session.records import from_json
from labtui.session.run_matcher import UNPLANNED
from labtui.session.session import Session
from labtui.session.store import Store
from labtui.training_logs import PARSER_VERSION
from tests.changes import after, ended
from tests.session.conftest import accepted
from tests.session.scripted import keras_log

FOLDERS = Path(__file__).parents[1] / "fixtures" / "folders"


def test_a_folder_of_an_earlier_version_opens_whole(tmp_path):
    zipfile.ZipFile(FOLDERS / "schema-3.zip").extractall(tmp_path)
    for part in ("scripts", "logs", "slurm", "answers"):
        (tmp_path / part).mkdir(exist_ok=True)
    with Session.open(tmp_path, start=False) as session:
        state = session.state
        files = [sorted(session.files_of(token)) for token in state.submissions]
    submissions = list(state.submissions.values())
    statuses = [f"{item.run_ids[-1]} {item.status.value}" for item in submissions]
    told = "2 accepted, 3 accepted, 4 accepted, 5 waiting, 6 withdrawn, 7 refused, 8 sending"
    assert ", ".join(statuses) == told
    jobs = [(item.job.job_id, item.job.phase.value) for item in submissions if item.job is not None]
    assert jobs == [("100", "finished"), ("101", "running"), ("102", "queued")]
    assert [(item.held, *item.options[-1:]) for item in submissions[2:4]] == [(False, "--time=20"), (True,)]
    assert (submissions[0].accepted[0].reason, submissions[1].job_file) == ("A test.", "mine.slurm")
    assert submissions[0].run_ids == (1, 2) and "Slurm does not accept this acc" in submissions[5].sentence
    runs = state.runs
    told = [(run.outcome, len(run.epochs)) for run in runs.values()]
    assert told == [("completed", 5)] * 2 + [(None, 3)] + [(None, 0)] * 5
    assert [sample.seconds.value for sample in runs[1].epochs] == [9, 8, 8, 8, 8]
    assert [sample.printed_seconds for sample in runs[3].epochs] == [7, 6, 6]
    assert (runs[2].spec.n_gpus, runs[2].spec.batch_size, runs[3].spec.batch_size) == (2, 512, 128)
    assert all("job.slurm" in names and "ResNet50.py" in names for names in files)


def test_a_file_whose_runs_are_not_those_of_its_numbers_is_damage(open_bench):
    bench = open_bench()
    accepted(bench)
    item = json.loads(next((bench.path / "slurm").glob("*.json")).read_text())
    for line in ("7", "{}", json.dumps(item | {"runs": []}), '{"there": true, "at": NaN}'):
        with pytest.raises(ValueError, match=r"runs|missing|object|float"):
            from_json(line, SubmissionState if "there" not in line else PathStatus)


@pytest.mark.parametrize("there", [True, False])
def test_runs_that_another_version_read_are_read_again_where_their_log_is_there(open_bench, there):
    bench = open_bench()
    token = accepted(bench, job_file="mine.slurm")
    bench.cluster.write("100", keras_log(9, 8, 8, 8, 8))
    bench.cluster.write("100", b"a warning\n", "err")
    bench.cluster.end("100")
    bench.run(200)
    right = bench.session.state.runs
    log = bench.session.log_path(token, "out")
    bench.session.close()
    with contextlib.closing(Store(bench.path / "labtui.db")) as store:
        state = store.load()
        surplus = {"run_ids": (1, 2), "runs": (*state.submissions[token].runs, UNPLANNED)}
        wrong = after(ended(1, "oom"), state=state.with_submission(token, **surplus))
        older = store.sources[token].replace(f" {PARSER_VERSION}:", " 0:")
        store.write(state, wrong)
        store.write_readings(wrong, {token: older})
    if not there:
        log.unlink()
    remote = bench.cluster.contents.pop(path := bench.cluster.log("100"))
    for expected, files in ((right if there else wrong.runs, {}), (right, {path: remote})):
        bench.cluster.contents.update(files)
        again = open_bench(bench.cluster)
        again.run(200)
        assert again.session.state.runs == expected, "it is copied again where it can be"
        assert again.session.state.last_run == 2, "a deck may name the run that is none"
        again.session.close()
