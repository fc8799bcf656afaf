"""Readers of squeue and sacct: recorded answers of every release, and hostile content."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.domain.model import JobPhase
from labtui.slurm import probe, queue, values
from labtui.slurm.batch_script import JobScript, read_script
from labtui.slurm.job_control import check_script, classify
from labtui.slurm.probe import parse_associations, parse_qos, parse_quota, parse_version, slurm_probe
from labtui.slurm.queue import parse_accounting, parse_queue, poll_queue
from labtui.slurm.remote_command import CommandResult, cut_frame
from labtui.slurm.script_commands import Command, statements_of
from labtui.slurm.site_probe import site_probe
from labtui.slurm.states import phase_of
from labtui.slurm.submit import lookup, parse_submit
from labtui.slurm.values import duration_seconds, epoch_seconds, gpus_of, job_id, number, size_kib
from tests.slurm.recorded import NONCE, VERSIONS, accounting_row, answer, queue_row, read

releases = pytest.mark.parametrize("version", VERSIONS)
_characters = st.characters(codec="utf-8", exclude_characters="\x00")
hostile = st.text(_characters, max_size=40).filter(lambda text: NONCE not in text)


@releases
def test_recorded_queue(version):
    assert parse_queue(answer(version, "squeue-nothing").out, NONCE) == ((), ())
    rows = {row.job_id: row for row in parse_queue(answer(version, "squeue-mixed").out, NONCE).rows}
    assert len(rows) >= 5
    phases = {row.phase for row in rows.values()}
    assert phases == {JobPhase.QUEUED, JobPhase.RUNNING, JobPhase.FINISHED}
    assert {row.exit_code for row in rows.values()} == {None}  # which only accounting tells
    odd = next(row for row in rows.values() if row.name == "x y|z")
    assert odd.slurm_state == "RUNNING"
    assert odd.time_limit_s == 600.0 and odd.node and odd.qos == "acc_training"
    assert odd.start_time is not None and (odd.evidence, odd.start_estimate) == ("squeue", None)


@releases
def test_recorded_accounting(version):
    rows = {row.comment: row for row in parse_accounting(answer(version, "sacct-by-id").out, NONCE).rows}
    ours, failed = rows["labtui:tok-1234"], rows["labtui:tok-fail"]
    assert ours.phase is JobPhase.FINISHED and ours.exit_code == "0:0" and ours.end_time is not None
    assert (failed.slurm_state, failed.exit_code) == ("FAILED", "3:0")
    mixed = parse_accounting(answer(version, "sacct-mixed").out, NONCE).rows
    refused = next(row for row in mixed if row.slurm_state == "FAILED")
    assert (refused.exit_code, refused.node) == ("1:0", "")
    assert parse_accounting(answer(version, "sacct-nothing").out, NONCE) == ((), ())
    (limited,) = parse_accounting(answer(version, "sacct-timeout").out, NONCE).rows
    assert limited.slurm_state == "TIMEOUT"


@given(name=hostile, comment=hostile, reason=hostile, qos=hostile)
def test_any_content_survives_the_queue(name, comment, reason, qos):
    fields = {"job_id": "12", "state": "PENDING", "name": name, "comment": comment, "reason": reason}
    rows, unread = parse_queue("noise before\n" + queue_row(fields | {"qos": qos}), NONCE)
    assert len(rows) == 1 and not unread
    assert rows[0].name == name.removesuffix("\r")
    empty = {"N/A", "(null)", "n/a"}
    assert rows[0].comment == ("" if comment in empty else comment)
    shown = "" if reason in empty else reason.strip()
    assert rows[0].reason == ("" if shown == "None" else shown)
    assert rows[0].qos == ("" if qos in empty else qos)


@given(name=hostile, comment=hostile)
def test_any_content_survives_accounting(name, comment):
    numbers, values = ("77", "78"), {"State": "CANCELLED by 1234", "JobName": name, "Comment": comment}
    text = "".join(accounting_row(JobIDRaw=number, **values) for number in numbers)
    rows, unread = parse_accounting(f"a banner\n{text}", NONCE)
    found = [(row.job_id, row.slurm_state, row.name, row.comment) for row in rows]
    assert found == [(number, "CANCELLED", name, comment) for number in numbers] and not unread


odd = st.text() | st.lists(
    st.sampled_from(
        (
            *("JobId=1", "Restarts=", "squeue-status ", "now\n", "out-0\n", "attempt-0\n", "gpu:", "9" * 4400),
            *("\u00b2", "\u0663", "-", ":", "|", "\n", "=", " ", ".", "x", "K", "0", "1"),
            *(f"\x1d{NONCE} ", f"\x1e{NONCE}", f"\x1f{NONCE}"),
        )
    ),
    max_size=30,
).map("".join)  # fmt: skip
"""Any text, and texts of the words and digits that Slurm's answers are made of."""


