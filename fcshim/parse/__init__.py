"""Text to events: `stream` is the parser, `dialects` the table of formats, `limits` what may grow.

    text -> stream -> machine (finds calls) -> a body reader (json, tagged, literals) -> arguments -> sink -> events

Rule: body readers depend on the contracts (`body`, `dialect`, `sink`, ...) and never on the machine; the machine gets
each reader from the dialect table and depends on none of them.
"""
