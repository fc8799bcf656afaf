"""The practice cluster: an SSH server in this process, with Slurm's commands behind it.

labtui reaches it through SSH only, like a real cluster. It knows neither sessions nor screens.
"""
