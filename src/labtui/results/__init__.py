"""Numbers a student can be graded on: from runs to rows, laws, predictions and charts as data.

`compute.compute_results` is the entry. Pure: no file, clock, pandas or numpy.
"""
