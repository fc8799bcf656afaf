"""The lab folder's store, the session, and the worker, the only thread that uses SSH.

Imports neither Textual nor paramiko; SSH is in `cluster`.
"""
