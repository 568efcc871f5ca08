"""What --list refuses beside it, since it would read nothing of it; and options that are cut short."""

import pytest

from ppobook.cli.main import main


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("train ppo --list --hidden 3", "--hidden must be left out with --list"),
        ("train ppo --list --total-steps 64", "--total-steps must be left out with --list"),
        ("train ppo --list --out run", "--out must be left out with --list"),
        ("train ppo --list --quiet", "--quiet must be left out with --list"),
        ("train ppo --list --env Nope-v0", "env must be the id of a known environment"),
        ("language sft --list --updates 3", "--updates must be left out with --list"),
        ("language sft --list --world nouns=3", "--world must be left out with --list"),
        ("train ppo --env CartPole-v1 --tot 32", "Did you mean --total-steps?"),
        ("train ppo --env CartPole-v1 --hidden none", "hidden must be numbers, as in 1,2, or () for none"),
        ("train ppo --env CartPole-v1 --env-kwargs a=1", "as in {'slip': 0.1}, got 'a=1'"),
    ],
)
def test_what_is_refused(line, said, capsys):
    assert main(line.split()) == 2
    heard = capsys.readouterr()
    assert said in heard.err
    assert heard.err.count("\n") == 1
    assert not heard.out


def test_a_list_for_an_environment_has_its_preset(capsys):
    assert main(["train", "vanilla", "--list", "--env=CartPole-v1"]) == 0
    assert "(default: 0.003)" in capsys.readouterr().out
