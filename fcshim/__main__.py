"""`python -m fcshim` runs the `fcshim` command."""

import sys

from fcshim.cli import main

sys.exit(main())
