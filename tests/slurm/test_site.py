"""What a cluster says of itself, read and made a profile: shapes that the test clusters do not have."""

import tomllib

import pytest
from msgspec.structs import replace

from labtui.domain.errors import UsageError
from labtui.slurm.probe import Association, QosLimits, SlurmProbe
from labtui.slurm.remote_command import CommandResult
from labtui.slurm.site_probe import SitePartition, SiteProbe, site_probe
from labtui.slurm.site_profile import Choices, SiteQuestion, qos_question, questions, site_profile
from labtui.slurm.values import gpus_of
from tests.slurm.recorded import PROBE

MARK = "\x1dabc "
PARTITION = (
    "PartitionName={name} AllowGroups=ALL AllowAccounts={accounts} AllowQos={qos} Default={default} "
    "MaxNodes=UNLIMITED MaxTime={time} State={state} TotalCPUs=256 TotalNodes=4 "
    "TRES=cpu=256,mem=2000G,node=4,billing=256,gres/gpu=8\n"
)


def partition(name: str, **more: str) -> str:
    words = {"accounts": "ALL", "qos": "ALL", "default": "NO", "time": "1-00:00:00", "state": "UP"}
    return PARTITION.format(name=name, **(words | more))


def answer(out: dict[str, str], err: dict[str, str] | None = None, statuses: str = "0000") -> CommandResult:
    text = "".join(f"{MARK}{name}\n{words}" for name, words in out.items())
    for name, status in zip(("partitions", "nodes", "config", "account"), statuses, strict=True):
        text += f"{MARK}{name}-status {status}\n"
    errors = "".join(f"{MARK}{name}\n{words}\n" for name, words in (err or {}).items())
    return CommandResult(text.encode(), errors.encode(), 0)


def test_gpus_of_a_node():
    found = {"gpu:4": 4, "gpu:h100:4(S:0-1),shard:8": 4, "gpu:a100:no_consume:2,gpu:v100:2": 4}
    found |= {"gpu": 1, "gpu:h100": 1, "(null)": 0, "craynetwork:4": 0, "cpu:4,gres/gpu:2": 2}
    found |= {"gpu:nvidia_a100_1g.5gb:2": 2, "gres/gpu=4,gres/gpu:a100-80=4": 4, "gres:gpu=3": 3}
    assert {gres: gpus_of(gres) for gres in found} == found


def test_nodes_that_differ_count_as_the_smallest_with_gpus_and_without_them_the_sums_are_shared_out():
    nodes = "".join(f"gpu|{row}\n" for row in ("128|gpu:h100:4(S:0-1)", "64|gpu:h100:2", "32|(null)"))
    site = site_probe().answer(answer({"partitions": partition("gpu"), "nodes": nodes}), "abc")
    (found,) = site.partitions
    assert (found.cpus, found.gpus) == (64, 2) and found.nodes_from == "sinfo"
    assert "cpus_per_node = 128  # the largest node" in site_profile("h", PROBE, site, Choices())[0]
    denied = "slurm_load_partitions: Access/permission denied"
    said = answer({"partitions": partition("gpu")}, {"nodes": denied, "account": ""}, "0101")
    site = site_probe().answer(said, "abc")
    assert site.refused == {"sinfo": denied, "sacctmgr": "no answer"}
    (found,) = site.partitions
    assert (found.cpus, found.gpus, found.largest) == (64, 2, None)


def test_modules_as_lmod_and_as_environment_modules_list_them():
    text = "/apps/modulefiles:\nsingularity/\nsingularity/3.11.5(default)\ntensorflow/2.15-gpu\n\x1b[1modd\n"
    found = site_probe().answer(answer({"modules": text}), "abc").modules
    assert found == ("singularity/3.11.5", "tensorflow/2.15-gpu")


def gpu(name: str = "gpu", **more: object) -> SitePartition:
    return replace(SitePartition(name=name, cpus=64, gpus=4, max_seconds=86400.0, nodes_from="sinfo"), **more)  # type: ignore[arg-type]


