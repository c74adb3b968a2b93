"""The suites of others, as their packages: `python -m tests.conformance.environment` installs them.

Rule: only their data is read, so each is unpacked into a folder of its own and nothing of it is imported.
"""

import subprocess
import sys
from pathlib import Path

CANITOOLCALL = "canitoolcall==0.1.1"
FOLDER = Path(__file__).parents[2] / ".cache" / "conformance" / "python"
FIXTURES = FOLDER / "canitoolcall" / "_data" / "fixtures"


def main() -> None:
    """Install the suites that are missing."""
    if not FIXTURES.is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--target", FOLDER, CANITOOLCALL], check=True)


if __name__ == "__main__":
    main()
