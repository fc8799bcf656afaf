"""Keys of one cluster: host keys, the student's keys (plain, encrypted, certified), a key nobody accepts."""

import subprocess
from pathlib import Path

from tests.real_cluster.settings import ClusterSettings


def _keygen(*arguments: str | Path) -> str:
    done = subprocess.run(
        ["ssh-keygen", "-q", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


def make_keys(folder: Path, settings: ClusterSettings) -> None:
    """Write all keys into `folder` (created). ``id_certified`` logs in by its certificate alone."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, passphrase in (
        ("id_ed25519", ""), ("id_encrypted", settings.passphrase), ("id_certified", ""), ("id_stranger", ""),
        ("ca", ""), ("test_host_ed25519", ""),
    ):  # fmt: skip
        _keygen("-t", "ed25519", "-N", passphrase, "-C", f"{name}@test", "-f", folder / name)
    _keygen("-t", "ecdsa", "-N", "", "-C", "host@test", "-f", folder / "test_host_ecdsa")
    _keygen(
        "-s", folder / "ca", "-I", "student", "-n", settings.user, "-V", "+1d", folder / "id_certified.pub"
    )


def replace_host_keys(folder: Path) -> None:
    """New host keys in the place of the old ones, as after a reinstallation (or an attack)."""
    for kind in ("ed25519", "ecdsa"):
        path = folder / f"test_host_{kind}"
        path.unlink()
        path.with_suffix(".pub").unlink()
        _keygen("-t", kind, "-N", "", "-C", "new-host@test", "-f", path)


def fingerprint(public_key: Path) -> str:
    return _keygen("-l", "-E", "sha256", "-f", public_key).split()[1]
