"""Try both README commands on a bare Debian: `make practice` and `make test`, as root and as an ordinary user.

Builds a Debian root with debootstrap (python3, python3-venv, make, git and what these need), clones the committed
checkout into a copy of it, and runs the commands there in namespaces of their own. Needs root, debootstrap and the
network. Uses only the standard library, because it runs before anything is set up.

    python3 tools/fresh.py [--as root|user] [--only practice|test] [--keep] [--folder DIR] [PYTEST ARGUMENT ...]
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass, field
from fcntl import ioctl
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
FOLDER = Path("/var/tmp/labtui-fresh")
SUITE = "bookworm"
PACKAGES = "python3,python3-venv,make,git"
USER_ID = 1000
NETWORK = re.compile(r"(PIP_\w+|\w*_proxy|\w*_PROXY|SSL_CERT_FILE|REQUESTS_CA_BUNDLE)")
COPIED = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf")
OPENING_S, LEAVING_S = 900.0, 60.0

ENTER = """
set -e
mount --bind "$0" "$0"  # a mount point, so that programs inside can change how mounts propagate
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"  # with control groups, as in a booted system
mount --rbind /dev "$0/dev"
mount -t tmpfs -o mode=1777 shm "$0/dev/shm"
mount -t tmpfs -o mode=755 run "$0/run"
exec chroot "$0" "$@"
"""


@dataclass
class Outcome:
    """The outcome of a command for a user; `lines` are its last lines and what it skipped."""

    command: str
    user: str
    status: int
    lines: list[str] = field(default_factory=list)


# ---------------------------------------------------------------------------------------- the bare system


def base_root(folder: Path) -> Path:
    """The Debian root, made on first use."""
    base = folder / SUITE
    if base.exists():
        return base
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        sys.exit("`make fresh` needs root and debootstrap (Debian package debootstrap).")
    partial = folder / f"{SUITE}.partial"
    remove(partial)
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Building Debian {SUITE} in {base} ...", flush=True)
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(partial)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"debootstrap failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    partial.rename(base)
    return base


def new_machine(base: Path, root: Path) -> None:
    """A copy of the base with this machine's network settings, a user, and a clone each for root and for the user."""
    remove(root)
    subprocess.run(["cp", "-a", "--reflink=auto", str(base), str(root)], check=True)
    certificates = {os.environ.get(name, "") for name in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")}
    for name in {*COPIED, *certificates} - {""}:
        if Path(name).is_file():
            target = root / name.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copy(name, target)
    acquire = subprocess.run(
        ["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True
    ).stdout
    proxies = [line for line in acquire.splitlines() if "roxy" in line or "Check-" in line]
    (root / "etc/apt/apt.conf.d/90network").write_text("".join(line + "\n" for line in proxies))
    subprocess.run(
        ["chroot", root, "useradd", "-m", "-u", str(USER_ID), "-s", "/bin/bash", "student"], check=True
    )
    for home in (root / "root", root / "home/student"):
        clone = ["git", "-c", "safe.directory=*", "clone", "-q", "--no-hardlinks", str(CHECKOUT)]
        subprocess.run([*clone, str(home / "labtui")], check=True)
    subprocess.run(["chown", "-R", f"{USER_ID}:{USER_ID}", str(root / "home/student")], check=True)


def remove(root: Path) -> None:
    """Delete a tree, but never through a mount."""
    if any(
        line.split()[4].startswith(f"{root}/")
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
    ):
        sys.exit(f"something is mounted below {root}: unmount it first; nothing was deleted")
    if root.exists():
        shutil.rmtree(root)


def inside(root: Path, user: str, command: str) -> list[str]:
    """The command line that runs a shell command in the user's clone, in namespaces that end with it."""
    home = "/root" if user == "root" else f"/home/{user}"
    path = "/usr/local/bin:/usr/bin:/bin"
    environment = {
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/bash",
        "TERM": "xterm-256color",
        "PATH": f"/usr/local/sbin:{path}:/usr/sbin:/sbin" if user == "root" else path,
        **{name: value for name, value in os.environ.items() if NETWORK.fullmatch(name)},
    }
    environment.pop("PIP_FIND_LINKS", None)  # a directory outside the new root
    become = (
        [] if user == "root" else ["setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--init-groups"]
    )
    return [
        *(
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--uts",
            "--ipc",
            "sh",
            "-c",
            ENTER,
            str(root),
        ),
        *(*become, "env", "-i", *(f"{name}={value}" for name, value in environment.items())),
        *("sh", "-c", f"cd {home}/labtui && {command}"),
    ]


# ------------------------------------------------------------------------------------------- the commands


def try_practice(root: Path, user: str) -> Outcome:
    """Run `make practice` on a terminal until it is online on the practice cluster, and leave it with q."""
    outcome = Outcome("make practice", user, 1)
    child, terminal = pty.fork()
    if child == 0:
        words = inside(root, user, "make practice")
        os.execvp(words[0], words)
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    screen = Screen(terminal)
    try:
        for wanted, keys, limit_s in (
            ("● online", "", OPENING_S),
            ("Step 1 of 3", "\r", LEAVING_S),
            ("Step 2 of 3", "\r", LEAVING_S),
            ("Step 3 of 3", "\r", LEAVING_S),
            ("Hints", "q", LEAVING_S),  # what was behind the dialog
            ("is not kept", "y", LEAVING_S),
            ("", "", LEAVING_S),
        ):
            if not screen.come_to(wanted, limit_s):
                outcome.lines = [
                    f"never showed {wanted!r}" if wanted else "did not end",
                    *screen.last_lines(),
                ]
                os.kill(child, signal.SIGKILL)
                return outcome
            if keys:
                screen.forget()
                os.write(terminal, keys.encode())
    finally:
        _, status = os.waitpid(child, 0)
        os.close(terminal)
    outcome.status = os.waitstatus_to_exitcode(status)
    outcome.lines = ["opened, online, left with q"] if outcome.status == 0 else screen.last_lines()
    return outcome


class Screen:
    """The output of a program on a terminal, without escape sequences."""

    SEQUENCE = re.compile(r"\x1b(\[[0-9;:?<=>]*[ -/]*[@-~]|[\]P_^X][^\x1b\x07]*(\x07|\x1b\\)|[ -/]*[0-~])")

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._data = b""

    def text(self) -> str:
        return self.SEQUENCE.sub(" ", self._data.decode("utf-8", "replace"))

    def forget(self) -> None:
        self._data = b""

    def come_to(self, wanted: str, limit_s: float) -> bool:
        """Read until the words are there or, without words, until the program has closed the terminal."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if wanted and wanted in self.text():
                return True
            if select.select([self._terminal], [], [], 0.5)[0]:
                try:
                    data = os.read(self._terminal, 65536)
                except OSError:  # Linux's sign that the other side is closed
                    data = b""
                if not data:
                    return not wanted
                self._data += data
        return False

    def last_lines(self) -> list[str]:
        return [line for line in self.text().splitlines() if line.strip()][-25:]


def try_tests(root: Path, user: str, arguments: list[str]) -> Outcome:
    """Run `make test` and print its output; the outcome has failed and skipped tests and pytest's last line."""
    outcome = Outcome("make test", user, 1)
    command = "make test" + (f" PYTEST_ARGS={shlex.quote(shlex.join(arguments))}" if arguments else "")
    with subprocess.Popen(
        inside(root, user, command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, encoding="utf-8", errors="replace",
    ) as process:  # fmt: skip
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if line.startswith(("FAILED ", "ERROR ", "SKIPPED ")) or "tests were SKIPPED" in line:
                outcome.lines.append(line.rstrip())
            elif re.search(r"\d+ (passed|failed|skipped|error).* in [\d.]+s", line):
                outcome.lines.append(line.strip(" =\n"))
    outcome.status = process.returncode
    return outcome


def main(argv: list[str]) -> int:
    """Run both commands for both users; return 0 if all worked."""
    parser = argparse.ArgumentParser(prog="tools/fresh.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--as", dest="user", choices=("root", "user"), help="only as this user")
    parser.add_argument("--only", choices=("practice", "test"), help="only this command")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"where the systems are built ({FOLDER})")
    parser.add_argument("--keep", action="store_true", help="keep the machine that was tried, for a look")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    options = parser.parse_args(argv)
    base = base_root(options.folder)
    outcomes = []
    for user in ("root", "student"):
        if options.user not in (None, "root" if user == "root" else "user"):
            continue
        root = options.folder / f"machine-{user}"
        new_machine(base, root)  # for each user, so that what root's run installed is not there for the other
        if options.only != "test":
            print(f"== make practice, as {user}", flush=True)
            outcomes.append(try_practice(root, user))
        if options.only != "practice":
            print(f"== make test, as {user}", flush=True)
            outcomes.append(try_tests(root, user, options.pytest))
        if not options.keep:
            remove(root)
    for outcome in outcomes:
        verdict = "works" if outcome.status == 0 else f"FAILED (exit status {outcome.status})"
        print(f"\n{outcome.command}, as {outcome.user}: {verdict}", *outcome.lines, sep="\n  ")
    return 1 if any(outcome.status for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
