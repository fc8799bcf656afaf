"""Reading logs: from bytes in any chunks to runs, epochs with their uncertainty, outcome and diagnosis.

`lines` cuts and reduces; `keras`, `mlperf`, `run_headers`, `trainers` and `diagnosis` know what lines look like;
`run_tracker` knows which run a line belongs to; `reader` puts them together. What may not enter: files,
and anything that would raise on strange bytes.
"""
