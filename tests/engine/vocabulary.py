"""Two vocabularies trained on calls: one like SentencePiece's, with byte fallback, and a byte-level one like GPT-2's.

Rule: merges may cross any boundary (`>\\n{"` can be one token), as in real vocabularies.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product

from gguf import TokenType

MERGES = 380
LONGEST = 12
"""Characters of one piece. In so small a corpus, longer pieces would be whole lines, and leave nothing to split."""
START, END = "<|im_start|>", "<|im_end|>"


@dataclass(frozen=True, slots=True)
class Token:
    """One token as a GGUF file has it."""

    text: bytes
    type: TokenType = TokenType.NORMAL
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A tokenizer as a GGUF file has it; `kind` is GGUF's word for its algorithm."""

    kind: str
    tokens: list[Token]
    merges: list[str]
    bos: int
    eos: int


def byte_tokens(vocabulary: Vocabulary) -> dict[int, int]:
    """Return the ids of the tokens of single bytes."""
    ids = {token.text: at for at, token in enumerate(vocabulary.tokens)}
    if vocabulary.kind == "llama":
        return {byte: ids[f"<0x{byte:02X}>".encode()] for byte in range(256)}
    return {byte: ids[char.encode()] for byte, char in enumerate(_printable_bytes())}


def sentencepiece_vocabulary() -> Vocabulary:
    """Pieces of characters; a rare character becomes byte tokens."""
    lines = [line.replace(" ", "\u2581") for line in corpus()]
    counts = Counter("".join(lines))
    alphabet = [character for character, count in counts.most_common() if count > 8]
    pieces = [*alphabet, *("".join(pair) for pair in learn_merges(lines, MERGES, set(alphabet)))]
    tokens = [
        Token(b"<unk>", TokenType.UNKNOWN),
        Token(b"<s>", TokenType.CONTROL),
        Token(b"</s>", TokenType.CONTROL),
        *(Token(f"<0x{byte:02X}>".encode(), TokenType.BYTE) for byte in range(256)),
        *(Token(piece.encode(), score=-float(rank)) for rank, piece in enumerate(dict.fromkeys(pieces))),
        Token(START.encode(), TokenType.CONTROL),
        Token(END.encode(), TokenType.CONTROL),
    ]
    return Vocabulary("llama", tokens, [], bos=1, eos=len(tokens) - 1)


def byte_level_vocabulary() -> Vocabulary:
    """Pieces of bytes, each written as GPT-2's printable character for it."""
    characters = _printable_bytes()
    lines = ["".join(characters[byte] for byte in line.encode()) for line in corpus()]
    merges = learn_merges(lines, MERGES, set(characters))
    pieces = dict.fromkeys([*characters, *("".join(pair) for pair in merges)])
    tokens = [
        *(Token(text, TokenType.CONTROL) for text in (b"<|endoftext|>", START.encode(), END.encode())),
        *(Token(piece.encode()) for piece in pieces),
    ]
    return Vocabulary("gpt2", tokens, [" ".join(pair) for pair in merges], bos=0, eos=2)


def corpus() -> Iterator[str]:
    """Yield calls, and sentences like those around them."""
    names = ["get_weather", "search", "send_email", "read_file"]
    values = [
        "Paris",
        "Zürich",
        "北京",
        "naïve café",
        "notes/a.txt",
        'a "quoted" word',
        "back\\slash",
        "😀 ok",
        42,
        None,
    ]
    for name, value in product(names, values):
        arguments = {"city": value, "days": [1, {"unit": "celsius"}]}
        spaced = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
        dense = json.dumps({"arguments": arguments, "name": name}, separators=(",", ":"))
        yield f"I will call it.\n<function_call>\n{spaced}\n</function_call>\n"
        yield f"<function_call>{dense}</function_call> The answer for {value} is here."


def learn_merges(lines: Iterable[str], count: int, alphabet: set[str]) -> list[tuple[str, str]]:
    """Byte-pair encoding: join the most frequent pair, `count` times at most; only the alphabet joins."""
    merges = []
    texts = [list(line) for line in lines]
    for _ in range(count):
        pairs = Counter(pair for text in texts for pair in pairwise(text))
        for pair in list(pairs):
            if len("".join(pair)) > LONGEST or not alphabet.issuperset("".join(pair)):
                del pairs[pair]
        if not pairs:
            break
        # Ties go to the smaller pair, so that the result does not depend on the order of counting.
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        texts = [_join(text, best) for text in texts]
    return merges


def _join(text: list[str], pair: tuple[str, str]) -> list[str]:
    joined: list[str] = []
    position = 0
    while position < len(text):
        if tuple(text[position : position + 2]) == pair:
            joined.append("".join(pair))
            position += 2
        else:
            joined.append(text[position])
            position += 1
    return joined


def _printable_bytes() -> list[str]:
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]
