"""The rehearsal cluster: an SSH server in this process with Slurm's commands behind it.

labtui reaches it through SSH only, as a real cluster; it imports neither the session nor the screens.
"""
