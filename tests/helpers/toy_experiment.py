"""A function that worker processes can import: they know `tests/helpers`, not the test modules."""


def height(seed, slope):
    return {"height": slope + seed}
