"""The rehearsal cluster: an SSH server in this process with Slurm's commands behind it.

What may not enter: the screens, the session. It meets labtui only through SSH, as a real cluster does.
"""
