"""What importing the package brings in."""

import subprocess
import sys

import pytest


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
