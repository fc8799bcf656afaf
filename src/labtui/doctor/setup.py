"""Sets up a key instead of a password, and a profile of a cluster that labtui does not know.

A private key never leaves this computer, and passwords and passphrases are not stored. For a profile, two commands ask
Slurm, the student is asked what Slurm cannot tell, and ``sbatch --test-only`` tries the smallest GPU job; nothing is
changed on the cluster.
"""

import os
import platform
import posixpath
import tomllib
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from labtui.cluster.connection import Connection
from labtui.cluster.target import LoginQuestion, Overrides, Prompter, public_half, resolve_hosts
from labtui.doctor.checks import Requirements, check_account, trial_options
from labtui.domain import decode
from labtui.domain.errors import LoginRefused, UsageError, failure, os_errors
from labtui.domain.profile import Profile
from labtui.slurm.job_control import SbatchAnswer, check_script
from labtui.slurm.probe import SlurmProbe, from_home, paths_exist, slurm_probe
from labtui.slurm.remote_command import Call, CommandResult, shell_file
from labtui.slurm.site_probe import SiteProbe, site_probe
from labtui.slurm.site_profile import Choices, SiteQuestion, qos_question, questions, site_profile

KEY_NAME = "id_ed25519"
AGENT_ADVICE = (
    "A passphrase protects the key if someone copies its file. An agent keeps the unlocked key until you log out, so "
    "that the passphrase is typed once: `ssh-add {path}`."
)


class KeySetup(NamedTuple):
    """Whether the key was made and whether it had to be sent; `login` describes the login that succeeded."""

    made: bool
    sent: bool
    login: str


def default_key() -> Path:
    """The key file in ``~/.ssh`` to use: the first that exists, else the one to make."""
    folder = Path.home() / ".ssh"
    known = (folder / name for name in (KEY_NAME, "id_ecdsa", "id_rsa"))
    return next((path for path in known if path.is_file()), folder / KEY_NAME)


