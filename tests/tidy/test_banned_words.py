"""Words that the tree does without (banned_words.txt, one a line): a sentence names the component that acts."""

from __future__ import annotations

import re
from pathlib import Path

from test_tree import text_of, tracked

WORDS = frozenset(Path(__file__).with_name("banned_words.txt").read_text().split())
# Words of text, and of identifiers in snake_case, CamelCase and UPPER_CASE.
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def banned_in(files: dict[str, str]) -> list[str]:
    """`FILE:LINE: WORD` of each; the file's name is line 0."""
    return [
        f"{name}:{number}: {word}"
        for name, text in files.items()
        for number, line in enumerate([name, *text.split("\n")])
        for word in WORD.findall(line)
        if word.lower() in WORDS
    ]


def test_no_banned_words() -> None:
    found = banned_in({name: text_of(name) for name in tracked() if re.search(r"\.(h|cpp|py|md)$", name)})
    assert found == [], f"{len(found)} banned words:\n" + "\n".join(found)


def test_a_banned_word_would_be_seen() -> None:
    word = sorted(WORDS)[0]
    upper, camel = word.upper(), word.capitalize()
    texts = [word, f"({camel}'s)", f"is_{word}_", f"k{camel}", f"{camel}Count", f"{upper}_MAX", f"get{camel}"]
    assert banned_in({f"{word}.h": ""}) == [f"{word}.h:0: {word}"]
    for text in texts:
        assert len(banned_in({"a.h": f"first\n{text} last"})) == 1, text
    assert banned_in({"a.h": f"x{word} {word}x in{word} {camel}x"}) == []
