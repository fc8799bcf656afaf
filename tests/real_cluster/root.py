"""The file system of a cluster: a tmpfs with the host's programs bound into it and everything else its own.

Runs inside the supervisor's mount namespace; nothing here is ever seen, or has to be removed, outside.
`/usr`, `/opt` and the like come from `base_root` by bind mount; `/etc` is a copy; `/var`, `/home`, `/gpfs`,
`/tmp` lie in the cluster's folder; `/run`, `/root` and `/apps` are fresh.
"""

import os
import shutil
import stat
import subprocess
from pathlib import Path

from tests.real_cluster import configs
from tests.real_cluster.dataset import write_cifar
from tests.real_cluster.settings import ClusterSettings
from tests.real_cluster.sites import site_of

SITE = Path(__file__).parent / "site"
STUDENT_UID = 26_000
GROUP_GID = 26_000
OWN = ("var", "home", "gpfs", "tmp")
"""Directories in the cluster's folder, which can be inspected after the cluster has ended."""
NOT_BOUND = {*OWN, "etc", "proc", "sys", "dev", "run", "root", "apps", "boot", "media", "mnt", "lost+found"}


def run(*argv: str | Path, stdin: bytes = b"") -> bytes:
    done = subprocess.run([str(part) for part in argv], input=stdin, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{argv[0]} failed ({done.returncode}): {done.stderr.decode(errors='replace').strip()}"
        )
    return done.stdout


def build_root(folder: Path, settings: ClusterSettings) -> Path:
    root = folder / "root"
    root.mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "mode=755,size=256m", "cluster-root", root)
    _bind_programs(Path(settings.base_root), root)
    for name in OWN:
        (folder / name).mkdir(exist_ok=True)
        (root / name).mkdir()
        run("mount", "--bind", folder / name, root / name)
    (root / "tmp").chmod(0o1777)
    for name in ("run", "root", "apps", "mnt"):
        (root / name).mkdir()
    shutil.copytree(Path(settings.base_root) / "etc", root / "etc", symlinks=True)
    _system_directories(root)
    _add_student(root, settings)
    _write_configs(folder, root, settings)
    _reveal_python(root, settings)
    _install_programs(root, settings)
    (root / settings.container.lstrip("/")).write_bytes(b"SIF_FAKE\n")
    write_cifar(root / settings.data_dir.lstrip("/"), per_file=settings.images_per_batch_file)
    _hide_programs(folder, root, settings)
    return root


def _bind_programs(base: Path, root: Path) -> None:
    for entry in sorted(base.iterdir()):
        target = root / entry.name
        if entry.is_symlink():
            target.symlink_to(entry.readlink())
        elif entry.is_dir() and entry.name not in NOT_BOUND:
            target.mkdir()
            run("mount", "--rbind", entry, target)
            run("mount", "--make-rslave", target)
    for name in ("proc", "sys", "dev"):
        (root / name).mkdir()
    run("mount", "-t", "proc", "proc", root / "proc")
    for name in ("sys", "dev"):
        run("mount", "--rbind", f"/{name}", root / name)
        run("mount", "--make-rslave", root / name)


def _system_directories(root: Path) -> None:
    for name in (
        "run/munge", "run/sshd", "run/mysqld", "run/lock", "var/log/munge", "var/lib/munge", "var/lib/mysql",
        "run/gpu", "var/spool/slurmctld", "var/tmp", "etc/slurm", "etc/ssh/authorized_keys",
    ):  # fmt: skip
        (root / name).mkdir(parents=True, exist_ok=True)
    for minor in range(8):  # slurmd wants device files; nobody opens these
        os.mknod(root / f"run/gpu/nvidia{minor}", 0o666 | stat.S_IFCHR, os.makedev(195, minor))
    users = {
        fields[0]: (int(fields[2]), int(fields[3]))
        for fields in (line.split(":") for line in (root / "etc/passwd").read_text().splitlines())
        if len(fields) > 3
    }
    for name in ("run/munge", "var/log/munge", "var/lib/munge"):
        os.chown(root / name, *users["munge"])
    for name in ("run/mysqld", "var/lib/mysql"):
        os.chown(root / name, *users["mysql"])
    key = root / "etc/munge/munge.key"
    key.parent.mkdir(exist_ok=True)
    key.unlink(missing_ok=True)
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    os.chown(key, *users["munge"])
    os.chown(key.parent, *users["munge"])
    key.parent.chmod(0o700)


def _add_student(root: Path, settings: ClusterSettings) -> None:
    hashed = run("openssl", "passwd", "-6", "-stdin", stdin=settings.password.encode()).decode().strip()
    with (root / "etc/group").open("a") as group:
        group.write(f"{settings.account}:x:{GROUP_GID}:\n")
    with (root / "etc/passwd").open("a") as passwd:
        passwd.write(f"{settings.user}:x:{STUDENT_UID}:{GROUP_GID}:Student:{settings.home}:/bin/bash\n")
    with (root / "etc/shadow").open("a") as shadow:
        shadow.write(f"{settings.user}:{hashed}:20000:0:99999:7:::\n")
    for name, mode in ((settings.home, 0o700), (settings.scratch, 0o750), (settings.projects, 0o755)):
        path = root / name.lstrip("/")
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(mode)
        os.chown(path, STUDENT_UID, GROUP_GID)


