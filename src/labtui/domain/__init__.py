"""The pure heart: from bytes and command output to events, numbers and decisions.

Pure: no file, socket, thread or clock. Times are arguments; results are frozen values.
"""
