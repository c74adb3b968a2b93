"""What a shell command runs, as far as it can be read: plain lines exactly, everything else by a parser of Bash.

Rule: what is not known is reported as unknown, and permission rules turn that into a question.
"""