@given(odd)
def test_no_text_breaks_a_parser(text):
    parse_queue(text, NONCE)
    parse_accounting(text, NONCE)
    for reader in (
        parse_associations, parse_qos, parse_quota, parse_version, parse_submit, gpus_of, number, job_id, size_kib,
        epoch_seconds, duration_seconds, phase_of,
    ):  # fmt: skip
        reader(text)
    assert classify(text).sentence
    cut_frame(f"\n{NONCE}<\n{text}\n{NONCE}> {text}\n".encode(), NONCE)
    for call in (
        poll_queue(["1"]), lookup("/d", "0f3a-77aa-b2c4", "ResNet50-b2c4"), slurm_probe(),
        probe.paths_probe("/r", ["/a"]), site_probe(), check_script(options=()),
    ):  # fmt: skip
        read(call, text, text)


def test_two_rows_of_one_job_are_one_job():
    """The screens key their rows by it; the last one is the newest. Lines may end as on Windows."""
    text = "".join(queue_row({"job_id": "12", "state": each, "name": "a"}) for each in ("PENDING", "RUNNING"))
    for said in (text, text.replace("\n", "\r\n")):
        (row,) = parse_queue(said, NONCE).rows
        assert (row.job_id, row.slurm_state, row.name) == ("12", "RUNNING", "a")
    records = "".join(accounting_row(JobIDRaw="12", State=state) for state in ("NODE_FAIL", "COMPLETED"))
    assert [row.slurm_state for row in parse_accounting(records, NONCE).rows] == ["COMPLETED"]


@pytest.mark.parametrize("bad", ["007", "\u0661\u0662", "9" * 5000, "0", "-3", "12a", "", "\u00b2"])
def test_a_bad_row_is_left_out_and_the_others_stand(bad):
    text = queue_row({"job_id": bad}) + queue_row({"job_id": "12"})
    found = read(poll_queue(), tick_text(NONCE, rows=text))
    assert found.jobs is not None and [row.job_id for row in found.jobs] == ["12"] and not found.problem
    assert (found.server_time, found.accounting) == (1795253397.0, ())


def tick_text(nonce: str, *, queue_status: int | None = 0, rows: str = "", sacct: str | None = None) -> str:
    mark = f"\x1d{nonce} "
    text = f"{mark}now\n1795253397\n{mark}squeue\n{rows}"
    if queue_status is not None:
        text += f"{mark}squeue-status {queue_status}\n"
    if sacct is not None:
        text += f"{mark}sacct\n{sacct}{mark}sacct-status 0\n"
    return text + f"{mark}done\n"


@pytest.mark.parametrize(("out", "err", "says"), [
    (tick_text(NONCE, queue_status=1), "slurm_load_jobs error: Unable to contact slurm controller", "contact"),
    (tick_text(NONCE, queue_status=124), "", "did not answer"),
    (tick_text(NONCE, queue_status=127), "", "exit status 127"),
    (tick_text(NONCE, queue_status=0), "slurm_load_jobs error: Socket timed out", "timed out"),
    (tick_text(NONCE, queue_status=None), "", "no complete answer"),
    (tick_text(NONCE, rows="slurm_load_jobs error: Unable to contact slurm controller\n"), "", "contact"),
    (tick_text(NONCE, rows="\nMaintenance until 18:00.\n"), "", "printed: Maintenance until 18:00."),
    *(("", "", "no complete answer"), (tick_text("0000000000"), "", "no complete answer")),
])  # fmt: skip
def test_a_failed_queue_is_never_an_empty_one(out, err, says):
    found = read(poll_queue(), out, f"\x1d{NONCE} squeue\n{err}")
    assert found.jobs is None and says in found.problem


def test_a_locale_warning_or_a_failed_accounting_does_not_freeze_the_display():
    err = f"\x1d{NONCE} squeue\nbash: warning: setlocale: LC_ALL: cannot change locale (ca_ES)\n"
    err += f"\x1d{NONCE} sacct\nsacct: error: Problem talking to the database: Connection refused\n"
    found = read(poll_queue(["12"]), tick_text(NONCE, sacct=""), err)
    assert found.jobs == ()
    assert found.accounting is None and "Problem talking" in found.accounting_problem


def test_only_numbers_are_asked_of_accounting_and_no_details_of_the_queue():
    assert poll_queue(["12", "13; rm -rf ~", "$(id)"]).arguments[-1] == "12"
    assert "C" not in queue.QUESTION[1] and "C" not in NONCE, "%C would make squeue fetch details"


