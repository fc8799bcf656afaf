"""The lab folder's store, the session, and the worker: the one thread that owns SSH.

It imports neither Textual nor paramiko; SSH is in `cluster`.
"""
