"""What all tests share: how Hypothesis searches."""

import os

from hypothesis import settings

# No deadline: how long one example takes says more about the machine than about the code; speed has its own tests.
settings.register_profile("developer", deadline=None)
# CI tests the change and not its luck: the same examples each time, and no database of earlier failures.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "developer")
