"""Finds what a shell command runs: plain lines are read exactly, everything else with a parser of Bash.

Rule: what cannot be determined is reported as unknown, and permission rules then ask the user.
"""
