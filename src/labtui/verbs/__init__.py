"""One module per verb of the command line: `add_arguments(parser)` and `run(args) -> int`.

A verb does without a terminal what the screens do, through the same engine. Heavy imports stay
inside `run`, so that `labtui --help` is instant.
"""
