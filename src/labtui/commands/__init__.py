"""The commands of the command line, by subject: `run_NAME(args) -> int` and perhaps `NAME_arguments(parser)` for each.

A command does what the screens do, through the same session, but needs no terminal. Heavy imports are inside the
functions, so that `labtui --help` is instant. `cli.COMMANDS` has each command's module and shared options.
"""
