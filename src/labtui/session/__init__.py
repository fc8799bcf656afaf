"""The lab folder's store, the session, and the worker: the one thread that owns SSH.

What may not enter: Textual, paramiko (that is `cluster`), drawing.
"""
