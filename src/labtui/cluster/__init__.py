"""The one way to a cluster: SSH.

Everything here blocks and belongs to one thread (the lane). What may not enter: screens, the
lab folder, decisions about when to ask. The practice cluster is reached through here as well.
"""
