"""Report which vectors pass, with the reason of each failure: `python -m tests.parse [FILE ...]`.

Rule: without names, every vector file is checked.
"""

import sys

from tests.parse.cases import VECTORS, Case, check, load


def main(names: list[str]) -> int:
    """Check the named vector files, or all; return 1 if a vector fails."""
    failed = 0
    for name in names or sorted(path.stem for path in VECTORS.glob("*.json")):
        cases = load(name)
        failures = [(case.name, failure) for case in cases if (failure := _failure(case))]
        failed += len(failures)
        print(f"{name}: {len(cases) - len(failures)} of {len(cases)} pass")
        for case_name, failure in failures:
            print(f"  {case_name}: {failure}")
    return 1 if failed else 0


def _failure(case: Case) -> str | None:
    try:
        check(case)
    except Exception as error:  # noqa: BLE001  whatever a case raises is its report
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
