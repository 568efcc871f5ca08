"""The page that is built of each deck in slides/."""

import re
from pathlib import Path

import pytest

from ppobook.course import slides

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
DECKS = [ROOT / "slides" / f"{chapter.stem}.md" for chapter in CHAPTERS]


@pytest.mark.parametrize("deck", DECKS, ids=lambda path: path.stem[:2])
def test_the_page_is_one_file_with_its_figures_and_their_alternative_texts(deck: Path) -> None:
    page, text = slides.build(deck), deck.read_text(encoding="utf-8")
    assert page == slides.build(deck)
    without_scripts = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert not re.search(r"<link|<script src|@import|https?:", without_scripts)
    assert set(re.findall(r"url\((\w+):", without_scripts)) == {"data"}
    images = re.findall(r"<img[^>]*>", without_scripts)
    assert len(images) == text.count("![](") > 0
    for image in images:
        assert re.fullmatch(r'<img src="data:image/[^"]+" alt="[^"]{20,}">', image), image[-200:]
    assert page.count("<section>") == page.count("<aside class='notes'>") == len(slides.split(text))
