"""The practice cluster: an SSH server in this process, with Slurm's commands behind it.

labtui reaches it through SSH only, like a real cluster. Of labtui's session it uses the reader of profiles alone.
"""
