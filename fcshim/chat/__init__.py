"""The terminal agent behind `fcshim chat`: one turn for scripts, or an interactive conversation.

Rule: text of a model or a tool never controls the terminal; rich and prompt-toolkit are imported where they are used.
"""
