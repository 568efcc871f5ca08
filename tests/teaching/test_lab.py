"""The cards with which checks answer in JupyterLab."""

from ppobook.teaching import lab

SAID = """✗ Not right: a < b
  Seen: 1.
  Read: chapter 4, Generalized advantage estimation, “Where episodes end,
    and why” (sec-gae-ends)."""


def test_a_card_escapes_what_the_reader_wrote():
    assert "a &lt; b" in lab.card(SAID)


def test_a_card_links_to_the_section_where_the_chapter_is_at_hand(tmp_path, monkeypatch):
    for folder in ("chapters", "exercises"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "exercises")
    assert "<a" not in lab.card(SAID)
    (tmp_path / "chapters/04_gae.ipynb").touch()
    assert 'href="../chapters/04_gae.ipynb#Where-episodes-end,-and-why"' in lab.card(SAID)


def test_without_a_kernel_nothing_is_shown():
    assert not lab.show(SAID)
