"""Reading logs: from bytes in any chunks to runs, epochs with their uncertainty, outcome and diagnosis.

`lines` cuts bytes into lines; `forms` is the table of readers that say what a line means; `fold` decides which run it
belongs to; `diagnosis` finds why a training ended; `reader` puts them together. Nothing here raises on strange bytes.
"""

PARSER_VERSION = 16
"""Grows with each change of what is read: runs computed by another version are computed again."""