def make_key(path: Path, passphrase: str, comment: str) -> None:
    """Make an Ed25519 key in OpenSSH's format, without protection if the passphrase is empty.

    Raises:
        UsageError: the file exists already (it is not replaced), or cannot be written.
    """
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    encryption = forms.BestAvailableEncryption(passphrase.encode()) if passphrase else forms.NoEncryption()
    private = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.OpenSSH, encryption)
    public = key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
    line = public + f" {comment}\n".encode()
    with os_errors("key-unwritten", path=path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file, data, mode in ((path, private, 0o600), (public_half(path), line, 0o644)):
            if file.exists():
                raise failure("key-exists", path=file)
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
                stream.write(data)


def send_key(public: str) -> Call[None]:
    """Add a public key to ``~/.ssh/authorized_keys`` unless it is there. Reading raises RemoteFailure."""
    script = shell_file("send-key")
    return Call(name="send-key", script=script, arguments=(public,), limit_s=60, read=_check_sent)


def _check_sent(result: CommandResult) -> None:
    if result.status == 0:
        return
    answer = result.err.strip().splitlines()
    raise failure("key-not-sent", text=f"Output: {answer[-1][:200]}" if answer else "")


def set_up_key(
    profile: Profile, overrides: Overrides, prompter: Prompter, path: Path, passphrase: str | None = None
) -> KeySetup:
    """Make the key in `path` if it is missing, send its public half, and log in with the key only.

    Raises:
        LoginRefused: the password was not accepted, or the server does not accept the key afterwards.
        UsageError: the key cannot be made or read.
        LabError: the cluster cannot be reached, or the public half cannot be stored there.
    """
    made = not path.exists()
    if made:
        make_key(path, passphrase or "", f"labtui@{platform.node() or 'laptop'}")
    public = _read_public(path)
    with_key = replace(overrides, identity=str(path))

    def key_only(question: LoginQuestion) -> str | None:
        return prompter(question) if question.kind in {"passphrase", "host-key"} else None

    try:  # the server may have the public half already
        return KeySetup(made, False, _login(profile, with_key, key_only))
    except LoginRefused as refusal:
        if refusal.reason in {"password-expired", "account-expired"}:
            raise
    _login(profile, with_key, prompter, public)
    try:
        return KeySetup(made, True, _login(profile, with_key, key_only))
    except LoginRefused as refusal:
        raise failure("key-not-taken", path=public_half(path), text=refusal.sentence) from None


def _login(profile: Profile, overrides: Overrides, prompter: Prompter, public: str = "") -> str:
    """Log in, send the public key if one is given, and log out; return user, host and methods in words."""
    connection = Connection(resolve_hosts(profile, overrides), prompter)
    try:
        connection.connect()
        if public:
            connection.ask(send_key(public))
        return f"{connection.endpoint.user} on {connection.host} by {' and '.join(connection.methods)}"
    finally:
        connection.close()


def _read_public(path: Path) -> str:
    with os_errors("no-public-half", path=public_half(path), key=path):
        text = public_half(path).read_text(encoding="utf-8").strip()
    if "\n" in text or not text.startswith(("ssh-", "ecdsa-", "sk-")):
        raise failure("not-public", path=public_half(path))
    return text


PROFILE_FILE = "cluster.toml"
"""The file in the lab folder with a profile made from the cluster's answers."""

Ask = Callable[[SiteQuestion, Callable[[str], Choices]], Choices]
"""Asks the student a question until its second argument takes the answer, and returns what that returns."""


class SiteSetup(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster's profile, and its text as TOML with the source of each value.

    `unknown` lists what the site did not tell. `trial` is Slurm's answer to the smallest job with this profile and
    `qos`, which jobs name in addition to their partition. `missing_paths` were named by the student but do not exist on
    the login node.
    """

    profile: Profile
    text: str
    unknown: tuple[str, ...]
    trial: SbatchAnswer
    qos: str = ""
    missing_paths: tuple[str, ...] = ()


def set_up_site(connection: Connection, host: str, choices: Choices, ask: Ask) -> SiteSetup:
    """Make the profile of the connected cluster; `host` is its name as the student wrote it.

    Raises:
        UsageError: Slurm says that the chosen account is not the student's, or that there is no such partition.
        LabError: the connection is gone, or the login shell does not start.
    """
    slurm, site = connection.ask(slurm_probe()), connection.ask(site_probe(choices.framework))
    _refuse_account(slurm, choices.account)
    answered: set[str] = set()

    def accept(question: SiteQuestion, answer: str) -> Choices:
        chosen = replace(choices, **{question.key: question.choose(answer)})
        _refuse_account(slurm, chosen.account)
        if question.key == "queue":
            tuple(questions(slurm, site, chosen))  # refuses one that is not the student's
        return chosen

    while question := next((q for q in questions(slurm, site, choices) if q.key not in answered), None):
        answered.add(question.key)
        choices = ask(question, partial(accept, question))
    if choices.data_dir:  # a job starts in a directory of its own
        choices = replace(choices, data_dir=posixpath.join(site.home, choices.data_dir.removeprefix("~/")))
    setup = _try_profile(connection, host, slurm, site, choices)
    question = qos_question(slurm, setup.profile.default_account)
    if setup.trial.key == "qos" and not choices.qos and question is not None:
        choices = ask(question, partial(accept, question))
        setup = _try_profile(connection, host, slurm, site, choices)
    training = choices.training if choices.training.startswith("/") else ""
    named = [path for path in (training, choices.data_dir) if path]
    exists = connection.ask(paths_exist(named)) if named else {}
    return replace(setup, missing_paths=tuple(from_home(path) for path in named if not exists[path]))


def _refuse_account(slurm: SlurmProbe, account: str) -> None:
    """Raise UsageError if Slurm says that the account is not the student's; the hint names one that is."""
    check = check_account(slurm, account)
    if suggested := check.settings.get("account"):
        raise UsageError(check.sentence, f"--account {suggested}")


def _try_profile(
    connection: Connection, host: str, slurm: SlurmProbe, site: SiteProbe, choices: Choices
) -> SiteSetup:
    text, unknown = site_profile(host, slurm, site, choices, date.today().isoformat())
    try:
        profile = decode.convert(tomllib.loads(text), Profile)
    except msgspec.ValidationError as error:
        raise failure("bad-image", text=error) from error
    qos = choices.qos if profile.queue_option == "partition" else ""
    wanted = Requirements(qos=qos, account=profile.default_account)
    options = trial_options(profile, wanted, gpus=min(1, profile.gpus_per_node))
    trial = connection.ask(check_script(options=options))
    return SiteSetup(profile=profile, text=text, unknown=unknown, trial=trial, qos=qos)
