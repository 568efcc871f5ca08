"""The glossary: every word is used and explained, and its first use in a chapter says what it is."""

from __future__ import annotations

import re
from pathlib import Path

import site_glossary

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / site_glossary.DATA).read_text(encoding="utf-8")
WORDS = site_glossary.words_of(TEXT)
CHAPTERS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "chapters").glob("*.md"))}


def prose(text):
    """A chapter without its code cells."""
    return re.sub(r"^```\{code-cell\}.*?^```$", "", text, flags=re.M | re.S)


def test_each_word_is_used_in_a_chapter():
    used = set()
    for chapter, text in CHAPTERS.items():
        words = [word for word in WORDS.values() if word.chapter <= int(chapter[:2])]
        (found,) = site_glossary.first_uses([prose(text)], words, site_glossary.everyday_of(TEXT))
        used |= {name for *_, name in found}
    assert not set(WORDS) - used


def test_first_uses_are_found_once_and_the_longest_wins():
    words = [
        WORDS[name] for name in ("policy", "policy gradient", "vanilla policy gradient", "KL divergence")
    ]
    texts = [
        "Vanilla policy gradient. A policy-like thing.",
        "The policies? Policy gradients: a policy; KL, kl.",
    ]
    first, then = site_glossary.first_uses(texts, words)
    assert [(texts[0][a:b], name) for a, b, name in first] == [
        ("Vanilla policy gradient", "vanilla policy gradient")
    ]
    assert [(texts[1][a:b], name) for a, b, name in then] == [
        ("Policy gradients", "policy gradient"),
        ("policy", "policy"),
        ("KL", "KL divergence"),
    ]
