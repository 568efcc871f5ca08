"""Model files; and what importing the package brings in."""

import os
import pickle
import subprocess
import sys

import pytest
import torch
from small_language import rough_decoder
from spoiling import spoil

from ppobook.language.model import Decoder, Scalar
from ppobook.language.rewards import RewardModel
from ppobook.language.serialization import load_model, save_model

TOKENS = torch.tensor([[5, 3, 1, 7, 2], [4, 4, 0, 0, 0]])
MASK = TOKENS != 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_model_comes_back_from_its_file(tmp_path, dtype):
    model = rough_decoder(dtype=dtype)
    save_model(model, tmp_path / "model.pt")
    found = load_model(tmp_path / "model.pt")
    assert isinstance(found, Decoder)
    assert found.config == model.config
    assert torch.equal(found(TOKENS, MASK), model(TOKENS, MASK))
    for bias in (True, False):
        critic = Scalar(model, bias=bias)
        with torch.no_grad():
            critic.output.weight += 1
        save_model(critic, str(tmp_path / "critic.pt"))
        found = load_model(str(tmp_path / "critic.pt"))
        assert isinstance(found, Scalar)
        assert (found.output.bias is not None) == bias
        assert torch.equal(found(TOKENS, MASK), critic(TOKENS, MASK))
    judge = RewardModel(model, "last")
    judge.zero.fill_(0.5)
    save_model(judge, tmp_path / "judge.pt")
    found = load_model(tmp_path / "judge.pt")
    assert (found.pooling, found.zero) == ("last", 0.5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["critic.pt", "judge.pt", "model.pt"]


class Bomb:
    def __reduce__(self):
        return print, ("this ran",)


def test_a_file_that_holds_no_model_is_refused(tmp_path, capsys):
    path = tmp_path / "model.pt"
    with pytest.raises(FileNotFoundError):
        load_model(path)
    contents = [b"", b"no model", pickle.dumps(Bomb(), protocol=2)]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(ValueError, match="path must be a file written by save_model"):
            load_model(path)
    for content in ({"config": 3}, [1, 2], torch.zeros(2), Bomb()):
        torch.save(content, path)
        with pytest.raises(ValueError, match="path must be a file written by save_model"):
            load_model(path)
    assert "this ran" not in capsys.readouterr().out
    save_model(rough_decoder(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="path must be a file written by save_model"):
        load_model(path)
    path.write_bytes(whole)
    spoil(path)
    with pytest.raises(ValueError, match=r"must be a file written by save_model, got .* is damaged"):
        load_model(path)


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    model = rough_decoder()
    save_model(model, tmp_path / "model.pt")

    def full(file):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        save_model(rough_decoder(seed=1), tmp_path / "model.pt")
    monkeypatch.undo()
    assert torch.equal(load_model(tmp_path / "model.pt").wte.weight, model.wte.weight)


def test_importing_the_package_brings_in_little():
    code = (
        "import sys, ppobook.language as l;"
        "print([m for m in ('torch', 'transformers') if m in sys.modules]);"
        "l.generate; print([m for m in ('transformers', 'gymnasium', 'pandas') if m in sys.modules]);"
        "print(all(getattr(l, name) is not None and name in dir(l) for name in l.__all__))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["[]", "[]", "True"]
    import ppobook.language

    with pytest.raises(AttributeError, match="no attribute 'generated'"):
        _ = ppobook.language.generated
