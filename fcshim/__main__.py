"""`python -m fcshim` is the `fcshim` command.

Rule: nothing here but the hand-over.
Neighbours: `cli`.
"""

import sys

from fcshim.cli import main

sys.exit(main())
