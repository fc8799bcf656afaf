"""Connection data as OpenSSH resolves it, by the ssh program."""

import os
import pwd
import re
import shutil
from pathlib import Path

import pytest

from labtui.cluster.target import Endpoint, Overrides, resolve_hosts
from labtui.domain.errors import DataError, UsageError
from labtui.domain.profile import Profile, split_address
from labtui.session.settings import list_profiles, load_profile, parse_profile
from tests.openssh import needs_openssh

CONFIG = Path(__file__).with_name("ssh_config").read_text(encoding="utf-8")


def endpoint(
    tmp_path: Path, host: str, config: str = CONFIG, profile: Profile | None = None, **values: object
) -> Endpoint:
    path = tmp_path / "config"
    path.write_text(config)
    overrides = Overrides(host=host, config_file=path, **values)  # type: ignore[arg-type]
    return resolve_hosts(profile or Profile(id="x", title="x", login_hosts=()), overrides)[0]


@needs_openssh
def test_a_host_of_the_configuration(tmp_path):
    found = endpoint(tmp_path, "mn5")
    assert (found.host, found.user, found.port) == ("alogin1.bsc.es", "nct01000", 2200)
    assert found.identity_files == (Path("~/keys/mn5").expanduser(),) and found.identity_configured
    assert found.certificate_files == (Path("~/keys/mn5-cert.pub").expanduser(),)
    assert found.host_key_alias == "marenostrum"
    # ssh -G expands "~" by the account, whatever HOME says.
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert found.known_hosts[:2] == (home / "k h1", home / "kh2")
    assert found.connect_timeout_s == 7
    (gate,) = found.jumps
    assert (gate.host, gate.user, gate.agent) == ("gate.example", "door", "none")
    hops = [(hop.host, hop.user, hop.port) for hop in endpoint(tmp_path, "chain").jumps]
    assert hops == [("gate.example", "door", 22), ("second", "me", 2222)]
    assert endpoint(tmp_path, "tunnelled").proxy_command == "nc -x proxy inner.example 22"


def test_what_the_lab_folder_says_goes_first(tmp_path):
    found = endpoint(tmp_path, "mn5", user="other", port=23, identity="/k", host_key="SHA256:x")
    assert (found.user, found.port, found.host_key) == ("other", 23, "SHA256:x")
    assert found.identity_files == (Path("/k"),)
    for odd in ("a b", "me\nProxyCommand touch x", "\t"):
        with pytest.raises(UsageError, match="not a user name"):
            endpoint(tmp_path, "plain.example", user=odd)


@needs_openssh
@pytest.mark.parametrize("config", [CONFIG, "Host self\n  Port\n"], ids=["a jump in a circle", "broken"])
def test_a_configuration_that_cannot_be_followed_is_told(tmp_path, config):
    with pytest.raises(UsageError) as caught:
        endpoint(tmp_path, "self", config=config)
    assert caught.value.sentence and caught.value.hint


@needs_openssh
def test_without_a_configuration_the_defaults_are_named_by_nobody(tmp_path):
    found = endpoint(tmp_path, "plain.example", config="")
    assert (found.host, found.port, found.identity_configured) == ("plain.example", 22, False)
    assert Path("~/.ssh/id_ed25519").expanduser() in found.identity_files
    both = "Host mine\n IdentityFile ~/.ssh/id_mine\n IdentityFile ~/.ssh/id_lab\n"
    two = endpoint(tmp_path, "mine", config=both)
    assert two.identity_configured and [each.name for each in two.identity_files] == ["id_mine", "id_lab"]


def test_without_the_ssh_program_what_is_named_counts_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = endpoint(tmp_path, "me@mn5:2222", identity="/k")
    assert (found.host, found.user, found.port, found.identity_files) == ("mn5", "me", 2222, (Path("/k"),))


def test_the_profiles_hosts_in_turn_and_none_is_a_sentence(tmp_path):
    (tmp_path / "config").write_text(CONFIG)
    profile = Profile(id="x", title="x", login_hosts=("one.example", "two.example"), user="u", port=77)
    overrides = Overrides(config_file=tmp_path / "config")
    found = [(item.host, item.user, item.port) for item in resolve_hosts(profile, overrides)]
    assert found == [("one.example", "u", 77), ("two.example", "u", 77)]
    with pytest.raises(UsageError, match="No login host"):
        resolve_hosts(Profile(id="x", title="x", login_hosts=()), Overrides())


@pytest.mark.parametrize(("text", "parts"), [
    *(("host", ("", "host", None)), ("me@host:22", ("me", "host", 22))),
    *(("a@b@host", ("a@b", "host", None)), ("ssh://me@host:2222/", ("me", "host", 2222))),
    *(("[::1]:22", ("", "::1", 22)), ("fe80::1", ("", "fe80::1", None))),
])  # fmt: skip
def test_addresses(text, parts):
    assert split_address(text) == parts
    for odd in ("", "-oProxyCommand=x", "a b", "h;id", "$(id)", "h:port", "-l@host", "a'b", "h\nh", "me@"):
        with pytest.raises(UsageError):
            split_address(odd)


@pytest.mark.parametrize("name", list_profiles())
def test_every_profile_is_complete(name):
    profile = load_profile(name)
    assert profile.id == name and profile.title
    assert {profile.gpu_queue, profile.cpu_queue} - {""} <= {queue.name for queue in profile.queues}
    assert profile.cpus_per_gpu * profile.gpus_per_node <= profile.cpus_per_node
    assert not re.findall(r"\bnct_\d+", " ".join((profile.root, profile.data_dir, profile.container)))


def test_marenostrum_5():
    profile = load_profile("mn5")
    debug = profile.queue("acc_debug")
    assert debug is not None and (debug.max_submit_per_user, debug.max_minutes) == (1, 120)
    assert profile.cpus_per_gpu == 20 and profile.gpus_per_node == 4
    assert "--mem" in profile.forbidden
    assert "{account}" in profile.root and "{user}" in profile.root
    names = [name for name in ("nct_345", "bsc99") if re.fullmatch(profile.account_pattern, name)]
    assert names == ["nct_345"]


def test_a_profile_that_an_earlier_version_wrote_is_read():
    text = 'id = "old"\ntitle = "Old"\nlogin_hosts = ["login1"]\n'
    assert parse_profile(f"{text}memory_gb_per_node = 512\n", "old") == parse_profile(text, "old")
    with pytest.raises(DataError, match=r"profile old has no setting `dat_dir`\. Did you mean `data_dir`"):
        parse_profile(f'{text}dat_dir = "/x"\n', "old")
    with pytest.raises(DataError, match="profile old has no setting ``"):
        parse_profile(f'{text}"" = 1\n', "old")
    with pytest.raises(DataError, match="must be an absolute path"):
        parse_profile(f'{text}[launch]\ncontainer = "my.sif"\n', "old")
