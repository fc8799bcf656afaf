"""The very commands labtui sends, and its readers of their answers, on each cluster."""

import hashlib
import secrets

import pytest
from msgspec.structs import replace

from labtui.domain.errors import RemoteFailure, SubmitRefused
from labtui.domain.model import JobPhase, JobView
from labtui.slurm.job_control import cancel, check_script, only_own
from labtui.slurm.probe import file_digest, slurm_probe
from labtui.slurm.queue import poll_queue
from labtui.slurm.remote_command import Call, CommandResult, T, cut_frame, frame
from labtui.slurm.site_probe import site_probe
from labtui.slurm.submit import Lookup, lookup, submit
from tests import changes
from tests.contract.jobs import Jobs
from tests.contract.sites import Site


def result_of(site: Site, call: Call[T], nonce: str) -> CommandResult:
    """Send it as `Connection.run` does: framed, through a login shell."""
    marker = secrets.token_hex(16)
    answer = site.raw(frame(call.text(nonce), marker), timeout_s=480)
    out, err = cut_frame(answer.stdout, marker), cut_frame(answer.stderr, marker)
    return replace(out, stderr=err.stdout)


def ask(site: Site, call: Call[T]) -> T:
    nonce = secrets.token_hex(8)
    return call.answer(result_of(site, call, nonce), nonce)


def gpu_options(jobs: Jobs, *more: str) -> list[str]:
    return [*jobs.gpu().split(), "--time=5", *more]


def test_submit_tick_details_cancel(jobs):
    token = f"tok-{secrets.token_hex(8)}"
    name = f"own-{token[-6:]}"
    job_id = ask(jobs.site, submit(jobs.directory, "long.sh", token, name, gpu_options(jobs), attempt=0))

    def row() -> JobView:
        found = ask(jobs.site, poll_queue())
        assert found.jobs is not None, found.problem
        assert found.server_time is not None
        return next(row for row in found.jobs if row.job_id == job_id)

    first = row()
    assert (first.name, first.comment) == (name, f"labtui:{token}")
    assert first.phase in (JobPhase.QUEUED, JobPhase.RUNNING)
    assert (first.qos, first.partition) == (jobs.site.gpu_qos, jobs.site.gpu_partition)
    assert first.time_limit_s == 300.0
    jobs.wait_for(job_id, "RUNNING")
    running = row()
    assert running.phase is JobPhase.RUNNING and running.node and running.start_time is not None
    assert running.work_dir.removesuffix("/.") == jobs.directory

    found = ask(jobs.site, lookup(jobs.directory, token, name))
    assert (found.job_id, found.certain) == (job_id, True)

    state = changes.after(changes.planned("tok-of-another", {}), changes.planned(token, {}, job_name=name))
    with pytest.raises(RemoteFailure, match="not cancelled: Slurm gave its ID to another job"):
        ask(jobs.site, only_own(cancel(job_id), state.submissions["tok-of-another"]))
    ask(jobs.site, only_own(cancel(job_id), state.submissions[token]))
    jobs.wait_for(job_id, "CANCELLED")
    jobs.wait_for_accounting(job_id)
    last = ask(jobs.site, poll_queue([job_id]))
    assert last.accounting is not None, last.accounting_problem
    ended = next(row for row in last.accounting if row.job_id == job_id)
    assert (ended.slurm_state, ended.phase) == ("CANCELLED", JobPhase.FINISHED)


def test_a_job_of_the_same_name_is_not_taken_for_another_submissions(jobs):
    """Names carry the end of a token only, and two tokens may end alike."""
    end = secrets.token_hex(4)
    first, second = (f"tok-{secrets.token_hex(6)}{end}" for _ in range(2))
    name = f"alike-{end}"
    job_id = ask(jobs.site, submit(jobs.directory, "ok.sh", first, name, gpu_options(jobs), attempt=3))

    def look(token: str) -> Lookup:
        return ask(jobs.site, lookup(f"{jobs.directory}/{token}", token, name))

    for state in ("", "COMPLETED"):  # in the queue, then in accounting as well
        if state:
            jobs.wait_for(job_id, state)
        assert look(first).job_id == job_id
        other = look(second)
        assert (other.job_id, other.certain) == (None, True), other.problem


def test_a_refusal_is_read_as_what_it_is(jobs):
    for attempt, (option, said, there) in enumerate((
        ("--account=nct_777", "account", f"Open to you: {jobs.site.account}"),
        ("--partition=gpux", "partition gpux", "Partitions here: "),
    ), start=7):  # fmt: skip
        options = [*gpu_options(jobs), option]
        with pytest.raises(SubmitRefused) as caught:
            ask(jobs.site, submit(jobs.directory, "ok.sh", "tok-refused-1", "no", options, attempt=attempt))
        assert not caught.value.wait and said in caught.value.sentence and there in caught.value.hint


def test_test_only(jobs):
    script, site = "#!/bin/bash\n#SBATCH --cpus-per-task=20\n#SBATCH --gres=gpu:1\necho ok\n", jobs.site
    options = [f"--account={site.account}", f"--qos={site.gpu_qos}", "--time=5"]
    assert ask(site, check_script(script, options)).ok
    refused = ask(site, check_script(script, [*options, "--qos=nonsense"]))
    assert not refused.ok and refused.sentence


def test_limits_and_what_init_asks_of_a_site(slurm_site):
    probe = ask(slurm_site, slurm_probe())
    assert slurm_site.account in {item.account for item in probe.associations or ()}
    assert slurm_site.debug_qos in {item.name for item in probe.qos or ()}
    assert probe.version is not None and probe.server_time is not None and not probe.queue_problem
    found = ask(slurm_site, site_probe())
    assert found.refused == {}
    gpus = next(each for each in found.partitions if each.name == slurm_site.gpu_partition)
    assert (gpus.nodes_from, gpus.cpus) == ("sinfo", slurm_site.cpus_per_node)
    assert gpus.gpus == slurm_site.gpus_per_node
    assert found.default_account == slurm_site.account


def test_size_and_digest_of_a_file(jobs):
    data = bytes(range(256)) * 40
    path = f"{jobs.directory}/a log\\with 'signs'.out"
    with jobs.site.sftp() as sftp, sftp.open(path, "wb") as file:
        file.write(data)
    assert ask(jobs.site, file_digest(path)) == (len(data), hashlib.sha256(data).hexdigest())
    assert ask(jobs.site, file_digest(f"{path}.gone")) == (None, "")
    without = replace(file_digest(path), script="PATH=/nowhere; " + file_digest(path).script)
    assert ask(jobs.site, without).sha256 == ""
