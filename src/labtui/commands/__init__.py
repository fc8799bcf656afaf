"""The commands of the command line, by subject: `NAME_arguments(parser)` and `run_NAME(args) -> int` for each.

A command does what the screens do, through the same session, but needs no terminal. Heavy imports are inside the
functions, so that `labtui --help` is instant. `cli.COMMANDS` lists the module of each command.
"""
