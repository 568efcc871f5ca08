def draw(a, b):
    pass


def write():
    pass
