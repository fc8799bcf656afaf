"""Reads logs: bytes, in chunks of any size, become runs with epochs, their uncertainty, outcome and diagnosis.

`lines` splits bytes into lines; `forms` has the readers that say what a line means; `fold` decides which run it belongs
to; `diagnosis` finds why a training ended; `reader` combines them. No bytes in a log raise an error.
"""

PARSER_VERSION = 77
"""Increase it with each change of what is read: runs computed by another version are computed again."""
