"""Model files: the sizes and weights of a `Decoder`, or of a `Scalar` on one."""

from __future__ import annotations

import io
import pickle
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ppobook import validation
from ppobook.language.model import Decoder, DecoderConfig, Scalar
from ppobook.run.files import atomic_write
from ppobook.run.machine import checked_device, float32_on_cpu


def save_model(model: Decoder | Scalar, path: str | Path) -> None:
    """Write a decoder, or a `Scalar` on one, to a file. An interruption leaves an existing file whole.

    Raises
    ------
    TypeError
        The model is neither, or the path is none.
    OSError
        The path is a folder, or in a folder that does not exist.
    """
    path = validation.path("path", path, "a file")
    if path.is_dir():
        raise OSError(f"path must be a file, got the folder {str(path)!r}")
    if not path.parent.is_dir():
        raise OSError(f"path must be a file in an existing folder, got {str(path)!r}")
    decoder = model.body if isinstance(model, Scalar) else model
    if not isinstance(decoder, Decoder):
        raise TypeError(f"model must be a Decoder, or a Scalar on one, got {validation.got_instead(decoder)}")
    content = {
        "config": asdict(decoder.config),
        "scalar": isinstance(model, Scalar),
        "bias": isinstance(model, Scalar) and model.output.bias is not None,
        "weights": model.state_dict(),
    }
    buffer = io.BytesIO()
    torch.save(content, buffer)
    atomic_write(path, buffer.getvalue())


@float32_on_cpu()
def load_model(path: str | Path, device: str | torch.device = "cpu") -> Any:
    """The `Decoder` or `Scalar` in a file written by `save_model`. No code in the file is run.

    Raises
    ------
    FileNotFoundError
    ValueError
        The file holds no model, or is damaged.
    """
    device = checked_device(device)
    path = validation.path("path", path, "a file")
    if path.is_dir():
        raise OSError(
            f"path must be a file written by save_model, got the folder {path}. The model of a run is "
            f"load({str(path)!r}).model"
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"path must be a file written by save_model, got {path}, which does not exist"
        )
    try:
        validation.whole_archive(path)
        content = torch.load(path, map_location=device, weights_only=True)
        if not isinstance(content, dict):
            raise TypeError(f"a {type(content).__name__}")
        config, weights = DecoderConfig(**content["config"]), content["weights"]
        model: Any = Decoder(config)
        if content["scalar"]:
            model = Scalar(model, content["bias"])
        model.to(device=device, dtype=next(iter(weights.values())).dtype).load_state_dict(weights)
    except (
        pickle.UnpicklingError,
        LookupError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
        EOFError,
        zipfile.BadZipFile,
    ) as error:
        raise ValueError(
            f"path must be a file written by save_model, got {path} ({validation.reason(error)})"
        ) from None
    return model
