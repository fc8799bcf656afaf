"""Plots, tables and decks from the same `ChartSpec` and results the screens show.

Heavy libraries (matplotlib, pandas, python-pptx, typst) are imported inside functions.
"""
