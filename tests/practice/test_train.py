"""`labtui practice --train`: TensorFlow really trains on the practice cluster, few small images, marked practice."""

import os
import shutil

import pytest

from labtui.domain.model import RunPhase
from labtui.practice.cluster import PracticeCluster
from labtui.session.folder import LabFolder
from labtui.session.labs import load_edition
from labtui.session.session import Session
from labtui.session.settings import Settings
from tests.real_cluster.cluster import wait_until
from tests.remote.small_network import use_small_network

pytestmark = [
    pytest.mark.tensorflow, pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="needs bash"),
]  # fmt: skip


def test_a_task_is_really_trained_and_marked_practice(tmp_path):
    edition = load_edition("hpc4ai-ch10")
    with PracticeCluster(train=True) as cluster:
        settings = Settings(edition=edition.id, **cluster.settings())
        lab = LabFolder.create(tmp_path / "lab", settings, wanted=edition.needs)
        use_small_network(lab.path / "scripts")
        with Session.open(lab.path) as session:
            for draft in session.drafts("10.4"):
                session.submit(draft).result(240)
            over = lambda: all(run.outcome for run in session.state.runs.values())  # noqa: E731
            wait_until(over, what="runs", deadline_s=900)
            logs = [session.log_path(token, "out") for token in session.state.submissions]
            text = "".join(path.read_text() for path in logs if path is not None)
            assert all(run.phase is RunPhase.DONE for run in session.state.runs.values()), text[-3000:]
            assert all(len(run.epochs) == run.spec.epochs for run in session.state.runs.values())
            rows = session.results().rows
        assert rows and all(row.mark == "practice" for row in rows)
        samples = [sample for run in session.state.runs.values() for sample in run.epochs]
        assert min(sample.metrics["accuracy"] for sample in samples) >= 0
        assert '"key": "train_samples", "value": 512' in text, "few and small images"
