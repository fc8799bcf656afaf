"""Slurm's commands and the readers of their answers, in pairs; its words in plain language."""
