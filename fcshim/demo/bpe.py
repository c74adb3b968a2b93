"""Byte-level BPE tokenizer: GPT-2's splitting and byte alphabet, merges by rank, special tokens anywhere in the text.

Rule: the tokens are those of llama.cpp for `tokenizer.ggml.pre = gpt-2`; a test compares them with a real llama-server.
"""

import functools
import itertools
import re
import unicodedata

from fcshim.demo.gguf_file import ModelVocabulary

_SPLIT = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII)
"""GPT-2's pattern for ASCII, because `re` has no \\p{L} and \\p{N}; `_ascii_equivalent` maps other characters."""


class Tokenizer:
    """Encodes text and decodes tokens with one vocabulary."""

    def __init__(self, vocabulary: ModelVocabulary) -> None:
        self._ids = {token: position for position, token in enumerate(vocabulary.tokens)}
        self._ranks = {pair: rank for rank, pair in enumerate(vocabulary.merges)}
        self._bytes = [_to_bytes(token) for token in vocabulary.tokens]
        self._special = re.compile(
            "(" + "|".join(re.escape(vocabulary.tokens[i]) for i in sorted(vocabulary.special)) + ")"
        )
        self._encode_word = functools.lru_cache(maxsize=4096)(self._merge)

    def encode(self, text: str) -> list[int]:
        """Return the token ids. The text of a special token becomes that token."""
        ids: list[int] = []
        for position, part in enumerate(self._special.split(text)):
            if position % 2:
                ids.append(self._ids[part])
            else:
                for word in split_words(part):
                    ids += self._encode_word(word)
        return ids

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of one token, which may be a part of a character."""
        return self._bytes[token]

    def _merge(self, word: str) -> tuple[int, ...]:
        parts = [_ALPHABET[byte] for byte in word.encode(errors="replace")]  # a lone surrogate has no UTF-8
        while len(parts) > 1:
            ranks = [self._ranks.get(pair, len(self._ranks)) for pair in itertools.pairwise(parts)]
            best = min(ranks)
            if best == len(self._ranks):
                break
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return tuple(self._ids[part] for part in parts)


def split_words(text: str) -> list[str]:
    """Split text as GPT-2 does before merging: words, numbers and others, each with an optional space before it."""
    ascii_text = text if text.isascii() else "".join(map(_ascii_equivalent, text))
    return [text[match.start() : match.end()] for match in _SPLIT.finditer(ascii_text)]


@functools.lru_cache(maxsize=4096)
def _ascii_equivalent(character: str) -> str:
    if character.isascii():
        return character
    if character.isspace():
        return "\t"
    return {"L": "Z", "N": "0"}.get(unicodedata.category(character)[0], "!")


def _byte_alphabet() -> list[str]:
    """Return GPT-2's table of bytes: printable Latin-1 maps to itself, other bytes to characters from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


_ALPHABET = _byte_alphabet()
_BYTES = {character: byte for byte, character in enumerate(_ALPHABET)}


def _to_bytes(token: str) -> bytes:
    return bytes(_BYTES[c] for c in token) if all(c in _BYTES for c in token) else token.encode()