@pytest.mark.parametrize(("read_one", "texts"), [
    (phase_of, {
        "COMPLETED": JobPhase.FINISHED, "CANCELLED by 1001": JobPhase.FINISHED, "PD": JobPhase.QUEUED,
        "OUT_OF_ME+": JobPhase.UNKNOWN, "": JobPhase.UNKNOWN,  # cut short: not a known word
        "COMPLETED+": JobPhase.FINISHED, "HIBERNATING": JobPhase.UNKNOWN, "SUSPENDED": JobPhase.RUNNING,
        "COMPLETED RUNNING": JobPhase.UNKNOWN,  # not one word
    }),
    (duration_seconds, {
        "10:00": 600, "1-02:03:04": 93784, "0:00": 0, "2-12": 216000, "45": 2700, "00:00.539": 0,
        "2-00:00:00": 172800, "UNLIMITED": None, "": None, "INVALID": None, "\u0661:00": None, "1" * 99: None,
    }),
    (epoch_seconds, {
        "1795253397": 1795253397, "2026-11-21T09:29:56": 1795253396, "N/A": None, "Unknown": None, "0": None,
    }),
    (parse_version, {"slurm-wlm 22.05.8": (22, 5), "slurm 26.05.5-1": (26, 5)}),
])  # fmt: skip
def test_words_of_slurm(read_one, texts):
    assert {text: read_one(text) for text in texts} == texts


READERS: dict[str, Callable[[str], object]] = {
    "number": number, "job id": job_id, "time": epoch_seconds,
    "duration": lambda text: duration_seconds(f"{text}:00"),
    "days": lambda text: duration_seconds(f"{text}-00"), "size": lambda text: size_kib(f"{text}G"),
    "section": lambda text: CommandResult(f"\x1d a-status {text}".encode(), b"", 0).section_status("a"),
    "sbatch": lambda text: parse_submit(f"Submitted batch job {text}"),
    "gpus of a node": lambda text: gpus_of(f"gpu:{text}") - 1 or None,  # as one GPU of that name
    "limit of a QoS": lambda text: parse_qos(f"a||{text}|")[0].max_jobs_per_user,
    "nodes of a script": lambda text: script(f"--nodes={text}").nodes - 1 or None,
    "CPUs of a script": lambda text: script(f"--cpus-per-task={text}").cpus,
}  # fmt: skip
"""Every reader of a number in Slurm's world: an unreadable one is None."""


def script(options: str) -> JobScript:
    return read_script("j", f"#!/bin/bash\n#SBATCH {options}\ntrue\n")


@pytest.mark.parametrize("text", ["\u0663", "\u00b2", "\uff11", "1\u0663", "-\u0663"])
@pytest.mark.parametrize("reader", READERS)
def test_only_ascii_digits_are_a_number(reader, text):
    assert READERS[reader]("12") is not None and READERS[reader](text) is None


def test_statements_are_cut_outside_quotes_and_substitutions():
    text = "a; b && c | d & e 2>&1 'f; g' $(h; i)"
    found = [each.text.strip() for each in statements_of(Command(1, 1, text))]
    assert found == ["a", "b", "c", "d", "e 2>&1 'f; g' $(h; i)"]
    assert [each.text for each in statements_of(Command(1, 1, "a; b"))] == ["a", " b"]


@pytest.mark.parametrize(("options", "gpus"), [
    ("--gres=gpu:1g.5gb:1", 1), ("--gres=gpu:a100-80:4,nvme:9", 4), ("--tres-per-task=cpu:9,gres/gpu:2", 2),
    ("--gpus=a100:2,h100:4 -N2", 3), ("--gpus-per-task=2 --ntasks-per-node=2", 4), ("--gres=nvme:9", 0),
])  # fmt: skip
def test_gpus_of_a_script(options, gpus):
    assert script(options).gpus == gpus


def test_a_script_tells_only_what_is_certain():
    """A branch may not run; ``<<`` begins a here document only as a redirection; arrays go over several lines."""
    text = """echo "<< start >>"; N=$((1 << 3)); cat <<'E'\npython a.py\nE
B=8; if [ "$1" ]; then\n  B=32; python b.py $B\nelse\n  B=64\nfi
cmd=(python c.py  # don't\n  --b $N)\n${cmd[@]} $B"""
    launches = [each.text for each in read_script("j", text).launches]
    assert launches == ["python b.py 32", "python c.py --b $((1 << 3)) $B"]


def test_log_patterns():
    paths = {
        "%x.%j.out": "R 50.123.out", "./results/R-%x_%J.out": "./results/R-R 50_123.out", "%q": "%q",
        "%5j-%u-100%%": "00123-me-100%", "\\%j.out": "%j.out",
    }  # fmt: skip
    given = {"job_id": "123", "job_name": "R 50", "user": "me"}
    assert {each: values.expand_pattern(each, **given) for each in paths} == paths
    first = {"n[1-3]-ib,m1": "n1-ib", "r[01,7]n[2-4]": "r01n2", "a,b[1]": "a", "": "%N"}
    assert {nodes: values.expand_pattern("%N", nodes=nodes, **given) for nodes in first} == first


def test_limits():
    debug, normal = parse_qos("acc_debug|02:00:00|1|1\nnormal|||\nbroken|line\n")
    assert (debug.name, debug.max_submit_per_user, debug.max_wall_s) == ("acc_debug", 1, 7200.0)
    assert (normal.name, normal.max_submit_per_user) == ("normal", None)
    (mine,) = parse_associations("nct_000|acc_debug,gp_debug|gp_debug\n")
    assert mine.qos == ("acc_debug", "gp_debug")