def values(site: SiteProbe, slurm: SlurmProbe = PROBE, **more: str) -> dict[str, object]:
    return tomllib.loads(site_profile("h", slurm, site, Choices(**more))[0])


def question_keys(site: SiteProbe, slurm: SlurmProbe = PROBE, **more: str) -> list[str]:
    return [question.key for question in questions(slurm, site, Choices(**more))]


def test_nothing_is_asked_that_is_known():
    site = SiteProbe(partitions=(gpu(),), framework=True, data=("/d/cifar-10-batches-py",))
    assert question_keys(site) == []
    assert values(site)["data_dir"] == "/d/cifar-10-batches-py"
    data, training = questions(PROBE, replace(site, data=(), framework=False), Choices())
    assert (data.key, data.default, training.key) == ("data_dir", "", "training")
    slurm = replace(PROBE, associations=None, qos=None)  # without accounting, the account may stay empty
    assert question_keys(site, slurm) == ["account"] and "default_account" not in values(site, slurm)


def test_partitions_that_are_down_or_closed_are_no_choice():
    site = SiteProbe(partitions=(gpu("a", up=False), gpu("b", accounts=("other",)), gpu("c")))
    assert values(site)["gpu_queue"] == "c" and "queue" not in question_keys(site)
    # the others stand in Slurm's order, and the first is proposed
    site = SiteProbe(partitions=(gpu("long"), gpu("debug", max_seconds=900.0), gpu("short")))
    question = next(q for q in questions(PROBE, site, Choices()) if q.key == "queue")
    assert question.default == "long" and question.options[1].startswith("debug (at most 15 min")
    assert [question.choose(text) for text in ("2", "", "mine")] == ["debug", "long", "mine"]
    with pytest.raises(ValueError, match=r"9 is not on the list \(1 to 3\)"):
        question.choose("9")
    with pytest.raises(ValueError, match="/a/b is neither"):
        SiteQuestion(key="training", text="", default="").choose("/a/b")
    assert "short" in values(site, queue="short").values()
    with pytest.raises(UsageError) as refused:
        question_keys(site, queue="sort")
    assert refused.value.hint == "--partition short", "the nearest spelling"


def test_a_qos_is_no_partition():
    """`init --host H --qos acc_debug` where queues are partitions, and where a partition has its own QoS."""
    slurm = replace(PROBE, associations=(Association(account="a", qos=("normal", "acc_debug", "gpu-long")),))
    slurm = replace(slurm, qos=(QosLimits("acc_debug", max_wall_s=7200.0),))
    asked = qos_question(slurm, "a")
    assert (asked.options[1], asked.choose("2")) == ("acc_debug (120 minutes at most)", "acc_debug")
    found = values(SiteProbe(partitions=(gpu("acc"),)), slurm, qos="acc_debug")
    assert (found["queue_option"], found["gpu_queue"], found["gpus_per_node"]) == ("partition", "acc", 4)
    assert {"name": "acc_debug", "max_minutes": 120} in found["queues"], "for jobs with GPUs and without"
    mine = replace(slurm, associations=(Association("a", ("normal", "acc_debug"), "acc_debug"),))
    assert values(SiteProbe(partitions=(gpu("acc"),)), mine)["queues"][0]["max_minutes"] == 120, "by default"
    site = SiteProbe(partitions=(gpu("acc", qos=("gpu-short", "acc_debug", "gpu-long")),))
    found = values(site, slurm, qos="gpu-long")
    assert (found["queue_option"], found["gpu_queue"]) == ("qos", "gpu-long")
    assert "queue" not in question_keys(site, slurm, qos="gpu-long")
    notes = values(SiteProbe(partitions=(gpu(),), modules=("tensorflow/2.15",)), slurm)["notes"]
    assert "tensorflow/2.15" in f"{notes}" and "normal, acc_debug" in f"{notes}"
    alone, _ = site_profile("h", PROBE, SiteProbe(partitions=(gpu(),)), Choices())
    assert "\nnotes" not in alone and 'cpu_queue = "gpu"  # the GPU queue: no other was found\n' in alone


