"""`labtui` and `python -m labtui`."""

import sys


def main() -> int:
    """Run labtui and return the exit code, also if it is interrupted while it is imported."""
    try:
        from labtui.commands.cli import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
