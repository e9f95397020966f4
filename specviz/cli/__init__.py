"""The command line's commands, one file each. `python -m specviz --help` shows them.

A command takes the parsed options and two text streams, and returns the process's exit code.
ValueError or OSError means its input cannot be used; nothing has been run then.
"""

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
