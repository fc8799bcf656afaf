"""A preview says what of its files the cluster has already, and sends and writes nothing to find out."""

from __future__ import annotations

from pathlib import Path

from labtui.session.preview import FileChange, Preview
from tests.session.conftest import Bench, draft


def standings(preview: Preview) -> dict[str, str | None]:
    return {change.path: change.since for change in preview.files}


def change_of(preview: Preview, path: str) -> FileChange:
    return next(change for change in preview.files if change.path == path)


def accepted(bench: Bench, **more: object) -> str:
    """Submit and wait for Slurm; the job's number."""
    sent = bench.session.submit(draft(**more))  # type: ignore[arg-type]
    bench.run(20, sent.done)
    job = bench.session.state.submissions[sent.result()].job
    assert job is not None
    return job.job_id


def scripts_of(bench: Bench) -> Path:
    return bench.path / "scripts"


def test_without_an_accepted_job_everything_is_new(bench: Bench) -> None:
    bench.session.submit(draft())
    preview = bench.session.preview(draft())
    assert set(standings(preview).values()) == {"new"}
    assert {change.since_job for change in preview.files} == {""}


def test_files_are_compared_with_the_newest_accepted_job_without_a_connection(bench: Bench) -> None:
    bench.online()
    job = accepted(bench)
    bench.cluster.close()
    preview = bench.session.preview(draft())
    assert set(standings(preview).values()) == {"unchanged"}, "name, token and directory do not count"
    assert {change.since_job for change in preview.files} == {job}
    script = scripts_of(bench) / "ResNet50.py"
    script.write_bytes(script.read_bytes().replace(b"\n", b"\r\n"))
    assert standings(bench.session.preview(draft()))["ResNet50.py"] == "unchanged", (
        "line ends do not count either"
    )
    script.write_bytes(script.read_bytes() + b"print('mine')\r\n")
    (scripts_of(bench) / "new.py").write_text("x = 1\n")
    (scripts_of(bench) / "ResNet101.py").unlink()
    preview = bench.session.preview(draft(epochs=7))
    assert standings(preview)["new.py"] == "new"
    assert preview.left_out == ("ResNet101.py",)
    changed = change_of(preview, "ResNet50.py")
    assert (changed.since, changed.changed) == ("changed", True)
    assert f"--- ResNet50.py (job {job})" in changed.difference
    assert "+print('mine')" in changed.difference
    lines = [line for line in change_of(preview, "job.slurm").difference.splitlines() if line[:1] in "+-"]
    assert any("--epochs 7" in line for line in lines)
    assert not any("SBATCH" in line or "token" in line for line in lines)


def test_a_job_script_is_compared_with_the_newest_job_like_it(bench: Bench) -> None:
    bench.online()
    one = accepted(bench)
    two = accepted(bench, n_gpus=2)
    preview = bench.session.preview(draft())
    assert change_of(preview, "job.slurm").since_job == one
    assert change_of(preview, "ResNet50.py").since_job == two
    assert set(standings(preview).values()) == {"unchanged"}


def test_a_preview_writes_and_sends_nothing(bench: Bench) -> None:
    bench.online()
    accepted(bench)
    (scripts_of(bench) / "ResNet50.py").write_text("edited\n")
    before = {path: path.read_bytes() for path in bench.path.rglob("*") if path.suffix in {".py", ".slurm"}}
    calls = len(bench.cluster.calls)
    bench.session.preview(draft())
    assert len(bench.cluster.calls) == calls
    assert before == {
        path: path.read_bytes() for path in bench.path.rglob("*") if path.suffix in {".py", ".slurm"}
    }
    assert len(bench.session.state.submissions) == 1


def test_old_texts_that_are_not_kept_or_not_readable_are_named_and_not_shown(bench: Bench) -> None:
    bench.online()
    (scripts_of(bench) / "data.bin").write_bytes(b"\0\1")
    accepted(bench)
    (scripts_of(bench) / "data.bin").write_bytes(b"\0\2")
    found = change_of(bench.session.preview(draft()), "data.bin")
    assert (found.since, found.difference) == ("changed", "")
