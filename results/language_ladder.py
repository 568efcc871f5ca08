"""The judge's ladder on the tiny language world: what each seed's judge says of more and more kind words.

Gold likes up to three kind words in a text and dislikes further ones. Judges have seen few texts with more
than three. What does each of `language_chain.py` say of texts which follow grammar and prompt, and have 0 to
6? (`ppobook.language.ladder`.) `accuracy` is the share of the 500 pairs held out, labels as noisy as those
learned from, that it told apart when its training ended. Nothing is tuned; every seed is reported.
"""

from language_chain import FRESH, begun, summed_up

from ppobook.experiments import record
from ppobook.language import World, ladder


def one(seed: int, judge: str) -> list[dict]:
    run = begun(seed)[1]
    accuracy = run.history["eval_accuracy"].dropna().iloc[-1]
    rungs = ladder(run.model, World())[["kind", "gold", "proxy", "proxy_std"]]
    return rungs.assign(accuracy=accuracy).to_dict("records")


if __name__ == "__main__":
    record(
        "language_ladder",
        one,
        [{"judge": "defaults"}],
        seeds=FRESH,
        workers=1,
        digits=4,
        note="Nothing tuned; every seed reported.",
    )
    summed_up("language_ladder", ["kind"], ["gold", "proxy", "accuracy"])