def _write_configs(folder: Path, root: Path, settings: ClusterSettings) -> None:
    etc = root / "etc"
    (etc / "hosts").write_text(configs.hosts(settings))
    (etc / "hostname").write_text(settings.hostname + "\n")
    (etc / "slurm/slurm.conf").write_text(configs.slurm_conf(settings))
    (etc / "slurm/gres.conf").write_text(configs.gres_conf(settings))
    dbd = etc / "slurm/slurmdbd.conf"
    dbd.write_text(configs.slurmdbd_conf(settings))
    dbd.chmod(0o600)
    version = run("chroot", root, "/usr/bin/sbatch", "--version").split()[1].decode()
    if not version.startswith("22."):
        (etc / "slurm/cgroup.conf").write_text("CgroupPlugin=disabled\n")
    shutil.copy(SITE / "job_submit.lua", etc / "slurm/job_submit.lua")
    for name in configs.LOGINS:
        (etc / f"ssh/sshd_{name}").write_text(configs.sshd_config(settings, name))
    (etc / "pam.d/sshd-pam").write_text(configs.PAM_ACCOUNT)
    for key in (folder / "keys").glob("test_host_*"):
        shutil.copy(key, etc / "ssh" / key.name)
    shutil.copy(folder / "keys/ca.pub", etc / "ssh/user_ca.pub")
    (etc / "ssh/authorized_keys" / settings.user).write_text(
        (folder / "keys/id_ed25519.pub").read_text() + (folder / "keys/id_encrypted.pub").read_text()
    )
    (etc / "issue.net").write_text("Access to this machine is for authorised users. (rehearsal)\n")
    (etc / "verification-code").write_text(settings.code + "\n")
    (etc / "verification-code").chmod(0o600)
    (etc / "pam.d/sshd").write_text(
        "auth required /apps/pam/pam_code.so\naccount required pam_permit.so\n"
        "session required pam_permit.so\n"
    )
    (etc / "profile").write_text(
        "export PATH=/usr/local/bin:/usr/bin:/bin:/usr/games:/apps/driver/bin\n"
        "for part in /etc/profile.d/*.sh; do . $part; done\nunset part\n"
    )
    shutil.rmtree(etc / "profile.d", ignore_errors=True)
    (etc / "profile.d").mkdir()
    shutil.copy(SITE / "modules.sh", etc / "profile.d/modules.sh")
    set_noise(root, settings)


def set_noise(root: Path, settings: ClusterSettings) -> None:
    path = root / "etc/profile.d/noise.sh"
    path.unlink(missing_ok=True)
    if settings.noisy_login:
        shutil.copy(SITE / "noise.sh", path)


def _reveal_python(root: Path, settings: ClusterSettings) -> None:
    """Make the test environments' Python reachable for the student (it may lie under a private /root or /tmp)."""
    beside = Path(settings.python).parents[2] / ".venv-torch" / "bin" / "python"
    torch = Path(os.environ.get("LABTUI_TORCH_PYTHON") or beside)
    prefixes = [*_python_prefixes(settings.python), *(_python_prefixes(str(torch)) if torch.exists() else ())]
    for prefix in dict.fromkeys(prefixes):
        inside = root / str(prefix).lstrip("/")
        above = [path for path in reversed(inside.parents) if root in path.parents and path.exists()]
        hidden = next((path for path in above if not path.stat().st_mode & 0o001), None)
        if hidden is not None:
            run("mount", "-t", "tmpfs", "-o", "mode=755,size=1m", "cover", hidden)
        if not inside.exists():
            inside.mkdir(parents=True)
            run("mount", "--rbind", prefix, inside)


def _python_prefixes(python: str) -> list[Path]:
    text = run(python, "-c", "import sys; print(sys.prefix); print(sys.base_prefix)").decode()
    return [Path(line) for line in dict.fromkeys(text.split("\n")) if line and not line.startswith("/usr")]


def _install_programs(root: Path, settings: ClusterSettings) -> None:
    apps = root / "apps"
    for name in ("container/bin", "driver/bin", "modules/singularity/bin", "modules/python/bin", "pam"):
        (apps / name).mkdir(parents=True)
    for name in ("container/bin/python", "container/bin/python3", "modules/python/bin/python"):
        _script(apps / name, f'#!/bin/bash\nexec {settings.python} "$@"\n')
    _script(apps / "modules/singularity/bin/singularity", (SITE / "singularity").read_text())
    shutil.copy(SITE / "nvidia_smi.py", apps / "driver/nvidia_smi.py")
    smi = f'#!/bin/bash\nexec {settings.python} -S -E /apps/driver/nvidia_smi.py "$@"\n'
    _script(apps / "driver/bin/nvidia-smi", smi)
    (apps / "sbin").mkdir()
    (apps / "sbin/sshd-pam").symlink_to("/usr/sbin/sshd")  # its name is the name of its PAM service
    run("cc", "-shared", "-fPIC", "-o", apps / "pam/pam_code.so", SITE / "pam_code.c")


def _hide_programs(folder: Path, root: Path, settings: ClusterSettings) -> None:
    """Take the student's permission to run some programs; root still may."""
    for name in site_of(settings).hidden:
        program = root / "usr/bin" / name
        own = folder / f"hidden-{name}"
        shutil.copy(program, own)
        own.chmod(0o700)
        run("mount", "--bind", own, program)


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
