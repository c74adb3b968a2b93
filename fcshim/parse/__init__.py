"""Text to events: `stream` is the parser, `dialects` the table of formats, `limits` what may grow.

    text -> stream -> machine (finds calls) -> a body reader (json, tagged, literals) -> arguments -> sink -> events

Rule: readers know the contracts (`body`, `dialect`, `sink`, ...) and never the machine; the machine knows no reader, it
asks a row of the table for one.
Neighbours: `grammars/` says what bodies may look like, `prompt` writes what is read here.
"""
