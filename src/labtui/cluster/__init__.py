"""SSH, the only way to a cluster; the practice cluster is reached through it as well.

Everything here blocks. One thread (the worker) connects and transfers files; other threads may run commands, two at a
time. The session decides when.
"""
