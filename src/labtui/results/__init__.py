"""Turns runs into result rows, fitted laws, outlooks and charts as data.

`compute.compute_results` is the entry point. Pure: uses no file, clock, pandas or numpy.
"""
