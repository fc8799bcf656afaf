"""labtui: run the parallel-training lab on a Slurm cluster from one terminal window.

Importing the package loads nothing else; `labtui.commands.cli` is the entry point.
"""

__version__ = "0.1.0"
