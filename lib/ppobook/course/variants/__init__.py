"""Private variants of exercises, so that graded work is not a copy of the book's public solutions.

What may vary stands beside each master (`declarations`). A variant is drawn from a course's secret:

    declaration = declared("exercises/masters/01_vanilla_policy_gradient.md")["pg-loss"]
    variant = draw(secret, "week-01", "pg-loss", declaration)
    variant.statement, variant.apply(notebook)      # for the student
    variant.adapter(function)                       # what the check is given
    variant.reference(solution)                     # the master's solution in this form
"""

from .declarations import Declaration, Option, beside, declared, lettered
from .drawing import Variant, draw, variant
from .forms import Form, book_form

__all__ = [
    "Declaration",
    "Form",
    "Option",
    "Variant",
    "beside",
    "book_form",
    "declared",
    "draw",
    "lettered",
    "variant",
]
