"""The pure heart: from bytes and command output to events, numbers and decisions.

What may not enter: files, sockets, threads, clocks, Textual, paramiko, pandas, numpy.
Times come in as arguments; results go out as frozen values.
"""