def test_a_lab_is_asked_about_its_own_data_and_framework():
    site = SiteProbe(partitions=(gpu(),), data=("/d/cifar-10-batches-py",), modules=("pytorch/2",))
    torch = {"framework": "torch", "data": "micro-224 and tiny-224"}
    folder, python = questions(PROBE, site, Choices(**torch))
    assert "holds micro-224 and tiny-224?" in folder.text and folder.default == "" and not folder.options
    assert "Python with PyTorch" in python.text and python.default == "pytorch/2"
    assert values(site, training="/t.sif", **torch)["containers"] == {"pytorch": "/t.sif"}
    told = site_profile("h", PROBE, site, Choices(**torch))[1]
    assert "(micro-224 and tiny-224): write data_dir" in "".join(told)
    assert question_keys(site, framework="", data="") == []


def test_without_a_gpu_partition_the_profile_says_so():
    site = SiteProbe(partitions=(SitePartition(name="cpu", cpus=64, default=True),))
    text, unknown = site_profile("login.x.org", PROBE, site, Choices())
    assert any("No partition with GPUs" in sentence for sentence in unknown)
    assert "gpus_per_node" not in text
    asked = replace(site, partitions=(replace(site.partitions[0], gpus=0), gpu("old", gpus=0, up=False)))
    found = values(asked, queue="cpu")
    assert (found["gpu_queue"], found["gpus_per_node"], found["cpus_per_node"]) == ("cpu", 0, 64)
    text, _ = site_profile("h", PROBE, asked, Choices(queue="cpu"))  # the answer that is proposed
    assert 'gpu_queue = "cpu"  # no partition with GPUs was found\n' in text and "as chosen" not in text
    two = replace(asked, partitions=(gpu("slow", gpus=0), *asked.partitions))
    assert [values(two, queue=name)["cpu_queue"] for name in ("slow", "cpu", "")] == ["slow", "cpu", "cpu"]
    elsewhere = replace(asked, partitions=(*asked.partitions, gpu(), gpu("other")))
    assert "gpus_per_node" not in values(elsewhere, queue="cpu"), "other nodes have GPUs"
    question = next(each for each in questions(PROBE, two, Choices()) if each.key == "queue")
    assert question.options == ("cpu (no time limit known)", "slow (at most 24 h)"), "the default first"
    shut = replace(elsewhere, partitions=(*elsewhere.partitions, gpu("shut", accounts=("others",))))
    for here, wrong, says in (
        (asked, "nosuch", "no partition nosuch here; yours: cpu"),
        (asked, "old", "old is down; yours: cpu"),
        (shut, "cpu", "cpu has no GPUs; yours: gpu, other"),
        (shut, "shut", "shut is not open to your account"),
    ):
        with pytest.raises(UsageError, match=says):
            question_keys(here, queue=wrong)


@pytest.mark.parametrize(("training", "programs", "launch"), [
    ("/i/tf.sif", ("singularity",), {"container": "/i/tf.sif", "runtime": "singularity", "modules": []}),
    ("/i/tf.sif", ("apptainer",), {"container": "/i/tf.sif", "runtime": "apptainer", "modules": []}),
    ("/i/tf.sif", (), {"container": "/i/tf.sif", "runtime": "singularity", "modules": ["singularity"]}),
    ("tensorflow/2.15", (), {"modules": ["tensorflow/2.15"], "python": "python3"}),
    ("/env/bin/python3.11", (), {"python": "/env/bin/python3.11"}),
    ("python3", (), {"python": "python3"}),
])  # fmt: skip
def test_how_python_is_started(training, programs, launch):
    site = SiteProbe(partitions=(gpu(),), programs=programs, modules=("singularity/4",))
    found = values(site, training=training)["launch"]
    assert {key: found.get(key, []) for key in launch} == launch
