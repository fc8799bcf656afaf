"""Slurm's commands as the practice cluster answers them: sbatch, squeue, sacct, scontrol, scancel and a few more.

The texts and exit codes are those of Slurm 22.05, compared field by field with the real one by
`tests/contract/`. Where they
differ, this is wrong. Nothing here knows SSH or the laptop; time comes in as numbers, jobs are started by a `Runner`.
"""
