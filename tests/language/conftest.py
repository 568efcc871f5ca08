"""Fixtures of the tests with transformers, peft and TRL, which are skipped without them."""

import pytest
import small_trl
from small_pretrained import KINDS, net_of, words


@pytest.fixture(scope="module")
def transformers():
    module = pytest.importorskip("transformers")
    module.logging.disable_progress_bar()
    return module


@pytest.fixture
def peft(transformers):
    return pytest.importorskip("peft")


@pytest.fixture(params=KINDS)
def net(request, transformers):
    return net_of(request.param)


@pytest.fixture(scope="module")
def folders(transformers, tmp_path_factory):
    """One model a folder, as a user has them."""
    made = {}
    for kind in KINDS:
        made[kind] = tmp_path_factory.mktemp(kind)
        net_of(kind).save_pretrained(made[kind])
        words().save_pretrained(made[kind])
    return made


@pytest.fixture(scope="module")
def trl():
    module = pytest.importorskip("trl")
    import datasets
    import transformers

    datasets.disable_progress_bars()
    transformers.logging.disable_progress_bar()
    return module


@pytest.fixture(scope="module")
def reference_folder(trl, tmp_path_factory):
    """The folder from which TRL's samplers load their reference: the one named in their model's config."""
    folder = tmp_path_factory.mktemp("reference")
    small_trl.net_of(1).save_pretrained(folder)
    return str(folder)
