"""The proxy's bytes and prompts are those of the golden corpus. `python -m tests.golden` writes it anew."""

import pytest

from tests.golden.corpus import DATA, UPSTREAMS, prompts, wire


def frozen(path: str) -> str:
    return (DATA / path).read_bytes().decode()


def cases(page: str) -> dict[str, str]:
    """Split a file of the corpus into its cases."""
    return dict(part.split("\n", 1) for part in page.split("######## ") if part)


@pytest.mark.parametrize("upstream", UPSTREAMS, ids=lambda upstream: upstream.name)
async def test_client_bytes_are_those_of_the_corpus(upstream):
    for client, found in (await wire(upstream)).items():
        expected = cases(frozen(f"wire/{upstream.name}/{client}.txt"))

        assert expected == {case: f"{text}\n" for case, text in found.items()}, client


async def test_prompts_are_those_of_the_corpus():
    found = await prompts()

    assert sorted(path.stem for path in (DATA / "prompts").iterdir()) == sorted(found)
    for dialect, page in found.items():
        assert cases(frozen(f"prompts/{dialect}.txt")) == cases(page), dialect
