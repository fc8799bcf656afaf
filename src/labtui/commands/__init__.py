"""The commands of the command line, by subject: `NAME_arguments(parser)` and `run_NAME(args) -> int` for each.

A command does without a terminal what the screens do, through the same session. Heavy imports stay inside the functions
that run, so that `labtui --help` is instant. `cli` knows which module holds which command.
"""
