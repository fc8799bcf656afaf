"""The lab folder and its settings: nothing of the student is overwritten, nothing leads out, no secret is kept."""

import pytest

from labtui.domain.errors import DataError, FolderError, UsageError
from labtui.session.folder import LabFolder, find_folder
from labtui.session.settings import Settings, load_profile, read_settings, with_changes, write_settings

SETTINGS = Settings(edition="hpc4ai-ch10", profile="mn5", port=2222, group="Ana & Jordi · grup 3")


def test_a_folder_has_its_rooms_scripts_and_templates(tmp_path):
    folder = LabFolder.create(tmp_path / "el meu lab ü", SETTINGS, wanted="ResNet152.py".__ne__)
    assert folder.settings() == SETTINGS
    names = set(folder.script_files())
    assert {"ResNet50.py", "cifar-utils/cifar.py"} <= names and "ResNet152.py" not in names
    assert folder.template("one-job").startswith("#!/bin/bash")
    for room in ("scripts", "slurm", "logs", "answers", "plots"):
        assert (folder.path / room).is_dir()
    assert LabFolder.open(folder.path) == folder


def test_files_that_are_there_stay_as_they_are(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "ResNet50.py").write_text("mine\n")
    folder = LabFolder.create(tmp_path, SETTINGS)
    assert folder.script_files()["ResNet50.py"] == b"mine\n"
    with pytest.raises(FolderError, match="already"):
        LabFolder.create(tmp_path, SETTINGS)
    own = folder.slurm / "templates" / "one-gpu.slurm"
    own.write_text("\ufeff#!/bin/bash\n# mine\n")
    assert folder.template("one-gpu") == "#!/bin/bash\n# mine\n"
    own.unlink()
    assert "#SBATCH" in folder.template("one-gpu")


def test_comments_and_other_tables_survive_saving(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)
    path = (tmp_path / "lab.toml").relative_to(tmp_path.parent)  # as `practice --keep DIR` names it
    cluster = 'profile = "mn5"\npractice = true\nport = 22\n[a]\nmood = "good"'
    path.write_text(f'\ufeff# ours\n[lab]\nedition = "a"  # the book\n[cluster]\n{cluster}')
    write_settings(path, with_changes(read_settings(path), port=None, user="nct00001"))
    text = path.read_text()
    assert all(kept in text for kept in ("# ours", "# the book", 'mood = "good"')) and "port" not in text
    assert read_settings(path).user == "nct00001"


@pytest.mark.parametrize("text", [
    *("", "[lab]\n", "not toml at all [", "lab = 3\n", "\x00\xff", "a." * 20_000 + "b = 1", '"=".' * 20_000 + "b = 1"),
    '[lab]\nedition = 5\n[cluster]\nprofile = "x"\n',
    '[lab]\nedition = "a"\n[cluster]\nprofile = "x"\ncontainer = "~/my.sif"\n',
    '[lab]\nedition = "a"\naccount = "it is one of [cluster]"\n[cluster]\nprofile = "x"\n',
])  # fmt: skip
def test_settings_that_do_not_fit_are_a_sentence(tmp_path, text):
    (tmp_path / "lab.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError) as caught:
        LabFolder.open(tmp_path).settings()
    assert caught.value.sentence and caught.value.hint
    (tmp_path / "lab.toml").write_text('[lab]\nedition = "a"\n[cluster]\nprofile = "x"\naccuont = "x"\n')
    with pytest.raises(DataError, match=r"no setting `accuont`\. Did you mean `account`"):
        LabFolder.open(tmp_path).settings()


def test_a_wrong_value_in_a_profile_names_file_key_and_kind(tmp_path):
    path, good = tmp_path / "cluster.toml", 'id = "x"\ntitle = "X"\nlogin_hosts = ["h"]\n'
    for line, told in (
        ('gpus_per_node = "four"', "gpus_per_node must be a whole number, not text."),
        ('[[queues]]\nmax_minutes = ""', "queue 1, max_minutes must be a whole number, not text."),
        ('[launch]\nruntime = "a"', "launch, runtime cannot be 'a'; it is one of apptainer, singularity."),
        ('[launch]\npyton = "python"', "`pyton` is not a field of launch. Did you mean `python`?"),
    ):
        path.write_text(good + line)
        with pytest.raises(DataError) as caught:
            load_profile("cluster.toml", tmp_path)
        assert caught.value.sentence == f"cluster.toml: {told}"
        assert caught.value.hint == f"Correct it in {path}."


def test_links_that_lead_out_hidden_files_and_data_do_not_travel(tmp_path):
    folder = LabFolder.create(tmp_path / "lab", SETTINGS)
    for name in ("../outside", "/etc/passwd", "scripts/../../x", "a/../../b"):
        with pytest.raises(FolderError, match="outside the lab folder"):
            folder.inside(name)
    (tmp_path / "private").write_text("key")
    (folder.scripts / "leak.py").symlink_to(tmp_path / "private")
    (folder.scripts / ".hidden.py").write_text("x")
    (folder.scripts / "__pycache__").mkdir()
    (folder.scripts / "__pycache__" / "a.pyc").write_text("x")
    assert not {"leak.py", ".hidden.py", "__pycache__/a.pyc"} & set(folder.script_files())
    (folder.scripts / "cifar.bin").write_bytes(bytes(3_000_000))
    with pytest.raises(FolderError, match=r"cifar\.bin"):
        folder.script_files()


def test_the_folder_is_found_from_below(tmp_path):
    folder = LabFolder.create(tmp_path / "lab", SETTINGS)
    assert find_folder(folder.scripts) == folder.path
    for place in (tmp_path, folder.path / "nowhere"):
        with pytest.raises(UsageError, match=r"not a lab folder|no lab folder in"):
            find_folder(place)


def test_own_forms_of_log_lines_are_kept_and_checked(tmp_path):
    path = tmp_path / "lab.toml"
    pattern = r"pass (?P<epoch>\d+): (?P<seconds>[\d.]+)"
    write_settings(path, with_changes(SETTINGS, log_patterns=(pattern,)))
    assert read_settings(path).log_patterns == (pattern,)
    write_settings(path, with_changes(read_settings(path), log_patterns=()))
    assert "log_patterns" not in path.read_text()
    with pytest.raises(DataError, match="no time and no rate"):
        with_changes(SETTINGS, log_patterns=("(?P<epoch>x)",))
