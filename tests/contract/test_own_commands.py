"""The very commands labtui sends, and its readers of their answers, on each cluster."""

from __future__ import annotations

import secrets
import time

from labtui.domain.model import JobPhase
from labtui.slurm.job_control import details_command, parse_details
from labtui.slurm.probe import parse_slurm_probe, slurm_probe_command
from labtui.slurm.queue import parse_tick, tick_command
from labtui.slurm.remote_command import CommandResult, RemoteCommand, cut_frame, frame
from labtui.slurm.sbatch_answers import classify, parse_test_only, test_only_command
from labtui.slurm.site_probe import (
    PartitionGpus,
    SiteLoad,
    load_command,
    parse_load,
    parse_site,
    site_command,
)
from labtui.slurm.submit import cancel_command, lookup_command, parse_lookup, parse_submit, submit_command
from tests.contract.jobs import Jobs
from tests.contract.sites import Site


def ask(site: Site, command: RemoteCommand | str) -> CommandResult:
    """Send it as `Connection.run` does: framed, through a login shell."""
    marker = secrets.token_hex(16)
    text = command if isinstance(command, str) else command.script
    answer = site.raw(frame(text, marker), timeout_s=480)
    out, err = cut_frame(answer.stdout, marker), cut_frame(answer.stderr, marker)
    return CommandResult(out.content, err.content, out.status, began=out.began, noise=out.noise)


def gpu_options(jobs: Jobs, *more: str) -> list[str]:
    return [*jobs.gpu().split(), "--time=5", *more]


def test_submit_tick_details_cancel(jobs: Jobs) -> None:
    token = f"tok-{secrets.token_hex(8)}"
    name = f"own-{token[-6:]}"
    sent = ask(
        jobs.site, submit_command(jobs.directory, "long.sh", token, name, gpu_options(jobs), attempt=0)
    )
    assert sent.status == 0, sent.err
    job_id = parse_submit(sent.out)
    assert job_id is not None

    def row():
        nonce = secrets.token_hex(8)
        tick = parse_tick(ask(jobs.site, tick_command([], [], nonce)), nonce, asked_accounting=False)
        assert tick.jobs is not None, tick.problem
        assert tick.server_time is not None
        return next(row for row in tick.jobs if row.job_id == job_id)

    first = row()
    assert (first.name, first.comment) == (name, f"labtui:{token}")
    assert first.phase in (JobPhase.QUEUED, JobPhase.RUNNING)
    assert (first.time_limit_s, first.qos, first.partition) == (
        300.0,
        jobs.site.gpu_qos,
        jobs.site.gpu_partition,
    )
    jobs.wait_for(job_id, "RUNNING")
    running = row()
    assert running.phase is JobPhase.RUNNING and running.nodes and running.start is not None
    assert running.work_dir.removesuffix("/.") == jobs.directory

    details = parse_details(ask(jobs.site, details_command(job_id)).out, job_id)
    assert details is not None
    assert details.state == "RUNNING" and details.exit_code == "0:0"

    found = parse_lookup(
        ask(jobs.site, lookup_command(jobs.directory, token, name, "a" * 16)), "a" * 16, token, name
    )
    assert (found.job_id, found.certain) == (job_id, True)

    assert ask(jobs.site, cancel_command(job_id)).status == 0
    jobs.wait_for(job_id, "CANCELLED")
    nonce = secrets.token_hex(8)
    tick = parse_tick(ask(jobs.site, tick_command([job_id], [], nonce)), nonce, asked_accounting=True)
    assert tick.accounting is not None, tick.accounting_problem
    ended = next(row for row in tick.accounting if row.job_id == job_id)
    assert (ended.state, ended.phase) == ("CANCELLED", JobPhase.FINISHED)


def test_a_job_of_the_same_name_is_not_taken_for_another_submissions(jobs: Jobs) -> None:
    """Names carry the end of a token only, and two tokens may end alike."""
    end = secrets.token_hex(4)
    first, second = (f"tok-{secrets.token_hex(6)}{end}" for _ in range(2))
    name = f"alike-{end}"
    sent = ask(jobs.site, submit_command(jobs.directory, "ok.sh", first, name, gpu_options(jobs), attempt=3))
    job_id = parse_submit(sent.out)
    assert job_id is not None, sent.err

    def look(token: str):
        nonce = secrets.token_hex(8)
        command = lookup_command(f"{jobs.directory}/{token}", token, name, nonce)
        return parse_lookup(ask(jobs.site, command), nonce, token, name)

    for state in ("", "COMPLETED"):  # in the queue, then in accounting as well
        if state:
            jobs.wait_for(job_id, state)
        assert look(first).job_id == job_id
        other = look(second)
        assert (other.job_id, other.certain) == (None, True), other.problem


