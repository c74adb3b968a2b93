"""Writes the golden corpus anew: `python -m tests.golden`. A commit that changes it says why."""

from tests.golden.corpus import DATA, make


def main() -> None:
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
