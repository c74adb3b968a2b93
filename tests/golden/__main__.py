"""Writes the golden corpus anew: `python -m tests.golden`. A commit that changes it says why."""

from unittest.mock import patch

from fcshim.upstream import model_resolution
from tests.golden.corpus import DATA, make


async def list_nothing(_: object) -> model_resolution.ServedModels:
    """Stand in for the list of models, for which the scripts have no reply, as in the tests."""
    return model_resolution.ServedModels(())


def main() -> None:
    with patch.object(model_resolution, "list_served", list_nothing):
        made = make()
    for folder in ("wire", "prompts"):
        for path in (DATA / folder).rglob("*.txt"):
            if str(path.relative_to(DATA)) not in made:
                path.unlink()
    for name, text in made.items():
        path = DATA / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    print(f"{len(made)} files")


main()
