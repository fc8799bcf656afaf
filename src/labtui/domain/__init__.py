"""Records, intervals, errors and the profile of a cluster, shared by all packages.

Pure: no file, socket, thread or clock. Times are arguments; results are frozen values.
"""