def test_a_token_nobody_sent_is_certainly_not_there(jobs: Jobs) -> None:
    token, nonce = f"tok-{secrets.token_hex(8)}", secrets.token_hex(8)
    folder = f"{jobs.directory}/{token}"
    answer_read = parse_lookup(
        ask(jobs.site, lookup_command(folder, token, "nobody", nonce)), nonce, token, "nobody"
    )
    assert (answer_read.job_id, answer_read.certain) == (None, True), answer_read.problem


def test_one_attempt_submits_once(jobs: Jobs) -> None:
    token = f"tok-{secrets.token_hex(8)}"
    command = submit_command(jobs.directory + "/once", "ok.sh", token, "once", gpu_options(jobs), attempt=0)
    jobs.run("mkdir -p once && cp ok.sh once/")
    first, second = ask(jobs.site, command), ask(jobs.site, command)
    assert first.status == 0 and second.status not in (0, None)


def test_a_refusal_is_read_as_what_it_is(jobs: Jobs) -> None:
    options = [*gpu_options(jobs), "-A", "nct_777"]
    refused = ask(
        jobs.site, submit_command(jobs.directory, "ok.sh", "tok-refused-1", "no", options, attempt=7)
    )
    assert refused.status not in (0, None)
    answer_read = classify(refused.err)
    assert not answer_read.wait and "account" in answer_read.sentence.lower()


def test_test_only(jobs: Jobs) -> None:
    answer_read = parse_test_only(
        ask(jobs.site, test_only_command(jobs.directory, "ok.sh", gpu_options(jobs)))
    )
    assert answer_read.ok
    answer_read = parse_test_only(
        ask(jobs.site, test_only_command(jobs.directory, "ok.sh", [*gpu_options(jobs), "-q", "nonsense"]))
    )
    assert not answer_read.ok and answer_read.sentence


def test_limits(slurm_site: Site) -> None:
    nonce = secrets.token_hex(8)
    probe = parse_slurm_probe(ask(slurm_site, slurm_probe_command(nonce)), nonce)
    assert slurm_site.account in {item.account for item in probe.associations or ()}
    assert slurm_site.debug_qos in {item.name for item in probe.qos or ()}
    assert probe.version is not None and probe.server_time is not None and not probe.queue_problem


def test_what_init_asks_of_a_site(slurm_site: Site) -> None:
    nonce = secrets.token_hex(8)
    found = parse_site(ask(slurm_site, site_command(nonce)), nonce)
    assert found.refused == {}
    gpus = next(each for each in found.partitions if each.name == slurm_site.gpu_partition)
    assert (gpus.nodes_from, gpus.cpus) == ("sinfo", slurm_site.cpus_per_node)
    assert gpus.gpus == slurm_site.gpus_per_node
    assert found.default_account == slurm_site.account


def test_what_is_free_and_the_fair_share(jobs: Jobs) -> None:
    def load() -> SiteLoad:
        nonce = secrets.token_hex(8)
        return parse_load(ask(jobs.site, load_command(nonce)), nonce)

    def gpus(found: SiteLoad) -> PartitionGpus:
        return next(each for each in found.partitions if each.partition == jobs.site.gpu_partition)

    def until_free(wanted: int) -> SiteLoad:
        end = time.monotonic() + 240
        while gpus(found := load()).free != wanted and time.monotonic() < end:
            time.sleep(0.3)
        return found

    before = load()
    assert before.refused == {} and 0.0 <= before.fair_shares[jobs.site.account] <= 1.0
    assert jobs.site.cpu_partition not in {each.partition for each in before.partitions}
    total = gpus(before).total
    free = gpus(until_free(total)).free  # jobs of other tests may just be ending
    assert 2 <= free <= total and total % jobs.site.gpus_per_node == 0
    job_id = jobs.submit(f"{jobs.gpu(2)} -t 5 -J load long.sh")
    jobs.wait_for(job_id, "RUNNING")
    assert gpus(until_free(free - 2)) == PartitionGpus(jobs.site.gpu_partition, free - 2, total)
    jobs.run(f"scancel {job_id}")
    jobs.wait_for(job_id, "CANCELLED")
    assert gpus(until_free(free)).free == free
