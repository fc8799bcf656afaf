"""Slurm's commands, each with the reader of its answer, and plain sentences for Slurm's own words."""
