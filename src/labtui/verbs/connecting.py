"""What several verbs share about connecting: options that say where and who, questions on the terminal."""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labtui.cluster.prompts import Prompter, Question
    from labtui.cluster.target import Overrides
    from labtui.core.doctor import Wanted


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for everything the wizard asks about the cluster."""
    group = parser.add_argument_group("the cluster")
    group.add_argument(
        "--cluster",
        "--profile",
        dest="cluster",
        metavar="PROFILE",
        help="cluster profile: an id, or a .toml file",
    )
    group.add_argument("--host", metavar="H", help="login host, or its name in your SSH configuration")
    group.add_argument("--port", metavar="N", type=int, help="its SSH port")
    group.add_argument("--user", metavar="U", help="your user name there")
    group.add_argument("--identity", metavar="FILE", help="the private key to use")
    group.add_argument("--host-key", metavar="SHA256:...", help="the fingerprint the host must show")
    group.add_argument("--account", metavar="A", help="the account jobs are charged to")
    group.add_argument("--qos", metavar="Q", help="the QoS for GPU jobs")
    group.add_argument("--root", metavar="DIR", help="the remote folder to work under")


def overrides_of(args: argparse.Namespace) -> Overrides:
    """The connection part of the options."""
    from labtui.cluster.target import Overrides

    return Overrides(
        hosts=(args.host,) if args.host else (),
        port=args.port,
        user=args.user or "",
        identity_file=args.identity or "",
        host_key=args.host_key or "",
    )


def wanted_of(args: argparse.Namespace) -> Wanted:
    """The Slurm part of the options."""
    from labtui.core.doctor import Wanted

    return Wanted(account=args.account or "", qos=args.qos or "", root=args.root or "")


class TerminalPrompter:
    """Asks on the terminal. What is typed is not shown unless the question allows it."""

    def ask(self, question: Question) -> str | None:
        """The answer; None when the student just presses Enter at a yes/no question, or Ctrl+D."""
        text = plain(question.text)
        try:
            if question.kind == "host-key":
                print(text, file=sys.stderr)
                return self._line("Type yes to accept it: ")
            if question.echo:
                return self._line(f"{text} ")
            return getpass.getpass(f"{text} ", stream=sys.stderr)
        except EOFError:
            return None

    @staticmethod
    def _line(text: str) -> str:
        print(text, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.strip()


def prompter_here() -> Prompter:
    """The terminal when there is one on stdin; otherwise nobody, so that nothing is asked."""
    from labtui.cluster.prompts import NobodyThere

    return TerminalPrompter() if sys.stdin is not None and sys.stdin.isatty() else NobodyThere()


def plain(text: str) -> str:
    """Text from outside for a terminal: control characters become visible and do nothing."""
    return "".join(
        letter if letter in "\n\t" or letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text
    )
