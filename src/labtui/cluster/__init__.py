"""The one way to a cluster: SSH.

Everything here blocks. One thread (the worker) connects and moves files; commands may also run beside it, two at a
time. The session decides when to ask. The practice cluster is reached through here as well.
"""
