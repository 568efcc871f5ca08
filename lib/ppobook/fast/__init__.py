"""Fast forms: they return what a plain form elsewhere in the package returns, and take less time.

Every fast form has a test that it equals its plain form, and saves at least a tenth of a training step.
What has one declares so, `declare.fast_form`; `choose` is the only place where plain or fast is chosen. The
setting ``fast=False`` (or PPOBOOK_FAST=0 in the environment) selects the plain forms throughout.
"""
