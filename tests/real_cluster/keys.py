"""Keys of one cluster: host keys, the student's keys (plain, encrypted, certified), a key that is not accepted."""

from pathlib import Path

from tests.openssh import keygen
from tests.real_cluster.settings import ClusterSettings


def make_keys(folder: Path, settings: ClusterSettings) -> None:
    """Write all keys into `folder` (created). ``id_certified`` logs in by its certificate alone."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, passphrase in (
        ("id_ed25519", ""), ("id_encrypted", settings.passphrase), ("id_certified", ""), ("id_stranger", ""),
        ("ca", ""), ("test_host_ed25519", ""),
    ):  # fmt: skip
        keygen("-t", "ed25519", "-N", passphrase, "-C", f"{name}@test", "-f", folder / name)
    keygen("-t", "ecdsa", "-N", "", "-C", "host@test", "-f", folder / "test_host_ecdsa")
    keygen(
        "-s", folder / "ca", "-I", "student", "-n", settings.user, "-V", "+1d", folder / "id_certified.pub"
    )


def replace_host_keys(folder: Path) -> None:
    """Replace the host keys, as after a reinstallation (or in an attack)."""
    for kind in ("ed25519", "ecdsa"):
        path = folder / f"test_host_{kind}"
        path.unlink()
        path.with_suffix(".pub").unlink()
        keygen("-t", kind, "-N", "", "-C", "new-host@test", "-f", path)


def fingerprint(public_key: Path) -> str:
    return keygen("-l", "-E", "sha256", "-f", public_key).split()[1]
