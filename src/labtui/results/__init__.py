"""Numbers a student can be graded on: from runs to rows, laws, predictions and charts as data.

Enter through `compute.compute_results`. What may not enter: files, clocks, pandas, numpy.
"""
