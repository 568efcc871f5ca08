"""Progress of a run on stderr: a bar, or nothing."""

from line import fit


def test_the_bar_says_how_far_it_is_unless_it_is_to_be_quiet(capfd, monkeypatch):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    fit()
    out, err = capfd.readouterr()
    assert out == ""
    assert "a line: 100%" in err
    assert "7.00/7.00" in err
    fit(progress=False)
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("TQDM_DISABLE", "1")
    fit()
    assert capfd.readouterr().err == ""
