"""The scripts as text: Python 3.8, only TensorFlow and NumPy, short and readable where students look."""

import ast
import runpy
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.remote.conftest import REMOTE, ended, environment, started

FILES = sorted(path for path in REMOTE.rglob("*.py"))
SCRIPTS = [path for path in FILES if path.name.startswith("ResNet")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_python_3_8_reads_it_with_what_a_course_container_has(path):
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 8))
    own = {file.stem for file in FILES}
    roots = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add((node.module or "").split(".")[0])
    framework = {"torch", "PIL"} if path.parent.name == "pytorch" else {"tensorflow"}
    framework |= {"liger_kernel"} if path.name == "benchmark_lm.py" else set()  # only with --use_liger_kernel
    assert roots <= own | framework | {"numpy"} | set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_short_ascii_and_lf(path):
    data = path.read_bytes()
    assert data.isascii() and b"\r" not in data and data.endswith(b"\n")
    assert data.count(b"\n") <= 45


@pytest.mark.parametrize("kind", ["", "_seq"])
def test_the_labs_edit_is_one_word(kind):
    """ResNet50 becomes ResNet152 by copying the script and changing the network's name in one place."""
    text = (REMOTE / f"ResNet50{kind}.py").read_text()
    names = [node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
    assert names.count("ResNet50V2") == 1 and {"fit", "compile", "SGD"} <= set(names)
    assert ("MirroredStrategy" in names) == (kind == "")


SCRIPT = REMOTE / "tensorflow" / "train_multiworker.py"


@pytest.fixture(scope="module")
def script() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))


@pytest.mark.parametrize(("short", "names"), [
    ("as01r1b05", ["as01r1b05"]),
    ("as01r1b[09-11,20]", ["as01r1b09", "as01r1b10", "as01r1b11", "as01r1b20"]),
    ("login1,as[1-2],b", ["login1", "as1", "as2", "b"]),
])  # fmt: skip
def test_nodes_are_expanded_without_scontrol(script, short, names, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert script.expand(short) == names


def test_tf_config_from_slurm(script, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    job = {"SLURM_JOB_ID": "31337", "SLURM_STEP_NODELIST": "as[1-2]", "SLURM_PROCID": "2"}
    found = script.tf_config({**job, "SLURM_STEP_NUM_TASKS": "4"})
    assert found == {
        "cluster": {"worker": ["as1:21337", "as1:21338", "as2:21337", "as2:21338"]},
        "task": {"type": "worker", "index": 2},
    }
    assert script.tf_config({**job, "SLURM_STEP_NUM_TASKS": "1"}) is None, "one task is a single worker"
    assert script.tf_config({}) is None
    with pytest.raises(script.Problem) as raised:
        script.tf_config({**job, "SLURM_STEP_NUM_TASKS": "3"})
    assert "3 tasks on 2 nodes" in str(raised.value)


def test_a_wrong_number_of_tasks_is_said_once(tmp_path):
    job = {"SLURM_JOB_ID": "5", "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_TASKS": "2"}
    command = [sys.executable, str(SCRIPT), "--expect_workers", "8"]
    for rank, sentence in (("0", "--expect_workers is 8, but there are 2 tasks"), ("1", "")):
        env = environment(**job, SLURM_PROCID=rank)
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert (done.returncode, bool(done.stderr)) == (4, rank == "0") and sentence in done.stderr


@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.xdist_group("tensorflow")
def test_without_tf_keras_a_sentence_says_what_to_install(tmp_path):
    hide = tmp_path / "hide.py"
    hide.write_text(
        "import sys, runpy, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'tf_keras' else find(name, *more)\n"
        f"sys.argv[0] = {str(SCRIPT)!r}; runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    words = ["--device", "cpu", "--model", "small", "--dataset", "synthetic"]
    done = ended(started(tmp_path, str(hide), *words), tmp_path)
    assert done.status == 4 and b"pip install tf_keras" in done.err, done.err
